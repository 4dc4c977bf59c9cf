"""Statements about the starting weights of a 784-10-10 ReLU network, each beside a measurement and its verdict.

Every verdict is computed. `fan_tables` has the figures of that network, and those of a convolution by both ways of
counting its fans. Deep stacks belong to `fastinit.propagation`: the statements about them here take the figures of
its `lesson`, of one seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from .._engine.axes import fans
from .._engine.checks import U64_LIMIT, as_u64
from .._engine.gains import xavier_scale
from .._engine.generator import SplitMix64, stream_for
from .._engine.streams import GAMMA_INVERSE
from ..autodiff import SGD, Tensor
from ..functions import initialize, normal
from ..initializers import ZEROS, Initializer, Normal, kaiming, xavier
from ..parameters import NamedParameter, NamedParameters
from ..propagation import lesson_run
from ..views.result import Result
from ..views.table import Table, captioned
from .digits import CLASSES, Digits, Floats, load_digits
from .forward_pass import FirstPass, first_pass
from .network import epochs_of, forward, initial, run
from .training import HIDDEN, STARTS

if TYPE_CHECKING:
    from ..replay import Progress

_NETWORKS = 10  # measured for the claim on far weights: of one network in 400, no weight lies beyond 0.6
_KERNEL = (3, 3, 1, 32)
_RATE = 0.03


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement.

    Attributes
    ----------
    said : str
        The statement.
    measured : str
        The figures that decide it.
    holds : bool
        Whether they bear it out.
    instead : str
        The correction of a false statement; the reason for a true one.
    """

    said: str
    measured: str
    holds: bool
    instead: str


@dataclass(frozen=True, slots=True)
class Claims(Result):
    """The statements, and the fans and scales they rest on.

    Attributes
    ----------
    source : str
        The data.
    seed : int
        Of all weights.
    claims : tuple of Claim
        The statements.
    first_pass : FirstPass
        One image on its first way through the network.
    fan_tables : tuple of Table
        The network's figures and the convolution's, as `fan_tables` returns them.
    """

    source: str
    seed: int
    claims: tuple[Claim, ...]
    first_pass: FirstPass
    fan_tables: tuple[Table, ...]

    def tables(self) -> tuple[Table, ...]:
        """Return the statements, the first pass, the network's figures and the convolution's."""
        rows = tuple((c.said, "holds" if c.holds else "does not hold", c.measured, c.instead) for c in self.claims)
        caption = f"Said and measured, on {self.source}, seed {self.seed}"
        said = Table(caption, ("said", "verdict", "measured", "what is so"), rows)
        return (said, *self.first_pass.tables(), *self.fan_tables)

    def lines(self) -> list[str]:
        """Return the statements in paragraphs, then the tables of the first pass and of fans."""
        lines = []
        for claim in self.claims:
            verdict = "holds" if claim.holds else "does not hold"
            lines += [f"said:     {claim.said}", f"measured: {claim.measured}", f"{verdict}: {claim.instead}", ""]
        return lines + captioned((*self.first_pass.tables(), *self.fan_tables))

    def facts(self) -> dict[str, Any]:
        """Return the statements as plain data, and the tables' rows by their columns."""
        return {
            "source": self.source,
            "seed": self.seed,
            "claims": [asdict(claim) for claim in self.claims],
            "first_pass": self.first_pass.facts(),
            "fans": [
                dict(zip(table.columns, row, strict=True)) for table in self.fan_tables for row in table.rows
            ],
        }

    def page(self) -> str:
        """Return the statements as one self-contained HTML page."""
        from .claims_views import page  # noqa: PLC0415

        return page(self)


