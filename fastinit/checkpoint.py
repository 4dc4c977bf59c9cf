"""Verify a ``.safetensors`` file, or the shards of an index, from itself alone; `writing` writes them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex

from ._files.index import in_folder, is_index, missing, strays, weight_map
from ._files.opening import open_file
from ._files.safetensors import PLAN_PREFIX, read_header
from .errors import CheckpointError, FastinitError
from .plan import VERSION, Plan
from .provenance import departures, follows, is_seeded, specs_of_plan
from .replay import Mismatch, Progress, Stored, mismatches

__all__ = ["Mismatch", "Progress", "Verification", "verify_checkpoint"]


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify_checkpoint` found; truthy where every byte is right and the plan is the one demanded.

    Attributes
    ----------
    plan : Plan
        The plan that the file's own metadata and header describe. Every byte was compared with it.
    mismatches : tuple of Mismatch
        One per tensor that differs.
    follows : bool
        Whether the plan's seed, policy and order make it again. Where they do not, they are labels that whoever
        wrote the file chose: the bytes follow from the plan, and nothing says where the plan comes from.
    is_seeded : bool
        Whether each tensor that draws has the stream that the plan's seed and order give it: all that a file can
        show where a model's code or a user's rules made the plan.
    departures : tuple of str
        How the plan departs from the seed, policy or plan demanded, in sentences.
    approximate : tuple of str
        Orthogonal tensors that are not equal to the bit, but within the bound that another LAPACK may cause.
    """

    plan: Plan
    mismatches: tuple[Mismatch, ...]
    follows: bool
    is_seeded: bool
    departures: tuple[str, ...] = ()
    approximate: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not (self.mismatches or self.departures)


def verify_checkpoint(
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    seed: SupportsIndex | None = None,
    policy: str | None = None,
    plan: Plan | None = None,
) -> Verification:
    """Regenerate a checkpoint from the plan in its own header and compare every byte.

    That the bytes follow from the plan in the file does not say who made the plan: see `Verification.follows`, and
    demand a seed, a policy or a plan.

    Given data, which no seed makes, is judged by the digest in the plan.

    Orthogonal tensors are the exception: LAPACK decides their last bits, so a weight may lie as far from the one
    made here as the contract allows, ``1e-12 / min(1, smallest abs(R[j, j]))`` times the gain.

    Parameters
    ----------
    path : str or path
        A file that `write_checkpoint` wrote; or the ``.safetensors.index.json`` of several such files, each with
        the seed, policy and order of the others; or the folder of either.
    progress : callable, optional
        As for `write_checkpoint`.
    seed, policy : int and str, optional
        The plan in the file must be the one that they make of the file's tensors; the one that is not given is
        the file's own.
    plan : Plan, optional
        The plan in the file must be this one; instead of a seed and policy.

    Returns
    -------
    Verification
        Truthy where every byte is right and the plan is the one demanded; else it names each tensor that differs
        and where, and how the plan departs.

    Raises
    ------
    CheckpointError
        If the file is not a ``.safetensors`` file, or not one that fastinit wrote, or its metadata contradicts
        itself, or it becomes shorter while it is read; if an index names a tensor that its shard lacks, or its
        shards are of two models.
    TypeError, ValueError
        If `plan` is no Plan or given beside a seed or policy, or the seed or policy is none.

    Examples
    --------
    >>> import fastinit, tempfile
    >>> specs = {"w": {"dtype": "F32", "shape": [64, 64]}}
    >>> with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
    ...     _ = fastinit.write_checkpoint(fastinit.Plan.from_specs(specs, seed=17), file.name, force=True)
    ...     found = fastinit.verify_checkpoint(file.name)
    ...     other = fastinit.verify_checkpoint(file.name, seed=18)
    >>> bool(found), found.follows, bool(other), other.departures
    (True, True, False, ('its seed is 17; 18 was demanded',))
    """
    path = in_folder(Path(path))
    try:
        with contextlib.ExitStack() as stack:
            found, pieces, strange = _opened(path, stack)
            unlike = (*strange, *departures(found, plan, seed, policy))
            approximate: list[str] = []
            wrong = tuple(_all_mismatches(pieces, progress, approximate))
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error
    return Verification(found, wrong, follows(found), is_seeded(found), unlike, tuple(approximate))


_Pieces = list[tuple[Plan, Stored]]


