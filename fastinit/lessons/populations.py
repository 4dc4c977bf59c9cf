"""Three 64 x 64 populations: measured histograms, and the signal variance expected after each layer.

Zero weights, Xavier weights, and the same Xavier draws at twice the limit. `Populations.lines` is their trace,
lines of ``KIND key=value ...`` whose numbers have 12 decimals; `trace.py` reads it back.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.checks import U64_LIMIT, as_u64
from .._engine.gains import xavier_scale
from ..functions import initialize
from ..initializers import ZEROS, Initializer, VarianceScaling
from ..views.result import Result
from ..views.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 64
"""Inputs and outputs of each matrix."""
LAYERS = 4
"""Layers that the expected variance is followed through."""
INPUT_VARIANCE = 1.0
"""Of the signal before the first layer."""
EDGES = tuple(k / 20 for k in range(-9, 10, 2))
"""Of the nine bins, -0.45 to 0.45: the middle one is around 0. Each is the float64 nearest to its decimal."""
FACTORS = {"zero": 0.0, "oversized": 2.0, "xavier": 1.0}
"""kind of population -> the factor on Xavier's limit."""
TRACE = "parameter-initialization-v2"
"""Name and version of the trace: a published format, with a published text for seed 17."""
DECIMALS = "z.12f"
"""How the trace writes numbers; z: no -0.000000000000."""
DISPLAYED = "z.4f"
"""How it writes them once more, for a caption."""


@dataclass(frozen=True, slots=True)
class Population:
    """The weights of one [64, 64] matrix in numbers, and the signal variance expected of such layers.

    Attributes
    ----------
    kind : str
        A key of `FACTORS`.
    seed : int or None
        Of its draws; None where it takes none.
    limit : float
        All weights lie in [-limit, limit).
    min, max, mean, variance : float
        Measured: of the stored weights, the variance about that mean and divided by their number.
    counts : tuple of int
        Weights a bin of `EDGES`; a bin holds its left edge, the last one both.
    underflow, overflow : int
        Weights below the first bin, and above the last.
    expected_variances : tuple of float
        Expected, not measured: of a signal before any layer and after each of `LAYERS` linear layers with
        independent weights of the variance that `limit` stands for.
    """

    kind: str
    seed: int | None
    limit: float
    min: float
    max: float
    mean: float
    variance: float
    counts: tuple[int, ...]
    underflow: int
    overflow: int
    expected_variances: tuple[float, ...]

    @property
    def percentages(self) -> tuple[float, ...]:
        """The counts in percent of all weights."""
        return tuple(100 * count / WIDTH**2 for count in self.counts)


