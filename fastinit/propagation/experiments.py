"""Networks worth measuring: one on several seeds, several side by side, residual streams, unequal fans.

`propagate` measures one network, `measure` any number of them. The comparison that a lesson talks about stands in
`lesson_networks.py`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from .._engine.checks import as_u64
from .._engine.cpus import default_threads
from .._engine.threads import in_order
from ..functions import as_initializer
from ..initializers import ZEROS, Initializer, Normal, Residual, VarianceScaling, kaiming, lecun, xavier
from ..views.table import Table
from .activations import Function
from .mean_field import Expected, expected
from .result import Comparison, Propagation
from .signal import Layers, Profile, Signal
from .stack import Measurement, Stack, as_count

if TYPE_CHECKING:
    from ..replay import Progress

RUN_BYTES = 1024
"""Bytes for each queued network and its result, measured."""


def propagate(
    activation: str | Function,
    initializer: Initializer | str,
    layers: int = 50,
    width: int | tuple[int, ...] = 512,
    *,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    residual: bool = False,
    norm: str | None = None,
    writes: Initializer | str | None = None,
    progress: Progress | None = None,
) -> Propagation:
    """Measure how large activations and gradients are, and how different two inputs, at every layer of a network.

    Parameters
    ----------
    activation, initializer, layers, width, inputs, residual, norm, writes
        The network and its batch, as in `Stack`.
    seeds : int
        Networks measured, each with weights and inputs of its own.
    seed : int
        Of the first network; the others follow it.
    progress : callable, optional
        Called as ``progress(done, total, name)`` after every network.

    Returns
    -------
    Propagation
        What was measured, what theory expects, and the verdicts that follow.

    Raises
    ------
    ValueError, TypeError
        For an unknown activation or initializer, for a size of 0, and for sizes past this machine's memory.

    Notes
    -----
    *Reproducibility.* Weights, inputs and gradients come from the streams that `Stack.measure` names. BLAS
    multiplies in float32, so magnitudes agree to about five digits across machines.

    *Expected.* `fastinit.propagation.mean_field.expected`: means over the weights of an infinitely wide network.
    The median of a deep and narrow one lies below them, because the fluctuations of its layers multiply.

    Examples
    --------
    >>> from fastinit.propagation import propagate
    >>> run = propagate("relu", "kaiming_normal", layers=4, width=64, inputs=64, seeds=3)
    >>> run.verdict
    'magnitude holds; inputs can be told apart; gradient holds'
    >>> [round(rms, 6) for rms in run.activations.expected]
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    stack = Stack(activation, initializer, layers, width, inputs, residual, norm, writes)  # type: ignore[arg-type]
    return measure((stack,), seeds, seed, progress)[0]


def compare_initializers(
    activation: str = "relu",
    layers: int = 50,
    width: int = 512,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    *,
    progress: Progress | None = None,
) -> Comparison:
    """Compare zero, N(0, 1), N(0, 0.01), Xavier and Kaiming before an activation, and LeCun before selu.

    Parameters
    ----------
    activation : str
        Of the first five.
    layers, width, inputs, seeds, seed, progress
        As in `propagate`.

    Returns
    -------
    Comparison
        Six networks.
    """
    initializers = (ZEROS, Normal(), Normal(std=0.01), xavier("normal"), kaiming("normal"))
    stacks = [Stack(activation, initializer, layers, width, inputs) for initializer in initializers]
    stacks.append(Stack("selu", lecun("normal"), layers, width, inputs))
    return Comparison("Six starts of one network", measure(stacks, seeds, seed, progress))


def residual_stack(
    residual_layers: SupportsIndex,
    activation: str = "relu",
    initializer: Initializer | str | None = None,
    width: int = 512,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    *,
    progress: Progress | None = None,
) -> Comparison:
    """Compare residual streams, with and without a norm before each branch and the factor ``1 / sqrt(2N)``.

    Parameters
    ----------
    residual_layers : int
        The layers N of a transformer, each of which adds to the residual stream twice: 2N additions.
    activation : str
        As in `propagate`.
    initializer : Initializer or str, optional
        Of every matrix. By default each gets the gain of what it reads: LeCun's where that is a norm's output,
        Kaiming's with the activation's gain where it is the activation's.
    width, inputs, seeds, seed, progress
        As in `propagate`.

    Returns
    -------
    Comparison
        Six networks: bare, with RMSNorm and with LayerNorm, each without and with the factor on what is added.

    Notes
    -----
    Without a norm a branch of gain 1 adds as much as the stream already has, which doubles the second moment:
    2**(2N). Behind a norm it adds 1 every time, which makes it 1 + 2N, the growth in proportion to N of GPT-2 and
    its like.
    """
    n = as_count(residual_layers, "residual_layers")
    written = kaiming("normal", activation) if initializer is None else as_initializer(initializer)
    read = lecun("normal") if initializer is None else written
    plain = Stack(activation, written, 2 * n, width, inputs, residual=True)
    stacks = [plain, replace(plain, initializer=Residual(written, n))]
    for norm in ("rms", "layer"):
        for writes in (written, Residual(written, n)):
            stacks.append(replace(plain, initializer=read, norm=norm, writes=writes))
    title = f"Residual streams of {2 * n} additions, without and with the factor 1 / sqrt({2 * n})"
    return Comparison(title, measure(stacks, seeds, seed, progress))


