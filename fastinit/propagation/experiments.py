"""Networks worth measuring: one on several seeds, several side by side, with and without residual scaling.

`propagate` measures one network, `measure` any number of them. The comparison that a lesson talks about stands in
`lesson_networks.py`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._engine.checks import as_u64
from .._engine.cpus import default_threads
from .._engine.threads import in_order
from ..initializers import ZEROS, Initializer, Normal, Residual, kaiming, lecun, xavier
from .mean_field import Magnitudes, expected
from .result import Comparison, Propagation, Signal
from .stack import Measurement, Stack, as_count

if TYPE_CHECKING:
    from ..replay import Progress

RUN_BYTES = 1024
"""Bytes for each queued network and its result, measured."""


def propagate(
    activation: str,
    initializer: Initializer | str,
    layers: int = 50,
    width: int = 512,
    *,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    residual: bool = False,
    progress: Progress | None = None,
) -> Propagation:
    """Measure how large activations and gradients are at every layer of a starting network.

    Parameters
    ----------
    activation, initializer, layers, width, inputs, residual
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
        The magnitudes, those that theory expects, and the verdicts.

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
    >>> run.activations.verdict
    'holds'
    >>> [round(rms, 6) for rms in run.activations.expected]
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """
    stack = Stack(activation, initializer, layers, width, inputs, residual)  # type: ignore[arg-type]
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
    initializer: Initializer | str = "kaiming_normal",
    width: int = 512,
    inputs: int = 256,
    seeds: SupportsIndex = 5,
    seed: SupportsIndex = 17,
    *,
    progress: Progress | None = None,
) -> Comparison:
    """Compare a residual stack with and without the factor ``1 / sqrt(2 * residual_layers)``.

    Parameters
    ----------
    residual_layers : int
        The layers N of a transformer, each of which adds to the residual stream twice: 2N additions.
    activation, initializer
        As in `propagate`.
    width, inputs, seeds, seed, progress
        As in `propagate`.

    Returns
    -------
    Comparison
        Two networks, the second with the factor.
    """
    n = as_count(residual_layers, "residual_layers")
    plain = Stack(activation, initializer, 2 * n, width, inputs, residual=True)  # type: ignore[arg-type]
    scaled = replace(plain, initializer=Residual(plain.initializer, n))
    title = f"A residual stack of {2 * n} additions, without and with the factor 1 / sqrt({2 * n})"
    return Comparison(title, measure((plain, scaled), seeds, seed, progress))


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
    both, backward, distinct = zip(*found, strict=True)
    forward = np.array(both)
    forward[np.isnan(forward)] = np.inf  # the magnitude of numbers past float64's range
    means, rms, gradients = expected(
        stack.activation, stack.initializer, stack.layers, stack.width, stack.residual
    )
    return Propagation(
        stack,
        len(found),
        seed,
        _signal(forward[..., 0], means, 0),
        _signal(forward[..., 1], rms, 0),
        _signal(np.array(backward), gradients, stack.layers),
        min(distinct),
    )


def _signal(sizes: npt.NDArray[Any], of_theory: Magnitudes | None, start: int) -> Signal:
    median, low, high = np.median(sizes, axis=0), sizes.min(axis=0), sizes.max(axis=0)
    return Signal(tuple(median.tolist()), tuple(low.tolist()), tuple(high.tolist()), of_theory, start)
