"""The learner report: one sampled projection, its replay, names, identities and refusals, all computed."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from .._engine.checks import U64_LIMIT, as_u64
from .._engine.gains import XavierScale, xavier_scale
from .._engine.generator import SplitMix64
from ..errors import DuplicateName, InitializationError, InvalidNameCharacter, ZeroFanIn
from ..parameters import NamedParameter, NamedParameters
from ..views.result import Result
from ..views.table import Table
from .symmetry import SymmetryProbe, zero_symmetry_probe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FAN_IN, _FAN_OUT = 2, 2
_PROJECTION = "decoder.block.0.attention.query.weight"
_TABLE, _VOCABULARY, _WIDTH = "token_embedding.weight", 4, 2


@dataclass(frozen=True, slots=True)
class LearnerReport(Result):
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
        The gradient that zero weights get; no sampler draws them.
    parameters : tuple of str
        Name and shape of each collected parameter, in declaration order.
    clone_same_node, recreated_same_node : bool
        Whether a copy, and an equal reconstruction, share the projection's leaf.
    invalid_name, zero_fan_in, duplicate_name : str or None
        The errors of three wrong requests; None where a request was not refused as it must be.
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
    def passed(self) -> bool:
        """Whether every check of the report came out as the lesson says."""
        return all(
            (
                self.same_seed_reproduces,
                self.different_seed_differs,
                self.symmetry.passed,
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
        scale = self.scale
        return [
            f"seed: {self.seed}",
            f"projection: shape={scale.fan_in}x{scale.fan_out} fan_in={scale.fan_in} fan_out={scale.fan_out}",
            f"target variance: {scale.target_variance:.12f}",
            f"uniform limit: {scale.uniform_limit:.12f}",
            f"weights: {','.join(f'{weight:.12f}' for weight in self.weights)}",
            f"same seed reproduces: {_word(self.same_seed_reproduces)}",
            f"different seed differs: {_word(self.different_seed_differs)}",
            *self.symmetry.lines(),
            f"parameters: {' | '.join(self.parameters)}",
            f"identity: clone-same-node={_word(self.clone_same_node)} "
            f"recreated-same-node={_word(self.recreated_same_node)}",
            f"validation: {' | '.join(self._refused()) or 'none'}; rng-unchanged={_word(self.rng_unchanged)}",
            f"chapter 18 handoff: {'initialize a trainable token table' if self.handoff else 'no token table'}",
        ]

    def _refused(self) -> list[str]:
        """Return the labels of the requests that were refused as they must be."""
        errors = {
            "invalid-name": self.invalid_name,
            "duplicate-name": self.duplicate_name,
            "zero-fan-in": self.zero_fan_in,
        }
        return [label for label, error in errors.items() if error]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return {**dataclasses.asdict(self), "holds": self.passed}

    def tables(self) -> tuple[Table, ...]:
        """Return the lines as a table."""
        rows = tuple(tuple(line.split(": ", 1)) for line in self.lines())
        return (Table("Every value is computed for this report, none is typed in.", ("what", "found"), rows),)

    def figure(self) -> Figure:
        """Return the drawing: the weights beside the gradient of zeros; needs matplotlib."""
        from .report_views import figure  # noqa: PLC0415

        return figure(self)

    def page(self) -> str:
        """Return the report as one self-contained HTML page; needs matplotlib."""
        from .report_views import page  # noqa: PLC0415

        return page(self)


def learner_report(seed: SupportsIndex = 17, alternate_seed: SupportsIndex | None = None) -> LearnerReport:
    """Compute the learner report.

    Parameters
    ----------
    seed, alternate_seed : int
        0 to 2**64 - 1; the alternate is the next one unless it is given.

    Returns
    -------
    LearnerReport
        The facts, each computed anew.

    Raises
    ------
    TypeError, ValueError
        For a seed of a wrong type or range.

    Examples
    --------
    >>> from fastinit.lessons import learner_report
    >>> report = learner_report()
    >>> report.passed
    True
    >>> print(report.lines()[4])
    weights: 0.004950883736,-0.265932089217,-0.420504358848,-0.676313443233
    """
    first, other = _seeds(seed, alternate_seed)
    rng = SplitMix64(first)
    projection, replayed, alternate = map(_projection, (rng, SplitMix64(first), SplitMix64(other)))
    table = NamedParameter.xavier_uniform(_TABLE, _VOCABULARY, _WIDTH, rng)
    clone = copy.copy(projection)
    collection = NamedParameters([clone, table])
    return LearnerReport(
        seed=first,
        alternate_seed=other,
        scale=xavier_scale(_FAN_IN, _FAN_OUT),
        weights=tuple(projection.tensor.value.values.ravel().tolist()),
        same_seed_reproduces=_same_bits(projection, replayed),
        different_seed_differs=not _same_bits(projection, alternate),
        symmetry=zero_symmetry_probe(),
        parameters=tuple(f"{p.name}[{'x'.join(map(str, p.tensor.shape))}]" for p in collection),
        clone_same_node=projection.tensor.is_same_node(clone.tensor),
        recreated_same_node=projection.tensor.is_same_node(replayed.tensor),
        **_refusals(rng, [projection, clone]),
        handoff=_is_token_table(collection.get(_TABLE)),
    )


def _seeds(seed: SupportsIndex, alternate_seed: SupportsIndex | None) -> tuple[int, int]:
    first = as_u64(seed, "seed")
    if alternate_seed is None:
        return first, (first + 1) % U64_LIMIT
    return first, as_u64(alternate_seed, "alternate_seed")


def _projection(rng: SplitMix64) -> NamedParameter:
    return NamedParameter.xavier_uniform(_PROJECTION, _FAN_IN, _FAN_OUT, rng)


def _refusals(rng: SplitMix64, twice: list[NamedParameter]) -> dict[str, Any]:
    """Return the errors of three wrong requests, and whether `rng` stayed where it was."""
    before = rng.state
    sample = NamedParameter.xavier_uniform
    return {
        "invalid_name": _refusal(lambda: sample("Decoder.weight", 2, 2, rng), InvalidNameCharacter),
        "zero_fan_in": _refusal(lambda: sample("decoder.invalid.weight", 0, 2, rng), ZeroFanIn),
        "duplicate_name": _refusal(lambda: NamedParameters(twice), DuplicateName),
        "rng_unchanged": rng.state == before,
    }


def _refusal(request: Callable[[], Any], expected: type[InitializationError]) -> str | None:
    """Return the error's class and sentence, or None where the request was not refused with it."""
    try:
        request()
    except expected as error:
        return f"{type(error).__name__}: {error}"
    except InitializationError:
        return None
    return None


def _is_token_table(found: NamedParameter | None) -> bool:
    return found is not None and found.tensor.is_trainable and found.tensor.shape == (_VOCABULARY, _WIDTH)


def _same_bits(left: NamedParameter, right: NamedParameter) -> bool:
    return np.array_equal(left.tensor.value.values.view(np.uint64), right.tensor.value.values.view(np.uint64))


def _word(truth: bool) -> str:
    return "true" if truth else "false"
