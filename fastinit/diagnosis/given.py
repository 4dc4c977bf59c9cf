"""Given data, of which a plan knows the digest alone: it is compared, and nothing is said of its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .._engine.given import DIGEST_BYTES
from ..plan import PlannedTensor
from .expected import Expected
from .result import Finding
from .stored import StoredTensor


def given_data(
    tensors: Sequence[StoredTensor],
    planned: Mapping[str, PlannedTensor],
    expected: Mapping[str, Expected | None],
) -> dict[str, bool]:
    """Return the tensors that are given data in the plan, and whether each can be compared: it was not cast since.

    A tensor that a rule decides is judged by the rule.
    """
    return {
        tensor.name: (wanted.dtype, wanted.shape) == (tensor.spec.dtype, tensor.spec.shape)
        for tensor in tensors
        if (wanted := planned.get(tensor.name)) is not None and wanted.is_given and expected[tensor.name] is None
    }


def other_digests(
    tensors: Sequence[StoredTensor], planned: Mapping[str, PlannedTensor], given: Mapping[str, bool]
) -> Iterator[Finding]:
    """Yield the given tensors whose bytes are others."""
    for tensor in tensors:
        if given.get(tensor.name):
            found, wanted = tensor.digest(DIGEST_BYTES).hex(), planned[tensor.name].digest
            if found != wanted:
                yield Finding("digest", (tensor.name,), _sentence(tensor.name, found, wanted))


def _sentence(name: str, found: str, wanted: str) -> str:
    return (
        f"{name!r} is given data of another digest, {found[:12]}..., where the plan has {wanted[:12]}...: it was "
        "changed since, or is another model's; copy it from a checkpoint of the plan"
    )