def check_claims(
    digits: Digits | None = None, seed: SupportsIndex = 17, *, progress: Progress | None = None
) -> Claims:
    """Measure every statement.

    Parameters
    ----------
    digits : Digits, optional
        The data; by default those of `load_digits`, 784 pixels.
    seed : int, default 17
        Of all weights; 0 to 2**64 - 1.
    progress : callable, optional
        Called as ``progress(done, total, "")`` after every statement.

    Returns
    -------
    Claims
        The statements with their verdicts, the first pass, and the tables of fans.

    Raises
    ------
    TypeError, ValueError
        For a seed of a wrong type or range; for data on which no hidden unit is on.

    Examples
    --------
    >>> from fastinit.lessons import check_claims
    >>> claim = check_claims().claims[0]
    >>> claim.said, claim.holds
    ('pixels scaled to [0, 1] have variance 1', False)
    >>> claim.measured
    'mean 0.3058, variance 0.1057, second moment 0.1992'
    """
    seed = as_u64(seed, "seed")
    if digits is None:
        digits = load_digits()
    on_pixels = (_pixels, _unit_variance, _large_weights, _small_weights)
    on_training = (_equal_weights, _zero_weights, _one_zero_weight)
    on_draws = (_draws, _within, _ten_layers, _half_a_layer, _sigmoid_stack)
    on_digits = [partial(check, digits) for check in on_pixels + on_training]
    checks: list[Callable[[int], Claim]] = [*on_digits, *on_draws]
    claims = []
    for check in checks:
        claims.append(check(seed))
        if progress is not None:
            progress(len(claims), len(checks), "")
    return Claims(digits.source, seed, tuple(claims), first_pass(digits, seed), fan_tables())


def fan_tables() -> tuple[Table, Table]:
    """Return the fans and scales of the 784-10-10 network, and of a convolution by both conventions.

    Examples
    --------
    >>> from fastinit.lessons.claims import fan_tables
    >>> network, convolution = fan_tables()
    >>> [row[1:3] for row in convolution.rows]
    [(9, 288), (9, 32)]
    """
    network = Table(
        "Computed: the two matrices of the 784-10-10 network",
        ("matrix", "weights", "fan_in", "fan_out", "Xavier variance", "Xavier sd", "He sd"),
        tuple(_matrix(f"layer.{layer}.weight", shape) for layer, shape in enumerate(_shapes())),
    )
    _, reached = fans(_KERNEL, "hwio")
    convolution = Table(
        "Computed: a 3x3 convolution from 1 channel to 32, its fan_out counted in two ways",
        ("fan_out counts", "fan_in", "fan_out", "Xavier variance", "Xavier sd"),
        (
            _kernel("outputs an input reaches: 3 * 3 * 32 (torch, JAX, Keras, fastinit.fans)", reached),
            _kernel("output channels only: 32 (give it: fan_out=32)", _KERNEL[-1]),
        ),
    )
    return network, convolution


def _matrix(name: str, shape: tuple[int, int]) -> tuple[str | float, ...]:
    """Return a row: name, size, fans and scales of an [inputs, outputs] matrix."""
    scale = xavier_scale(*fans(shape))
    he: Any = kaiming("normal").for_shape(shape)  # a distributions.Normal
    size = shape[0] * shape[1]
    return (name, size, scale.fan_in, scale.fan_out, scale.target_variance, scale.standard_deviation, he.std)


def _kernel(convention: str, fan_out: int) -> tuple[str | float, ...]:
    """Return a row: how fan_out was counted, and the convolution's fans and scales with it."""
    scale = xavier_scale(fans(_KERNEL, "hwio")[0], fan_out)
    return (convention, scale.fan_in, scale.fan_out, scale.target_variance, scale.standard_deviation)


# ---- on the data -------------------------------------------------------------------------------------


def _pixels(digits: Digits, _seed: int) -> Claim:
    pixels = digits.images
    return Claim(
        said="pixels scaled to [0, 1] have variance 1",
        measured=f"mean {pixels.mean():.4f}, variance {pixels.var():.4f}, second moment {(pixels**2).mean():.4f}",
        holds=bool(abs(pixels.var() - 1) < 0.05),
        instead="numbers in [0, 1] have a variance of at most 1/4; a layer carries on their second moment",
    )