def unequal_fans(
    widths: Sequence[int] = (1024, 256),
    activation: str = "linear",
    layers: int = 50,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    *,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the four fans that a variance can be divided by, in a network whose widths alternate.

    Parameters
    ----------
    widths : sequence of int
        Units of layers 0, 1, ... in turn.
    activation, layers, inputs, seeds, seed, progress
        As in `propagate`.

    Returns
    -------
    Comparison
        Four networks: 1 / fan_in, which keeps signals; 1 / fan_out, which keeps gradients; Xavier's 2 / (fan_in +
        fan_out); and 1 / sqrt(fan_in * fan_out).

    Notes
    -----
    A matrix multiplies the variance of signals by fan_in * Var(w) and that of gradients by fan_out * Var(w). Over
    a whole cycle of widths the first two schemes and the last keep both, because the fans cancel; Xavier's
    arithmetic mean is above the geometric one, so each change of width costs it some of both.
    """
    width = tuple(widths)
    modes = ("fan_in", "fan_out", "fan_avg", "fan_geo_avg")
    stacks = [Stack(activation, VarianceScaling(1.0, mode, "normal"), layers, width, inputs) for mode in modes]
    title = f"One variance for unequal fans: widths {', '.join(map(str, width))} in turn"
    runs = measure(stacks, seeds, seed, progress)
    return Comparison(title, runs, _kept(modes, runs))


def _kept(modes: Sequence[str], runs: Sequence[Propagation]) -> Table:
    """Return what the first matrix and all of them do to the variance of signals and gradients."""
    first, last = runs[0].stack.widths[:2], runs[0].stack.layers
    return Table(
        f"Variance after over before, of signals and gradients: the first matrix, {first[0]} to {first[1]}, then "
        f"all {last} of them; measured, then expected",
        ("variance of a weight", "signal, first", "expected", "gradient, first", "expected",
         "signal, all", "expected", "gradient, all", "expected"),
        tuple(
            (f"1 / {mode}",
             *_squares(run.activations, 0, 1), *_squares(run.gradients, 1, 0),
             *_squares(run.activations, 0, last), *_squares(run.gradients, last, 0))
            for mode, run in zip(modes, runs, strict=True)
        ),
    )  # fmt: skip


def _squares(signal: Signal, before: int, after: int) -> tuple[float, float | None]:
    expected = signal.expected
    return (
        (signal.median[after] / signal.median[before]) ** 2,
        None if expected is None else (expected[after] / expected[before]) ** 2,
    )


def measure(
    stacks: Sequence[Stack],
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    progress: Progress | None = None,
) -> tuple[Propagation, ...]:
    """Measure several networks as `propagate` measures one, on all CPUs.

    A BLAS that starts threads of its own for every product gets in the way: set ``OMP_NUM_THREADS=1`` before numpy
    is loaded, as the command does.

    Parameters
    ----------
    stacks : sequence of Stack
        The networks.
    seeds, seed, progress
        As in `propagate`.

    Returns
    -------
    tuple of Propagation
        One for each stack.
    """
    count, first = as_count(seeds, "seeds"), as_u64(seed, "seed")
    as_u64(first + count - 1, "the last seed")
    _refuse_too_large(stacks, count)
    # The products of one network wait for each other; whole networks do not.
    networks = list(product(stacks, range(first, first + count)))
    found: list[Measurement] = []
    for measurement in in_order(Stack.measure, *zip(*networks, strict=True), count=default_threads()):
        found.append(measurement)
        if progress is not None:
            progress(len(found), len(networks), networks[len(found) - 1][0].name)
    return tuple(_propagation(stack, first, found[k * count : (k + 1) * count]) for k, stack in enumerate(stacks))


def _refuse_too_large(stacks: Sequence[Stack], seeds: int) -> None:
    """Refuse networks that this machine's memory cannot hold, before a product is computed."""
    runs = len(stacks) * seeds
    largest = max(stack.nbytes for stack in stacks)
    needed = largest * min(runs, default_threads()) + runs * RUN_BYTES
    if needed > _memory():
        raise ValueError(
            f"{runs:,} networks of such sizes need {needed / 2**30:,.1f} GiB of memory, and there are "
            f"{_memory() / 2**30:,.1f}; take fewer layers, units, inputs or seeds"
        )


def _memory() -> float:
    """Return the bytes of memory of this machine; inf where it does not say."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _propagation(stack: Stack, seed: int, found: list[Measurement]) -> Propagation:
    """Reduce the measurements of all seeds to median and range, beside what is expected."""
    theory = expected(
        stack.activation, stack.initializer, stack.layers, stack.width, stack.residual, stack.norm, stack.writes
    )
    sizes, magnitudes, spread, gradients = (
        _profile(found, theory, name) for name in ("mean_magnitude", "rms", "spread", "gradients")
    )
    return Propagation(
        stack,
        len(found),
        seed,
        Profile(*sizes),
        Signal(*magnitudes, 0),
        Signal(*spread, 0),
        Profile(*_profile(found, theory, "correlation")),
        Signal(*gradients, stack.layers),
        min(each.distinct_units for each in found),
    )


def _profile(
    found: list[Measurement], theory: Expected | None, name: str
) -> tuple[Layers, Layers, Layers, Layers | None]:
    """Return median, lowest and highest over the seeds, and what is expected, of one number of every layer."""
    values = np.array([getattr(each, name) for each in found])
    if name in _SIZES:
        values[np.isnan(values)] = np.inf  # the magnitude of numbers past float64's range
    reduced = (np.median(values, axis=0), values.min(axis=0), values.max(axis=0))
    median, low, high = (tuple(each.tolist()) for each in reduced)
    return median, low, high, None if theory is None else getattr(theory, name)


_SIZES = ("mean_magnitude", "rms", "spread")