@dataclass(frozen=True, slots=True)
class Populations(Result):
    """The three populations of one seed, and how they belong together.

    Attributes
    ----------
    seed, alternate_seed : int
        The seed of the populations, and the one the Xavier population is compared with.
    members : tuple of Population
        Zero, oversized, Xavier.
    base_draws_equal : bool
        Whether half of every oversized weight is the Xavier weight, to the bit.
    limit_ratio : float
        The oversized limit over Xavier's.
    same_seed_equal, alternate_seed_different : bool
        Whether the seed gives the Xavier bits again, and the alternate seed others.
    """

    seed: int
    alternate_seed: int
    members: tuple[Population, ...]
    base_draws_equal: bool
    limit_ratio: float
    same_seed_equal: bool
    alternate_seed_different: bool

    @property
    def passed(self) -> bool:
        """Whether the populations differ in scale only, and replay."""
        return (
            self.base_draws_equal
            and self.limit_ratio == FACTORS["oversized"] / FACTORS["xavier"]
            and self.same_seed_equal
            and self.alternate_seed_different
        )

    @property
    def edges(self) -> tuple[float, ...]:
        """The edges of the bins: `EDGES`."""
        return EDGES

    def lines(self) -> list[str]:
        """Return the trace: 15 lines, to be compared with diff and read back by `parse_trace`."""
        return [
            f"TRACE {TRACE} BEGIN",
            _fixture(self.seed),
            _binning(),
            *(line for p in self.members for line in (_distribution(p), _histogram(p))),
            f"PAIRING seed={self.seed} base-draws-equal={_word(self.base_draws_equal)} "
            f"oversized-to-xavier-limit={self.limit_ratio:{DECIMALS}}",
            *map(_propagation, self.members),
            f"REPRODUCIBILITY seed={self.seed} same-seed-equal={_word(self.same_seed_equal)} "
            f"alternate-seed={self.alternate_seed} "
            f"alternate-seed-different={_word(self.alternate_seed_different)}",
            f"TRACE {TRACE} END",
        ]

    def tables(self) -> tuple[Table, ...]:
        """Return the measured moments, the measured histogram, and the variance expected at each layer."""
        return self._moments(), self._histograms(), self._expected()

    def _moments(self) -> Table:
        return Table(
            f"Measured: the {WIDTH**2} weights of each matrix. The target is the variance of the distribution "
            "they are drawn from; one finite matrix need not meet it.",
            ("population", "limit", "min", "max", "mean", "variance", "target variance"),
            tuple((p.kind, p.limit, p.min, p.max, p.mean, p.variance, p.limit**2 / 3) for p in self.members),
        )

    def _histograms(self) -> Table:
        return Table(
            f"Measured: weights a bin, and their share of all {WIDTH**2}. A bin holds its left edge, the last "
            "one both.",
            ("bin", *(name for p in self.members for name in (p.kind, f"{p.kind} %"))),
            tuple(self._bin(b) for b in range(len(EDGES) - 1)),
        )

    def _bin(self, b: int) -> tuple[str | float, ...]:
        cells = (cell for p in self.members for cell in (p.counts[b], p.percentages[b]))
        return (f"{EDGES[b]:.2f} to {EDGES[b + 1]:.2f}", *cells)

    def _expected(self) -> Table:
        return Table(
            "Expected, not measured: the variance of a signal before any layer and after each linear layer, with "
            "independent zero-centered inputs and weights.",
            ("population", *(f"layer {layer}" for layer in range(LAYERS + 1))),
            tuple((p.kind, *p.expected_variances) for p in self.members),
        )

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        members = [{**dataclasses.asdict(p), "percentages": p.percentages} for p in self.members]
        return {**dataclasses.asdict(self), "members": members, "edges": EDGES, "holds": self.passed}

    def figure(self) -> Figure:
        """Return the drawing: histograms beside the variances expected; needs matplotlib."""
        from .populations_views import figure  # noqa: PLC0415

        return figure(self)

    def page(self) -> str:
        """Return the populations as one self-contained HTML page; needs matplotlib."""
        from .populations_views import page  # noqa: PLC0415

        return page(self)


def _fixture(seed: int) -> str:
    return (
        f"FIXTURE name=fixed-seed-width{WIDTH} generator=splitmix64 mapping=top53-affine seed={seed} "
        f"shape={WIDTH}x{WIDTH} samples={WIDTH**2} fan-in={WIDTH} fan-out={WIDTH} statistic=population-two-pass "
        f"layers={_joined(range(LAYERS + 1))} propagation=expected-linear-independent "
        f"input-variance={INPUT_VARIANCE:{DECIMALS}} display-input-variance={INPUT_VARIANCE:.0f}"
    )


def _binning() -> str:
    width = EDGES[1] - EDGES[0]
    return (
        f"BINNING edges={_joined(EDGES, DECIMALS)} display-edges={_joined(EDGES, '.2f')} width={width:{DECIMALS}} "
        f"display-width={width:.2f} closure=left-closed-right-open-last-closed"
    )


def _distribution(p: Population) -> str:
    numbers = {"limit": p.limit, "min": p.min, "max": p.max, "mean": p.mean, "variance": p.variance}
    exact = " ".join(f"{key}={value:{DECIMALS}}" for key, value in numbers.items())
    # rounded from what the trace says: a reader has no more digits
    displayed = " ".join(f"display-{key}={round(value, 12):{DISPLAYED}}" for key, value in numbers.items())
    return f"DISTRIBUTION kind={p.kind} seed={'none' if p.seed is None else p.seed} {exact} {displayed}"


def _histogram(p: Population) -> str:
    return (
        f"HISTOGRAM kind={p.kind} counts={_joined(p.counts)} bar-percent={_joined(p.percentages, DECIMALS)} "
        f"display-percent={_joined(p.percentages, '.1f')} underflow={p.underflow} overflow={p.overflow}"
    )


def _propagation(p: Population) -> str:
    variances = p.expected_variances
    return (
        f"PROPAGATION kind={p.kind} variances={_joined(variances, DECIMALS)} "
        f"display-variances={_joined(variances, 'z.0f')}"
    )