def _unit_variance(digits: Digits, seed: int) -> Claim:
    inputs = normal((1000, digits.pixels), stream_for(seed, "claims.inputs"))
    weight = initialize((digits.pixels, HIDDEN), stream_for(seed, "layer.0.weight"), STARTS["N(0, 1)"])
    factor = float(np.var(inputs @ weight) / np.var(inputs))
    xavier_start, unit, _ = first_pass(digits, seed).passes
    return Claim(
        said="784 inputs of variance 1 and weights of variance 1 give an output variance of 784",
        measured=(
            f"inputs from N(0, 1): variance x {factor:.0f}; the pixels: second moment x {unit.factor:.0f}, and a "
            f"mean loss of {unit.mean_loss:.1f} (Xavier: x {xavier_start.factor:.2f}, and "
            f"{xavier_start.mean_loss:.2f}; even guesses: {math.log(CLASSES):.2f})"
        ),
        holds=bool(abs(factor / digits.pixels - 1) < 0.2),
        instead="784 times 1: logits become so large that a wrong one costs tens, far above even guesses",
    )


@dataclass(frozen=True, slots=True)
class _First:
    """One pass through a network at its start."""

    above: float
    """Share of the pre-activations above 0."""
    zeros: float
    """Share of the hidden units' outputs that are 0."""
    gradient: float
    """Root mean square of the first matrix's gradient."""


def _first_pass(digits: Digits, seed: int, start: str) -> _First:
    parameters = initial((digits.pixels, HIDDEN, CLASSES), STARTS[start], seed)
    hidden, logits = forward(parameters, digits.images)
    logits.cross_entropy(digits.labels).backward()
    above = float(np.mean(digits.images @ parameters[0].tensor.value.values > 0))
    return _First(above, float(np.mean(hidden.value.values == 0)), _rms(_gradient(parameters[0])))


def _large_weights(digits: Digits, seed: int) -> Claim:
    large, xavier_start = (_first_pass(digits, seed, start) for start in ("N(0, 1)", "Xavier normal"))
    return Claim(
        said="weights of variance 1 saturate the ReLU: almost all outputs are positive, and gradients vanish",
        measured=(
            f"N(0, 1): {large.above:.1%} of pre-activations are positive, gradient of the first matrix "
            f"{large.gradient:.3g} (rms); Xavier: {xavier_start.above:.1%} and {xavier_start.gradient:.3g}"
        ),
        holds=large.above > 0.9 and large.gradient < xavier_start.gradient,
        instead="ReLU has slope 1 however large its input: nothing saturates, and the gradients are larger",
    )


def _small_weights(digits: Digits, seed: int) -> Claim:
    small, large = (_first_pass(digits, seed, start) for start in ("N(0, variance 1e-5)", "N(0, 1)"))
    return Claim(
        said="weights of variance 0.00001 make the ReLU zero almost everything; gradients are zero",
        measured=(
            f"zeros: {small.zeros:.1%} at variance 1e-5, {large.zeros:.1%} at variance 1; gradient of the first "
            f"matrix at variance 1e-5: {small.gradient:.3g} (rms)"
        ),
        holds=small.zeros > 0.9 or small.gradient == 0,
        instead="the scale does not decide what is negative; signals and gradients are small, not zero",
    )


def _trained(digits: Digits, seed: int, start: Initializer, activation: str = "relu") -> NamedParameters:
    """Return the parameters after one epoch."""
    parameters = initial((digits.pixels, HIDDEN, CLASSES), start, seed)
    optimizer = SGD(parameters, _RATE)
    run(epochs_of(parameters, digits.images, digits.labels, optimizer, seed, activation), 1)
    return parameters


def _apart(parameters: NamedParameters) -> float:
    """Return how far any unit's incoming weights are from the first's, over the largest weight."""
    weight = parameters[0].tensor.value.values
    return float(np.abs(weight - weight[:, :1]).max() / (np.abs(weight).max() or 1.0))