def _opened(path: Path, stack: contextlib.ExitStack) -> tuple[Plan, _Pieces, tuple[str, ...]]:
    """Return the plan of a file or of all shards, each file with its own plan, and where the index is wrong."""
    if not is_index(path):
        plan, stored = _opened_file(path, stack)
        return plan, [(plan, stored)], ()
    homes = weight_map(path)
    files = {shard: _opened_file(path.parent / shard, stack) for shard in sorted(set(homes.values()))}
    held = {shard: plan for shard, (plan, _) in files.items()}
    for name, home in homes.items():
        if name not in held[home]:
            raise CheckpointError(f"{path}: {missing(name, home, held)}")
    return _joined(path, homes, held), list(files.values()), tuple(map(str, strays(homes, held)))


def _opened_file(path: Path, stack: contextlib.ExitStack) -> tuple[Plan, Stored]:
    file = stack.enter_context(open_file(path))
    header = read_header(file, str(path))
    plan = described_plan(header.specs, header.metadata, path)
    return plan, Stored(file.fileno(), str(path), header.offsets)


def _joined(path: Path, homes: dict[str, str], held: dict[str, Plan]) -> Plan:
    """Return the plans of all shards as one, or refuse shards that no one plan makes."""
    first, plan = next(iter(held.items()))
    for shard, other in held.items():
        for label in ("seed", "policy", "order"):
            one, two = getattr(plan, label), getattr(other, label)
            if one != two:
                raise CheckpointError(f"{path}: {first} has {label} {one!r} and {shard} has {two!r}: two models")
    try:
        return Plan(plan.seed, plan.policy, plan.order, [held[home][name] for name, home in homes.items()])
    except FastinitError as error:
        raise CheckpointError(f"{path}: {error}") from error


def _all_mismatches(pieces: _Pieces, progress: Progress | None, approximate: list[str]) -> Iterator[Mismatch]:
    done, total = 0, sum(plan.nbytes for plan, _ in pieces)
    for plan, stored in pieces:
        yield from mismatches(plan, stored, _moved(progress, done, total), approximate)
        done += plan.nbytes


def _moved(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return the progress of a piece as that of the whole."""
    return None if progress is None else lambda done, _, name: progress(before + done, total, name)


def is_described(metadata: dict[str, str]) -> bool:
    """Say whether a header's metadata claims to hold the plan of its file."""
    return any(key.startswith(PLAN_PREFIX) for key in metadata)


def described_plan(layout: dict[str, Any], metadata: dict[str, str], path: Path) -> Plan:
    """Return the plan that the header of a file written by `write_checkpoint` describes.

    Raises
    ------
    CheckpointError
        If its metadata is not what `write_checkpoint` wrote.
    """
    facts = {
        key.removeprefix(PLAN_PREFIX): value for key, value in metadata.items() if key.startswith(PLAN_PREFIX)
    }
    missing = {"version", "seed", "policy", "order"} - facts.keys()
    if missing:
        raise CheckpointError(
            f"{path} was not written by fastinit: its metadata lacks {', '.join(sorted(missing))}, "
            "so there is no plan in it to verify it against"
        )
    if facts["version"] != str(VERSION):
        raise CheckpointError(f"{path} has plan version {facts['version']!r}; this fastinit reads {VERSION}")
    if not (facts["seed"].isascii() and facts["seed"].isdigit() and len(facts["seed"]) <= 20):
        raise CheckpointError(f"{path} has seed {facts['seed']!r}; expected an integer")
    try:
        if "plan" not in facts:
            return Plan.from_specs(layout, int(facts["seed"]), facts["policy"], order=facts["order"])
        plan = Plan.from_json(facts["plan"])
        _refuse_contradiction(plan, layout, facts)
        return plan
    except (FastinitError, ValueError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _refuse_contradiction(plan: Plan, layout: dict[str, Any], facts: dict[str, str]) -> None:
    """Refuse a header that says one thing and holds a plan that says another: nobody could say which is meant."""
    if specs_of_plan(plan) != layout:
        raise CheckpointError("the plan in its metadata is not one of the tensors in its header")
    for key, planned in (("seed", str(plan.seed)), ("policy", plan.policy), ("order", plan.order)):
        if facts[key] != planned:
            raise CheckpointError(
                f"its metadata contradicts itself: {key} {facts[key]!r}, but the plan in it has {key} {planned!r}"
            )