def _joined(values: Iterable[float], form: str = "") -> str:
    return ",".join(f"{value:{form}}" for value in values)


def _word(truth: bool) -> str:
    return "yes" if truth else "no"


def measure_populations(seed: SupportsIndex = 17, alternate_seed: SupportsIndex | None = None) -> Populations:
    """Draw the three populations of `seed` and measure them.

    Parameters
    ----------
    seed, alternate_seed : int, optional
        0 to 2**64 - 1; the alternate is the next one unless it is given.

    Returns
    -------
    Populations
        The same numbers on every machine: sums are exact before they are rounded once.

    Raises
    ------
    TypeError, ValueError
        For a seed of a wrong type or range.

    Examples
    --------
    >>> from fastinit.lessons.populations import measure_populations
    >>> found = measure_populations()
    >>> zero, oversized, xavier = found.members
    >>> zero.counts
    (0, 0, 0, 0, 4096, 0, 0, 0, 0)
    >>> f"{xavier.variance:.6f} measured, {1 / 64:.6f} the target"
    '0.015801 measured, 0.015625 the target'
    >>> oversized.variance / xavier.variance
    4.0
    >>> oversized.expected_variances
    (1.0, 4.0, 16.0, 64.0, 256.0)
    """
    first = as_u64(seed, "seed")
    other = (first + 1) % U64_LIMIT if alternate_seed is None else as_u64(alternate_seed, "alternate_seed")
    weights = {kind: _weights(kind, first) for kind in FACTORS}
    members = {
        kind: population(kind, first, **moments(matrix), **histogram(matrix)) for kind, matrix in weights.items()
    }
    xavier = weights["xavier"].tobytes()
    return Populations(
        seed=first,
        alternate_seed=other,
        members=tuple(members.values()),
        base_draws_equal=(weights["oversized"] / 2).tobytes() == xavier,
        limit_ratio=members["oversized"].limit / members["xavier"].limit,
        same_seed_equal=_weights("xavier", first).tobytes() == xavier,
        alternate_seed_different=_weights("xavier", other).tobytes() != xavier,
    )


def _weights(kind: str, seed: int) -> npt.NDArray[np.float64]:
    return initialize((WIDTH, WIDTH), seed, _initializer(kind))


def _initializer(kind: str) -> Initializer:
    """Return Xavier's uniform initializer with its limit times the kind's factor; zeros take no draws."""
    factor = FACTORS[kind]
    return VarianceScaling(factor**2, "fan_avg", "uniform") if factor else ZEROS


def population(kind: str, seed: int, **measured: Any) -> Population:
    """Return a population: what was measured of it, and the seed, limit and variances that its kind implies."""
    distribution = _initializer(kind).for_shape((WIDTH, WIDTH))
    return Population(
        kind=kind,
        seed=seed if distribution.draws_per_weight else None,
        limit=distribution.support[1],
        expected_variances=expected_variances(FACTORS[kind] ** 2 * xavier_scale(WIDTH, WIDTH).target_variance),
        **measured,
    )


def moments(values: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the extremes, the mean, and the variance about it (two passes; divided by n, not n - 1)."""
    mean = math.fsum(values.flat) / values.size
    return {
        "min": float(values.min()),
        "max": float(values.max()),
        "mean": mean,
        "variance": math.fsum(((values - mean) ** 2).flat) / values.size,
    }


def histogram(values: npt.NDArray[np.float64]) -> dict[str, Any]:
    """Count `values` in the bins of `EDGES`, below the first and above the last; ValueError for a NaN."""
    counts, _ = np.histogram(values, EDGES)
    missing = int(np.count_nonzero(np.isnan(values)))
    if missing:
        raise ValueError(f"{missing} of {values.size} values are NaN and belong in no bin")
    return {
        "counts": tuple(counts.tolist()),
        "underflow": int(np.count_nonzero(values < EDGES[0])),
        "overflow": int(np.count_nonzero(values > EDGES[-1])),
    }


def expected_variances(weight_variance: float) -> tuple[float, ...]:
    """Return the signal variance expected at layers 0 to `LAYERS`, each `WIDTH` wide and linear.

    A layer sums `WIDTH` products of independent zero-centered factors, so it multiplies the variance by
    ``WIDTH * weight_variance`` (Glorot and Bengio 2010, eq. 5).
    """
    return tuple(INPUT_VARIANCE * (WIDTH * weight_variance) ** layer for layer in range(LAYERS + 1))
