"""Results: `TensorDiagnosis` is one tensor, `Finding` one fault or remark, `Diagnosis` the whole checkpoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._engine.dtypes import FLOATS
from .._files.specs import TensorSpec
from ..views.result import Result
from ..views.table import Cell, Table, counted, the_rest
from .expected import Expected
from .measured import Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NOT_READ = "not read"
"""The verdict on a tensor that nothing here measures, packed integers too; the others are judged all the same."""

_NAMED = 3  # tensors that a sentence on many names


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of a checkpoint, or one remark: what would be a fault, had it no reason.

    Attributes
    ----------
    kind : str
        The fault, or the reason, in a word or three.
    tensors : tuple of str
        The tensors concerned.
    sentence : str
        The fault and its remedy, or the reason in words.
    """

    kind: str
    tensors: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence

    def facts(self) -> dict[str, Any]:
        """Return the finding as plain JSON."""
        return {"kind": self.kind, "tensors": list(self.tensors), "sentence": self.sentence}


_UNUSUAL = "What is unusual, and why it is no fault."


def _listed(title: str, findings: tuple[Finding, ...]) -> Table:
    rows = tuple((f.kind, ", ".join(f.tensors), f.sentence) for f in findings)
    return Table(title, ("finding", "tensors", "in words"), rows)


def named(names: Sequence[str]) -> str:
    """Return the first names of a list in quotes, and the number of the others."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(map(repr, names[:_NAMED])) + more


@dataclass(frozen=True, slots=True)
class TensorDiagnosis:
    """One tensor of a checkpoint.

    Attributes
    ----------
    name : str
        Its name.
    spec : TensorSpec
        Its dtype and shape.
    measured : Measured or None
        None of integers, of dtypes that are not read, and of empty tensors.
    expected : Expected or None
        None where neither a plan nor a rule speaks of it.
    verdict : str
        "good", the kinds of its findings, else of its remarks, `NOT_READ`, or "" where there was nothing to judge
        it by.
    """

    name: str
    spec: TensorSpec
    measured: Measured | None
    expected: Expected | None
    verdict: str

    def row(self) -> tuple[Cell, ...]:
        """Return the tensor as a row of the diagnosis' table."""
        m, e = self.measured, self.expected
        return (
            self.name,
            self.verdict,
            "x".join(map(str, self.spec.shape)) or "scalar",
            self.spec.dtype.name,
            None if m is None else m.mean,
            None if m is None else m.std,
            None if e is None else e.std,
            None if m is None or math.isnan(m.kurtosis) else m.kurtosis,
            None if m is None else m.low,
            None if m is None else m.high,
            None if m is None else m.zeros,
        )

    def facts(self) -> dict[str, Any]:
        """Return the tensor as plain JSON."""
        return {
            "name": self.name,
            "shape": list(self.spec.shape),
            "dtype": self.spec.dtype.name,
            "verdict": self.verdict,
            "measured": self.measured and self.measured.facts(),
            "expected": self.expected and self.expected.facts(),
        }


@dataclass(frozen=True, slots=True)
class Diagnosis(Result):
    """The tensors of a checkpoint and its faults; truthy where there are none.

    Attributes
    ----------
    path : str
        The checkpoint.
    tensors : tuple of TensorDiagnosis
        In the file's order.
    findings : tuple of Finding
        Every fault.
    drawn : tuple of (int, int), or None
        How many of how many tensors begin with the very weights the plan draws; None without a plan.
    remarks : tuple of Finding
        What is unusual and has a reason: no fault.
    """

    path: str
    tensors: tuple[TensorDiagnosis, ...]
    findings: tuple[Finding, ...]
    drawn: tuple[int, int] | None
    remarks: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        tensors, findings = counted(len(self.tensors), "tensor"), counted(len(self.findings), "finding")
        return f"<Diagnosis of {self.path}: {tensors}, {findings}>"

    def lines(self, most: int | None = None) -> list[str]:
        """Return the table, the findings and the remarks as text lines, of each at most `most`; None for all."""
        findings = [f"{finding.kind}: {finding}" for finding in self.findings[:most]]
        remarks = [f"remark, {remark.kind}: {remark}" for remark in self.remarks[:most]]
        rest = [the_rest(len(found), most) for found in (self.findings, self.remarks)]
        return [*self._table().lines(most), "", *findings, *rest[0], *remarks, *rest[1], *self.conclusions()]

    def conclusions(self) -> list[str]:
        """Return sentences on the draws, where there is a plan, on what was not read, and on the whole."""
        judged = sum(bool(tensor.verdict) and NOT_READ not in tensor.verdict for tensor in self.tensors)
        found = counted(len(self.findings), "finding") if self.findings else "nothing wrong found"
        whole = f"{self.path}: {counted(len(self.tensors), 'tensor')}, {judged:,} judged, {found}"
        return [*self._on_the_draws(), *self._on_the_unread(), whole]

    def _on_the_draws(self) -> list[str]:
        if self.drawn is None or not self.drawn[1]:
            return []
        equal, compared = self.drawn
        begin = "begins" if compared == 1 else "begin"
        doubt = "" if equal else ": trained since, or made from another seed or by another program"
        tensors = counted(compared, "tensor")
        return [f"{equal:,} of {tensors} {begin} with the very weights the plan draws{doubt}"]

    def _on_the_unread(self) -> list[str]:
        unread = [tensor for tensor in self.tensors if NOT_READ in tensor.verdict]
        if not unread:
            return []
        named = ", ".join(f"{tensor.name!r} ({tensor.spec.dtype.tag})" for tensor in unread[:_NAMED])
        more = f" and {len(unread) - _NAMED:,} more" if len(unread) > _NAMED else ""
        readable = ", ".join(dtype.tag for dtype in FLOATS)
        return [f"{counted(len(unread), 'tensor')} not read: {named}{more}; weights are read as {readable} only"]

    def facts(self) -> dict[str, Any]:
        """Return the diagnosis as plain JSON; a number that is not finite is None."""
        return {
            "file": self.path,
            "good": self.passed,
            "drawn": None if self.drawn is None else {"equal": self.drawn[0], "compared": self.drawn[1]},
            "findings": [finding.facts() for finding in self.findings],
            "remarks": [remark.facts() for remark in self.remarks],
            "tensors": [tensor.facts() for tensor in self.tensors],
        }

    def tables(self) -> tuple[Table, ...]:
        """Return the tensors, and the findings and remarks where there are any."""
        found = (_listed("What is wrong, and what to do.", self.findings), _listed(_UNUSUAL, self.remarks))
        return (self._table(), *(table for table in found if table.rows))

    def _table(self) -> Table:
        return Table(
            "Every tensor: mean, standard deviation (sd), excess kurtosis and extremes are measured over all its "
            "finite weights; the expected sd is the plan's or the rule's.",
            ("name", "verdict", "shape", "dtype", "mean", "sd", "expected sd", "kurtosis", "min", "max", "zeros"),
            tuple(tensor.row() for tensor in self.tensors),
        )

    def figure(self) -> Figure:
        """Return histograms of the tensors found wrong, then of the largest, at most twelve; needs matplotlib."""
        from .views import drawing  # noqa: PLC0415

        return drawing(self)

    def page(self) -> str:
        """Return one self-contained HTML page; needs matplotlib."""
        from .views import page  # noqa: PLC0415

        return page(self)
