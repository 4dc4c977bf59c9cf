"""Findings on a whole checkpoint: tensors that a plan lacks or differs from, equal ones, and first draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._engine.fill import fill
from .._engine.initializer import Distribution
from .._files.index import Stray
from .._files.specs import is_placeholder, placeholders_sentence
from ..plan import Plan, PlannedTensor
from . import by_name
from .expected import Expected
from .result import Finding
from .stored import StoredTensor

_COMPARED = 64  # first weights that are compared with those of the plan's stream


def differences(
    tensors: Sequence[StoredTensor], plan: Plan, expected: Mapping[str, Expected | None]
) -> Iterator[Finding]:
    """Yield where a plan that was not made from the file's header describes another model.

    Parameters
    ----------
    tensors : sequence of StoredTensor
        The checkpoint's.
    plan : Plan
        The one that it is judged by.
    expected : mapping of str to Expected or None
        By tensor; a tensor that a rule decides may be absent from the plan.
    """
    shapes = {tensor.name: tensor.spec.shape for tensor in tensors}
    for name, planned in plan.items():
        if name not in shapes:
            yield Finding("missing", (name,), f"{name!r} is in the plan and not in the file")
        elif shapes[name] != planned.shape:
            yield Finding(
                "shape",
                (name,),
                f"{name!r} has shape {list(shapes[name])} where the plan has {list(planned.shape)}: its fans, and "
                "with them its spread, are not the planned ones",
            )
    for name in shapes:
        if name not in plan and expected[name] is None:
            yield Finding(
                "not in the plan",
                (name,),
                f"{name!r} is in the file and not in the plan, so nothing says how it should start",
            )


def equal(
    tensors: Sequence[StoredTensor], gathered: Mapping[str, _core.Summary], expected: Mapping[str, Expected | None]
) -> Iterator[list[StoredTensor]]:
    """Yield the groups of tensors that are equal to the bit though each should be drawn by itself.

    Equal bits have equal summaries, so only the few tensors whose summaries agree are read again, once each.

    Parameters
    ----------
    tensors : sequence of StoredTensor
        Of floating dtypes, none of them empty.
    gathered : mapping of str to Summary
        Of every tensor.
    expected : mapping of str to Expected or None
        By tensor.
    """
    alike: dict[Any, list[StoredTensor]] = {}
    for tensor in tensors:
        facts = gathered[tensor.name].facts()
        if facts["low"] == facts["high"] or not _should_differ(tensor, expected[tensor.name]):
            continue
        key = (tensor.spec.dtype.name, *(np.float64(value).tobytes() for value in facts.values()))
        alike.setdefault(key, []).append(tensor)
    yield from (group for some in alike.values() for group in _equals(some) if len(group) > 1)


def equal_finding(group: Sequence[StoredTensor]) -> Finding:
    """Return the finding on a group of tensors that are equal to the bit."""
    names = tuple(tensor.name for tensor in group)
    return Finding(
        "equal",
        names,
        f"{', '.join(map(repr, names))} are equal to the bit: right only for tied weights; else one seed was "
        "used twice, and a stream per name would part them",
    )


def unlike_the_index(strays: Iterable[Stray]) -> Iterator[Finding]:
    """Yield where a shard holds a tensor that the index omits, or puts elsewhere."""
    for stray in strays:
        yield Finding("not in the index", (stray.name,), str(stray))


def placeholders(tensors: Sequence[StoredTensor]) -> Iterator[Finding]:
    """Yield one finding on the weights that a partitioned save left empty."""
    names = tuple(tensor.name for tensor in tensors if is_placeholder(tensor.name, tensor.spec))
    if names:
        yield Finding("placeholder", names, placeholders_sentence(names))


def _should_differ(tensor: StoredTensor, e: Expected | None) -> bool:
    """Say whether a tensor is drawn, and has so many different values that no other equals it by chance."""
    if e is None:
        return by_name.is_usually_drawn(tensor.name, tensor.spec)
    return e.is_drawn and not e.may_be_equal(tensor.spec.size)


def _equals(tensors: Sequence[StoredTensor]) -> Iterable[list[StoredTensor]]:
    """Return the tensors grouped by their bytes; no pairs are compared, for shuffled weights sum up alike."""
    groups: dict[bytes, list[StoredTensor]] = {}
    if len(tensors) > 1:
        for tensor in tensors:
            groups.setdefault(tensor.digest(), []).append(tensor)
    return groups.values()


def first_draws(tensors: Sequence[StoredTensor], planned: Mapping[str, PlannedTensor]) -> tuple[int, int]:
    """Return how many tensors begin with the very weights that the plan's streams draw, and of how many.

    Tensors are compared where they keep the plan's shape and dtype, and where their first weights can be drawn
    without the whole.
    """
    equal = compared = 0
    for tensor in tensors:
        wanted = planned.get(tensor.name)
        if wanted is None or (wanted.shape, wanted.dtype) != (tensor.spec.shape, tensor.spec.dtype):
            continue
        if not wanted.draws or not wanted.distribution.by_element:
            continue
        first, made = _first_run(wanted)
        compared += 1
        equal += tensor.read(first * wanted.dtype.itemsize, bytearray(len(made))) == made
    return equal, compared


def _first_run(wanted: PlannedTensor) -> tuple[int, bytes]:
    """Return where weights are first drawn in a row, and the first of them as they are stored, little-endian."""
    content, first, count = wanted.distribution, 0, wanted.size
    if content.is_divided:
        content, first, count = _longest_run(wanted)
    count = min(_COMPARED, count)
    part = fill(
        wanted.state,
        (wanted.size,),
        content,
        dtype=wanted.dtype,
        index=slice(first, first + count),
        out=np.empty(count, wanted.dtype.bits),
    )
    return first, part.astype(part.dtype.newbyteorder("<")).tobytes()


def _longest_run(wanted: PlannedTensor) -> tuple[Distribution, int, int]:
    """Return the part whose drawn elements begin with the most in a row, where they begin, and their number."""
    runs = [
        (part.shape[-1] if part.draws and part.draws[-1] == 1 else 1, part.first, content)
        for content, _, part in wanted.distribution.regions(wanted.shape, None)
        if content.draws_per_weight
    ]
    count, first, content = max(runs, key=lambda run: run[:2])
    return content, first, count