def _equal_weights(digits: Digits, seed: int) -> Claim:
    apart = _apart(_trained(digits, seed, STARTS["constant 0.05"]))
    return Claim(
        said="with every weight 0.05 the network has 10 hidden units but 1 effective one",
        measured=f"after one epoch two units differ by at most {apart:.1g} of the largest weight",
        holds=apart < 1e-12,
        instead="equal units get equal gradients; what sets them apart is the rounding of sums, if anything",
    )


def _zero_weights(digits: Digits, seed: int) -> Claim:
    relu, sigmoid = (_trained(digits, seed, ZEROS, activation) for activation in ("relu", "sigmoid"))
    moved = [p.name for p in relu if p.tensor.value.values.any()]
    largest = float(np.abs(sigmoid[0].tensor.value.values).max())
    return Claim(
        said="all zeros fail because of symmetry",
        measured=(
            f"behind ReLU one epoch moves {', '.join(moved) or 'nothing'} only; behind a sigmoid the first matrix "
            f"reaches {largest:.2g}, and two units differ by at most {_apart(sigmoid):.1g} of that"
        ),
        holds=moved != ["layer.1.bias"] and _apart(sigmoid) < 1e-12,
        instead=(
            "behind ReLU nothing flows: the hidden units are 0, and so are both matrices' gradients; symmetry is "
            "what holds zeros back behind an activation that is not 0 there"
        ),
    )


def _one_zero_weight(digits: Digits, seed: int) -> Claim:
    parameters = initial((digits.pixels, HIDDEN, CLASSES), STARTS["He normal"], seed)
    weight = np.array(parameters[0].tensor.value.values)
    pixel, unit = _live_connection(digits, weight, seed)
    weight[pixel, unit] = 0.0
    parameters[0].tensor.assign(Tensor(weight))
    _, logits = forward(parameters, digits.images)
    logits.cross_entropy(digits.labels).backward()
    gradient = float(_gradient(parameters[0])[pixel, unit])
    SGD(parameters, _RATE).step()
    after = float(parameters[0].tensor.value.values[pixel, unit])
    return Claim(
        said="a weight that starts at zero can never learn",
        measured=(
            f"pixel {pixel} of {digits.pixels} to unit {unit}: gradient {gradient:.3g}, weight {after:.3g} after "
            "one step"
        ),
        holds=gradient == 0,
        instead="a weight's gradient is its input times its unit's error; its own value is not in it",
    )


def _live_connection(digits: Digits, weight: Floats, seed: int) -> tuple[int, int]:
    """Return the brightest pixel, and the first unit that is on for an image in which that pixel is lit.

    Without both, the gradient of the weight between them would be 0 whatever its start: it would show nothing. The
    weight itself counts as 0.
    """
    pixel = int(digits.images.sum(axis=0).argmax())
    lit = digits.images[digits.images[:, pixel] > 0]
    others = np.delete(lit, pixel, axis=1) @ np.delete(weight, pixel, axis=0)
    live = np.flatnonzero((others > 0).any(axis=0))
    if not live.size:
        raise ValueError(
            f"seed {seed}: no hidden unit is on for an image whose pixel {pixel} is lit; take another"
        )
    return pixel, int(live[0])


# ---- on the draws ------------------------------------------------------------------------------------


def _draws(seed: int) -> Claim:
    rng = SplitMix64(seed)
    counts = []
    for shape in _shapes():
        before = rng.state
        initialize(shape, rng, xavier("normal"))
        counts.append((rng.state - before) * GAMMA_INVERSE % U64_LIMIT)
    return Claim(
        said="the network takes 7,840 and 100 random numbers, 7,940 in all",
        measured=f"the generator's state moved by {counts[0]:,} and {counts[1]:,} draws, {sum(counts):,} in all",
        holds=counts == [7840, 100],
        instead="a weight takes one draw, a bias of zero takes none",
    )


