"""The learner report: one sampled projection, its replay, names, identities and refusals, all computed."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._engine.checks import U64_LIMIT, as_u64
from .._engine.gains import XavierScale, xavier_scale
from .._engine.generator import SplitMix64
from ..errors import DuplicateName, InitializationError, InvalidNameCharacter, ZeroFanIn
from ..parameters import NamedParameter, NamedParameters
from ..views.table import Table, notebook
from .symmetry import SymmetryProbe, zero_symmetry_probe

FAN_IN, FAN_OUT = 2, 2
PROJECTION = "decoder.block.0.attention.query.weight"
TABLE, VOCABULARY, WIDTH = "token_embedding.weight", 4, 2


@dataclass(frozen=True, slots=True)
class LearnerReport:
    """The facts of the report.

    Attributes
    ----------
    seed, alternate_seed : int
        The seed of the example, and the one it is compared with.
    scale : XavierScale
        Of the projection.
    weights : tuple of float
        The projection's, row-major.
    same_seed_reproduces, different_seed_differs : bool
        Comparisons of stored bits.
    symmetry : SymmetryProbe
        What a gradient does to zero weights, which no sampler would give.
    parameters : tuple of str
        Name and shape of each collected parameter, in declaration order.
    clone_same_node, recreated_same_node : bool
        Whether a copy, and an equal reconstruction, share the projection's leaf.
    invalid_name, zero_fan_in, duplicate_name : str or None
        The three refusals' errors; None where a request was not refused as it must be.
    rng_unchanged : bool
        Whether the refusals left the generator's state as it was.
    handoff : bool
        Whether the token table is a trainable leaf that a later lesson can look rows up in.
    """

    seed: int
    alternate_seed: int
    scale: XavierScale
    weights: tuple[float, ...]
    same_seed_reproduces: bool
    different_seed_differs: bool
    symmetry: SymmetryProbe
    parameters: tuple[str, ...]
    clone_same_node: bool
    recreated_same_node: bool
    invalid_name: str | None
    zero_fan_in: str | None
    duplicate_name: str | None
    rng_unchanged: bool
    handoff: bool

    @property
    def holds(self) -> bool:
        """Whether every check of the report came out as the lesson says."""
        return all(
            (
                self.same_seed_reproduces,
                self.different_seed_differs,
                self.symmetry.holds,
                self.clone_same_node,
                not self.recreated_same_node,
                self.invalid_name,
                self.zero_fan_in,
                self.duplicate_name,
                self.rng_unchanged,
                self.handoff,
            )
        )

    def lines(self) -> list[str]:
        """Return the report as text lines; numbers have 12 decimals."""
        refused = [
            label
            for label, error in (
                ("invalid-name", self.invalid_name),
                ("duplicate-name", self.duplicate_name),
                ("zero-fan-in", self.zero_fan_in),
            )
            if error
        ]
        scale = self.scale
        return [
            f"seed: {self.seed}",
            f"projection: shape={scale.fan_in}x{scale.fan_out} fan_in={scale.fan_in} fan_out={scale.fan_out}",
            f"target variance: {scale.target_variance:.12f}",
            f"uniform limit: {scale.uniform_limit:.12f}",
            f"weights: {','.join(f'{weight:.12f}' for weight in self.weights)}",
            f"same seed reproduces: {_word(self.same_seed_reproduces)}",
            f"different seed differs: {_word(self.different_seed_differs)}",
            f"zero symmetry: output={self.symmetry.output:z.12f} "
            f"columns-equal={_word(self.symmetry.columns_equal)} "
            f"gradient={','.join(f'{slope:z.12f}' for slope in self.symmetry.gradient)}",
            f"parameters: {' | '.join(self.parameters)}",
            f"identity: clone-same-node={_word(self.clone_same_node)} "
            f"recreated-same-node={_word(self.recreated_same_node)}",
            f"validation: {' | '.join(refused) or 'none'}; rng-unchanged={_word(self.rng_unchanged)}",
            f"chapter 18 handoff: {'initialize a trainable token table' if self.handoff else 'no token table'}",
        ]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return {**dataclasses.asdict(self), "holds": self.holds}

    def tables(self) -> tuple[Table, ...]:
        """Return the lines as a table."""
        rows = tuple(tuple(line.split(": ", 1)) for line in self.lines())
        return (Table("Every value is computed for this report, none is typed in.", ("what", "found"), rows),)

    def _repr_html_(self) -> str:
        return notebook(self.tables())


def learner_report(seed: int = 17, alternate_seed: int | None = None) -> LearnerReport:
    """Compute the learner report for `seed`, beside `alternate_seed` (None: the next one)."""
    seed = as_u64(seed, "seed")
    if alternate_seed is None:
        alternate_seed = (seed + 1) % U64_LIMIT
    rng = SplitMix64(seed)
    projection = _projection(rng)
    replayed = _projection(SplitMix64(seed))
    alternate = _projection(SplitMix64(alternate_seed))
    table = NamedParameter.xavier_uniform(TABLE, VOCABULARY, WIDTH, rng)
    clone = copy.copy(projection)
    collection = NamedParameters([clone, table])

    before = rng.state
    invalid_name = _refusal(
        lambda: NamedParameter.xavier_uniform("Decoder.weight", 2, 2, rng), InvalidNameCharacter
    )
    zero_fan_in = _refusal(lambda: NamedParameter.xavier_uniform("decoder.invalid.weight", 0, 2, rng), ZeroFanIn)
    duplicate_name = _refusal(lambda: NamedParameters([projection, clone]), DuplicateName)
    found = collection.get(TABLE)
    return LearnerReport(
        seed=seed,
        alternate_seed=alternate_seed,
        scale=xavier_scale(FAN_IN, FAN_OUT),
        weights=tuple(projection.tensor.value.values.ravel().tolist()),
        same_seed_reproduces=_same_bits(projection, replayed),
        different_seed_differs=not _same_bits(projection, alternate),
        symmetry=zero_symmetry_probe(),
        parameters=tuple(f"{p.name}[{'x'.join(map(str, p.tensor.shape))}]" for p in collection),
        clone_same_node=projection.tensor.is_same_node(clone.tensor),
        recreated_same_node=projection.tensor.is_same_node(replayed.tensor),
        invalid_name=invalid_name,
        zero_fan_in=zero_fan_in,
        duplicate_name=duplicate_name,
        rng_unchanged=rng.state == before,
        handoff=found is not None and found.tensor.is_trainable and found.tensor.shape == (VOCABULARY, WIDTH),
    )


def _projection(rng: SplitMix64) -> NamedParameter:
    return NamedParameter.xavier_uniform(PROJECTION, FAN_IN, FAN_OUT, rng)


def _same_bits(left: NamedParameter, right: NamedParameter) -> bool:
    return np.array_equal(left.tensor.value.values.view(np.uint64), right.tensor.value.values.view(np.uint64))


def _refusal(request: Callable[[], Any], expected: type[InitializationError]) -> str | None:
    """Return the error's class and sentence, or None where the request was not refused with it."""
    try:
        request()
    except expected as error:
        return f"{type(error).__name__}: {error}"
    except InitializationError:
        return None
    return None


def _word(truth: bool) -> str:
    return "true" if truth else "false"