def _within(seed: int) -> Claim:
    first, second = (_magnitudes(seed, layer, shape) for layer, shape in enumerate(_shapes()))
    near, far = (xavier_scale(*shape).standard_deviation for shape in _shapes())
    inside, beyond = float(np.mean(first < 0.1)), float(np.mean(second > 0.6))
    return Claim(
        said="with Xavier normal most weights of the first matrix lie within 0.1, some of the second beyond 0.6",
        measured=(
            f"{inside:.1%} and {beyond:.1%}, of {_NETWORKS} networks; the largest of the second is "
            f"{second.max():.3f}"
        ),
        holds=inside > 0.5 and beyond > 0,
        instead=(
            f"0.1 is {0.1 / near:.2f} standard deviations of the first, 0.6 is {0.6 / far:.2f} of the second: "
            f"{math.erf(0.1 / near / 2**0.5):.1%} and {math.erfc(0.6 / far / 2**0.5):.1%} are expected"
        ),
    )


def _shapes() -> tuple[tuple[int, int], tuple[int, int]]:
    return (784, HIDDEN), (HIDDEN, CLASSES)


def _magnitudes(seed: int, layer: int, shape: tuple[int, int]) -> Floats:
    """Return the magnitudes of a layer's weights in ten networks, [networks, inputs, outputs]."""
    streams = (stream_for((seed + k) % U64_LIMIT, f"layer.{layer}.weight") for k in range(_NETWORKS))
    weights: Floats = np.stack([initialize(shape, stream, xavier("normal")) for stream in streams])
    return np.abs(weights)


# ---- on depth ------------------------------------------------------------------------------------------


def _ten_layers(seed: int) -> Claim:
    run = lesson_run("linear", Normal(std=0.001**0.5), 10, seeds=1, seed=seed)
    factor = run.activations.ratio(10) ** 2
    return Claim(
        said="512 inputs and weights of variance 0.001 leave 0.512^10 = 0.00013 of the variance after 10 layers",
        measured=f"{factor:.5f} is left of the variance; 0.512^10 = {0.512**10:.5f}",
        holds=bool(abs(factor / 0.00013 - 1) < 0.5),
        instead="a factor of 807, not of 7,700",
    )


def _half_a_layer(seed: int) -> Claim:
    run = lesson_run("relu", xavier("normal"), seeds=1, seed=seed)
    ratio, layers = run.activations.ratio(run.stack.layers), run.stack.layers
    factor = ratio ** (1 / layers)
    return Claim(
        said="without He's factor 2 a ReLU layer halves the signal: 0.5^50 = 8.8e-16 after 50 layers",
        measured=(
            f"per layer the rms shrinks by {factor:.3f}, its square by {factor**2:.3f}; after {layers} layers rms "
            f"{ratio:.2g}, square {ratio**2:.2g} of the input's ({layers} x {run.stack.width})"
        ),
        holds=bool(abs(factor - 0.5) < 0.05),
        instead=(
            "half is the second moment, 8.9e-16 of it after 50 layers; the magnitude shrinks by sqrt(1/2), to "
            "3.0e-8 (both expected, at infinite width)"
        ),
    )


def _sigmoid_stack(seed: int) -> Claim:
    run = lesson_run("sigmoid", xavier("normal"), seeds=1, seed=seed)
    rms, gradient = run.activations.median[-1], run.gradients.ratio(0)
    return Claim(
        said="Xavier with sigmoid is stable: magnitude about 1.0 at layer 50",
        measured=(
            f"rms {rms:.3f} at layer 50; inputs {run.inputs_verdict}; gradients at the input are {gradient:.1g} "
            f"times those at layer 50 ({run.stack.layers} x {run.stack.width})"
        ),
        holds=bool(abs(rms - 1) < 0.1 and run.lost is None and gradient > 0.01),
        instead=(
            "activations sit near 0.5, a sigmoid's middle, whatever the input; its slope is at most 1/4, and what "
            "tells inputs apart vanishes as gradients do"
        ),
    )


# ---- gradients -----------------------------------------------------------------------------------------


def _gradient(parameter: NamedParameter) -> Floats:
    gradient = parameter.tensor.gradient_snapshot()
    assert gradient is not None, "a parameter is a trainable leaf"
    return gradient.values


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))
