"""Diagnose a checkpoint: what its tensors hold, beside what they should, and a verdict on each.

`diagnose` reads every weight once (`stored.py`) and judges each tensor against a plan or a rule
(`expectations.py`), and by what is wrong whatever was planned: NaN, a matrix of zeros, numbers drawn twice.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np

from .. import _core
from .._engine.checks import as_nonnegative
from .._engine.constructions import WholeTensor as Construction
from .._engine.distributions import Positions
from .._engine.dtypes import DType
from .._engine.fill import fill
from .._engine.threads import as_threads
from .._files.specs import TensorSpec
from ..checkpoint import Progress, described_plan, is_described
from ..errors import PlanError
from ..initializers import ONES, ZEROS
from ..plan import Plan, PlannedTensor
from ..policies import XAVIER
from ..views.table import Table, counted, notebook
from .expected import Expected, of_planned, rounded
from .stored import CHUNK_BYTES, Array, StoredTensor, open_checkpoint, summaries

STANDARD_ERRORS = 5.0
"""A mean or a spread further off than this is no accident of sampling: 6e-7 of normal errors are."""

KURTOSIS_ERRORS = 8.0
"""The kurtosis' errors have a longer tail; it is judged from `KURTOSIS_SIZE` weights up."""

KURTOSIS_SIZE = 1000
RULE_TOLERANCE = 0.01
"""A rule's standard deviation is written in a few digits: 0.0041 for 0.02 / sqrt(24) = 0.0040825."""

SPIKE_RATIO = 3.0
SPIKE_COUNT = 32
SPIKE_BESIDE = 16
"""A spike is an extreme value that so many weights have, so many times as many as the next occupied values have;
or no fewer, and so many times as far away from them as they are from one another."""

_SMALLEST_SUM = 1e-290
"""A sum of fourth powers below this has lost digits."""

CONSTANT_CHANCE = 1e-6
"""Equal weights are no fault where the plan gives them as often: a coarse dtype has few values near 1."""

_BUFFERS = re.compile(
    r"rotary|inv_freq|freqs|sinusoid|mask$|(^|[._])((cos|sin)(_?cached?)?|pe)$"
    r"|(norm[^.]*|(^|\.)ln(_[^.]+)?)\.(weight|scale|gamma|gain)$"
)
"""Names of what no weight matrix is, whatever its axes: tables of angles, masks, and (stacked) norm gains."""

_POSITIONS = re.compile(r"pos(ition)?s?(_|\.|$)|pos_?emb")
"""Names of position tables: of sines, they have many weights of exactly 1."""

BINS = 32


@dataclass(frozen=True, slots=True)
class Measured:
    """What a tensor holds; moments and extremes are of its finite weights.

    Attributes
    ----------
    finite, nan, inf, zeros : int
        Counts; their first three make up the tensor.
    low, high : float
        Extremes.
    at_low, at_high : int
        How many weights have exactly that value.
    mean, std : float
        Population mean and standard deviation, summed in float64.
    kurtosis : float
        Excess kurtosis: 0 for a normal, -1.2 for a uniform distribution; NaN of equal weights.
    histogram : tuple of int
        Of `sampled` weights in equal bins over `limits`; empty where those are too far apart to subtract, or
        too close to divide by.
    sampled : int
        All, or an evenly spread part of a large tensor.
    """

    finite: int
    nan: int
    inf: int
    zeros: int
    low: float
    high: float
    at_low: int
    at_high: int
    mean: float
    std: float
    kurtosis: float
    histogram: tuple[int, ...] = ()
    sampled: int = 0

    @property
    def limits(self) -> tuple[float, float]:
        """The histogram's: the extremes, or some way around a single value."""
        margin = 0.0 if self.low < self.high else max(0.5, abs(self.low) / 2)
        return self.low - margin, self.high + margin


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its kind in a word, the tensors concerned, and what to do, in a sentence."""

    kind: str
    tensors: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, slots=True)
class TensorDiagnosis:
    """One tensor: `measured` is None of integers and empty tensors, `expected` where nobody said anything.

    `verdict` is "good", the kinds of its findings, or "" where there was nothing to judge it by.
    """

    name: str
    spec: TensorSpec
    measured: Measured | None
    expected: Expected | None
    verdict: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `diagnose` found; truthy where nothing is wrong.

    Attributes
    ----------
    path : str
        The checkpoint.
    tensors : tuple of TensorDiagnosis
        In the file's order.
    findings : tuple of Finding
        Everything that is wrong.
    drawn : tuple of (int, int), or None
        How many of how many tensors begin with the very weights the plan's seed draws; None without a plan.
    """

    path: str
    tensors: tuple[TensorDiagnosis, ...]
    findings: tuple[Finding, ...]
    drawn: tuple[int, int] | None

    def __bool__(self) -> bool:
        return not self.findings

    def __repr__(self) -> str:
        tensors, findings = counted(len(self.tensors), "tensor"), counted(len(self.findings), "finding")
        return f"<Diagnosis of {self.path}: {tensors}, {findings}>"

    def lines(self) -> list[str]:
        """Return the table and the findings as text lines."""
        findings = [f"{finding.kind}: {finding}" for finding in self.findings]
        return [*self._table().lines(), "", *findings, *self.conclusions()]

    def conclusions(self) -> list[str]:
        """Return a sentence on the draws, where there is a plan, and one on the whole."""
        judged = sum(bool(tensor.verdict) for tensor in self.tensors)
        lines = []
        if self.drawn is not None and self.drawn[1]:
            begin = "begins" if self.drawn[1] == 1 else "begin"
            lines.append(
                f"{self.drawn[0]:,} of {counted(self.drawn[1], 'tensor')} {begin} with the very weights the "
                "plan's seed draws"
                + ("" if self.drawn[0] else ": trained since, or made from another seed or by another program")
            )
        lines.append(
            f"{self.path}: {counted(len(self.tensors), 'tensor')}, {judged:,} judged, "
            + (counted(len(self.findings), "finding") if self.findings else "nothing wrong found")
        )
        return lines

    def facts(self) -> dict[str, Any]:
        """Return the diagnosis as plain JSON; a number that is not finite is None."""
        return {
            "file": self.path,
            "good": bool(self),
            "drawn": None if self.drawn is None else {"equal": self.drawn[0], "compared": self.drawn[1]},
            "findings": [
                {"kind": finding.kind, "tensors": list(finding.tensors), "sentence": finding.sentence}
                for finding in self.findings
            ],
            "tensors": [_facts(tensor) for tensor in self.tensors],
        }

    def tables(self) -> tuple[Table, ...]:
        """Return the tensors, and the findings where there are any."""
        found = tuple((f.kind, ", ".join(f.tensors), f.sentence) for f in self.findings)
        findings = Table("What is wrong, and what to do.", ("finding", "tensors", "in words"), found)
        return (self._table(), findings) if found else (self._table(),)

    def _repr_html_(self) -> str:
        return notebook(self.tables())

    def _table(self) -> Table:
        return Table(
            "Every tensor: mean, standard deviation (sd), excess kurtosis and extremes are measured over all its "
            "finite weights; the expected sd is the plan's or the rule's.",
            ("name", "shape", "dtype", "mean", "sd", "expected sd", "kurtosis", "min", "max", "zeros", "verdict"),
            tuple(map(_row, self.tensors)),
        )


def diagnose(
    path: str | os.PathLike[str],
    *,
    plan: Plan | None = None,
    seed: SupportsIndex = 17,
    policy: str | None = None,
    rules: Mapping[str, float] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Measure every tensor of a checkpoint against what it should be.

    Parameters
    ----------
    path : str or path
        A ``.safetensors`` file, or the ``.safetensors.index.json`` of a sharded checkpoint.
    plan : Plan, optional
        What it should be. Default: the plan in the file's own metadata, where fastinit wrote it.
    seed, policy : int and str, optional
        Instead of a plan: the one that `policy` makes of the file's header. A tensor that the policy refuses is
        not judged.
    rules : mapping of str to float, optional
        From a glob (``*`` also matches dots) to a standard deviation, exact to `RULE_TOLERANCE`, which goes
        before the plan; the first glob that matches a name decides, and each must decide something. 0 asks for
        equal weights.
    threads : int, optional
        1 to 1024 (default: as for fills). Nothing depends on it but the time.
    progress : callable, optional
        Called with (bytes done, bytes in all, tensor name).

    Returns
    -------
    Diagnosis
        Truthy where nothing is wrong.

    Raises
    ------
    ValueError
        If a rule matches or decides no tensor of weights, or both a plan and a policy are given.
    CheckpointError
        If the file is not a ``.safetensors`` file.

    Notes
    -----
    A spread is off where it differs from the expected one by more than `STANDARD_ERRORS` standard errors,
    ``sd * sqrt((kurtosis + 2) / (4 n))`` of n weights, plus what rounding to float32 or float64 adds (in
    narrower dtypes the expected moments are those after rounding), plus a rule's own tolerance. Without a plan,
    tensors that the policy "xavier" refuses or fills with a constant, and those whose names say buffer or norm
    gain, are not searched for equal or repeated weights. Memory stays small whatever the file's size: nothing
    of it is kept or mapped.

    Examples
    --------
    >>> import fastinit, tempfile
    >>> from fastinit.diagnosis.judge import diagnose
    >>> layout = {"c_proj.weight": {"dtype": "F32", "shape": [64, 64]}}
    >>> with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
    ...     _ = fastinit.write_checkpoint(fastinit.Plan.from_layout(layout, seed=17), file.name)
    ...     good = diagnose(file.name)
    ...     bad = diagnose(file.name, rules={"*c_proj.weight": 0.0041})
    >>> bool(good), [finding.kind for finding in bad.findings]
    (True, ['spread'])
    """
    if not isinstance(plan, Plan | None):
        raise TypeError(
            f"plan must be a fastinit.Plan, got {type(plan).__name__}; "
            "fastinit.Plan.from_json(text) makes one of what `fastinit show --json` printed"
        )
    rules = {
        glob: as_nonnegative(std, f"the standard deviation of {glob!r}") for glob, std in (rules or {}).items()
    }
    threads = as_threads(threads)
    if plan is not None and policy is not None:
        raise ValueError("give a plan or a policy, not both")
    with open_checkpoint(path) as (tensors, header):
        _refuse_idle_rules(rules, [tensor.name for tensor in tensors if tensor.spec.dtype.is_float])
        if plan is not None:
            planned: dict[str, PlannedTensor] = dict(plan)
        elif policy is not None:
            planned = _planned(tensors, seed, policy)
        elif header is not None and is_described(header.metadata):
            planned = dict(described_plan(header.specs, header.metadata, Path(path)))
        else:
            planned = {}
        expected = {t.name: _expected(t, planned.get(t.name), rules) for t in tensors}
        weighed = [tensor for tensor in tensors if tensor.spec.dtype.is_float and tensor.spec.size]
        gathered = dict(zip((t.name for t in weighed), summaries(weighed, threads, progress), strict=True))
        findings = list(_differences(tensors, plan, expected))
        measured = {}
        for tensor in weighed:
            sample = tensor.sample()
            measured[tensor.name] = _measured(tensor, gathered[tensor.name].facts(), sample)
            findings += _judge(tensor, measured[tensor.name], expected[tensor.name], sample)
        findings += _equal(weighed, gathered, expected)
        drawn = _drawn(weighed, planned) if planned else None
    kinds: dict[str, list[str]] = {}
    for finding in findings:
        for name in finding.tensors:
            kinds.setdefault(name, []).append(finding.kind)
    return Diagnosis(
        str(path),
        tuple(
            TensorDiagnosis(
                t.name,
                t.spec,
                measured.get(t.name),
                expected[t.name],
                ", ".join(kinds.get(t.name, ())) or ("good" if expected[t.name] and t.name in measured else ""),
            )
            for t in tensors
        ),
        tuple(findings),
        drawn,
    )


# ---- what is expected --------------------------------------------------------------------------------


def _refuse_idle_rules(rules: Mapping[str, float], names: list[str]) -> None:
    deciding = {_deciding(rules, name) for name in names}
    for glob in rules:
        matched = [name for name in names if fnmatch.fnmatchcase(name, glob)]
        if not matched:
            near = difflib.get_close_matches(glob, names, 3, 0.3) or names[:3]
            raise ValueError(
                f"the rule {glob!r} matches no tensor of weights; "
                + (f"names here look like {', '.join(map(repr, near))}" if near else "there is none here")
            )
        if glob not in deciding:
            raise ValueError(
                f"the rule {glob!r} decides nothing: the first rule that matches a name decides, and "
                f"{_deciding(rules, matched[0])!r} comes before it; put {glob!r} first"
            )


def _deciding(rules: Mapping[str, float], name: str) -> str | None:
    return next((glob for glob in rules if fnmatch.fnmatchcase(name, glob)), None)


def _planned(tensors: list[StoredTensor], seed: SupportsIndex, policy: str) -> dict[str, PlannedTensor]:
    Plan.from_layout({}, seed, policy)  # refuses a bad seed or policy
    planned: dict[str, PlannedTensor] = {}
    for tensor in tensors:
        if _BUFFERS.search(tensor.name) and len(tensor.spec.shape) > 1:
            continue
        try:
            planned |= Plan.from_layout({tensor.name: tensor.spec}, seed, policy)
        except PlanError:  # masks and the like, which no policy fills
            continue
    return planned


def _expected(tensor: StoredTensor, planned: PlannedTensor | None, rules: Mapping[str, float]) -> Expected | None:
    glob = _deciding(rules, tensor.name)
    if glob is not None:
        return Expected(f"the rule {glob}", rules[glob], tolerance=RULE_TOLERANCE, is_drawn=rules[glob] > 0)
    if planned is None or planned.shape != tensor.spec.shape or not planned.dtype.is_float:
        return None
    return of_planned(planned, tensor.spec.dtype)


def _is_drawn(tensor: StoredTensor, e: Expected | None) -> bool:
    """Say whether each weight is a draw of its own: as the plan has it, or else as its name is usually meant."""
    if e is not None:
        return e.is_drawn
    shape, dtype = tensor.spec.shape, tensor.spec.dtype
    rule = next((rule for rule in XAVIER if rule.matches(tensor.name, shape, dtype)), None)
    is_refused_or_constant = rule is not None and rule.initializer in (None, ZEROS, ONES)
    return not (is_refused_or_constant or _BUFFERS.search(tensor.name))


def _differences(
    tensors: list[StoredTensor], plan: Plan | None, expected: Mapping[str, Expected | None]
) -> Iterator[Finding]:
    """Where a plan that was not made from this file's header is a plan of something else."""
    if plan is None:
        return
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
        if name not in plan and expected[name] is None:  # no rule says what it should be either
            yield Finding(
                "not in the plan",
                (name,),
                f"{name!r} is in the file and not in the plan, so nothing says how it should start",
            )


def _drawn(tensors: list[StoredTensor], planned: dict[str, PlannedTensor]) -> tuple[int, int]:
    """Compare the first weights with those of the plan's streams, where one can be had without the whole."""
    equal = compared = 0
    for tensor in tensors:
        wanted = planned.get(tensor.name)
        if wanted is None or (wanted.shape, wanted.dtype) != (tensor.spec.shape, tensor.spec.dtype):
            continue
        if not wanted.draws or isinstance(wanted.distribution, Construction | Positions):
            continue
        count = min(64, tensor.spec.size)
        part = fill(
            (wanted.size,),
            wanted.distribution,
            wanted.state,
            dtype=wanted.dtype,
            index=slice(0, count),
            out=np.empty(count, wanted.dtype.bits),
        )
        little = part.astype(part.dtype.newbyteorder("<")).tobytes()
        compared += 1
        equal += tensor.read(0, bytearray(len(little))) == little
    return equal, compared


# ---- what is measured --------------------------------------------------------------------------------


def _measured(tensor: StoredTensor, facts: dict[str, Any], sample: Array) -> Measured:
    count, m2, m4 = facts["count"], facts["m2"], facts["m4"]
    low, high = (facts["low"], facts["high"]) if count else (math.nan, math.nan)
    if not count or low == high:
        mean, std, kurtosis = low, 0.0 if count else math.nan, math.nan
    elif _SMALLEST_SUM < m4 < math.inf:
        mean, std, kurtosis = facts["anchor"] + facts["mean"], math.sqrt(m2 / count), m4 / m2 / (m2 / count) - 3
    else:
        mean, std, kurtosis = _rescaled(tensor, max(abs(low), abs(high)))
    measured = Measured(
        finite=count,
        nan=facts["nan"],
        inf=facts["inf"],
        zeros=facts["zeros"],
        low=low + 0.0,  # -0.0 and 0.0 are one value
        high=high + 0.0,
        at_low=facts["at_low"],
        at_high=facts["at_high"],
        mean=mean + 0.0,
        std=std,
        kurtosis=kurtosis,
    )
    finite = sample[np.isfinite(sample)]
    if not finite.size or not _SMALLEST_SUM < measured.limits[1] - measured.limits[0] < 1 / _SMALLEST_SUM:
        return measured
    counts, _ = np.histogram(finite, BINS, measured.limits)
    return replace(measured, histogram=tuple(counts.tolist()), sampled=int(finite.size))


def _rescaled(tensor: StoredTensor, largest: float) -> tuple[float, float, float]:
    """Read float64 weights whose powers over- or underflow again, times a power of two: mean, sd, kurtosis."""
    exponent = math.frexp(largest)[1]
    step = CHUNK_BYTES // tensor.spec.dtype.itemsize

    def total(power: int, about: float) -> float:
        parts = []
        for begin in range(0, tensor.spec.size, step):
            values = np.ldexp(tensor.values(begin, min(step, tensor.spec.size - begin)), -exponent)
            parts.append(float(((values[np.isfinite(values)] - about) ** power).sum()))
        return math.fsum(parts)

    count = total(0, 0.0)
    mean = total(1, 0.0) / count
    variance = total(2, mean) / count
    return (
        math.ldexp(mean, exponent),
        math.ldexp(math.sqrt(variance), exponent),
        total(4, mean) / count / variance**2 - 3,
    )


# ---- verdicts ----------------------------------------------------------------------------------------


def _judge(tensor: StoredTensor, m: Measured, e: Expected | None, sample: Array) -> Iterator[Finding]:
    def found(kind: str, sentence: str) -> Finding:
        return Finding(kind, (tensor.name,), f"{tensor.name!r} {sentence}")

    if m.nan or m.inf:
        yield found(
            "not finite",
            f"holds {m.nan:,} NaN and {m.inf:,} infinities among {tensor.spec.size:,} weights: the run that "
            "wrote it had diverged; go back to an earlier checkpoint",
        )
    if not m.finite:
        return
    is_drawn = _is_drawn(tensor, e)
    is_matrix = len(tensor.spec.shape) >= 2 and m.finite > 1
    is_chance = e is not None and (_rounding(e, tensor.spec.dtype) >= e.std or _are_alike(e, m.finite))
    if is_matrix and is_drawn and m.low == m.high and not (m.nan or m.inf or is_chance):
        if m.low == 0:
            yield found(
                "all zero",
                f"is zero everywhere ({m.finite:,} weights): it passes no signal on and its units can never "
                "become different; was it skipped when the model was initialized or loaded?",
            )
        else:
            yield found(
                "constant",
                f"is {m.low:.6g} everywhere ({m.finite:,} weights): all its units compute the same and get the "
                "same gradient, so they stay one unit; draw its weights at random",
            )
    elif e is not None:
        yield from (found(kind, sentence) for kind, sentence in _against(m, e, tensor.spec.dtype))
    if is_drawn and m.low < m.high and not _are_alike(e, m.finite // 2):
        repeats = tensor.repeats()
        if repeats:
            axis, parts = repeats
            whole = parts == tensor.spec.shape[axis]
            yield found(
                "repeated",
                f"has {parts:,} equal parts along axis {axis}: "
                + (
                    "all its slices are one, so it acts as a single unit; draw every weight"
                    if whole
                    else "every rank drew the same numbers; give each its part of the whole tensor's stream"
                ),
            )
            return
        spike = None if _POSITIONS.search(tensor.name) else _spike(m, sample, e.likeliest if e else 0.0)
        if spike:
            yield found("spike", spike)


def _are_alike(e: Expected | None, count: int) -> bool:
    """Say whether so many weights of the plan's may well be equal by chance."""
    return e is not None and e.likeliest**count > CONSTANT_CHANCE


def _against(m: Measured, e: Expected, dtype: DType) -> Iterator[tuple[str, str]]:
    """Compare with what is expected; every bound on what may differ is stated beside the difference."""
    if e.std == 0:
        value = None if e.mean is None else rounded(e.mean, dtype)
        if m.low != m.high or value not in (None, m.low):
            wanted = "equal" if value is None else f"{value:.6g}"
            yield (
                "values",
                f"has values from {m.low:.6g} to {m.high:.6g} where {e.source} asks for {wanted} ones everywhere: "
                "it was trained, or filled with something else",
            )
        return
    rounding = _rounding(e, dtype)
    kurtosis = e.kurtosis if e.kurtosis is not None else max(0.0, m.kurtosis)
    allowed = STANDARD_ERRORS * e.std * math.sqrt((kurtosis + 2) / (4 * m.finite)) if m.finite > 1 else math.inf
    allowed += e.std * STANDARD_ERRORS**2 / (2 * m.finite)  # the square of the mean's error
    allowed += rounding + e.tolerance * e.std
    if not abs(m.std - e.std) <= allowed:
        yield (
            "spread",
            f"has standard deviation {m.std:.5g}, {m.std / e.std:.4g} times the {e.std:.5g} of {e.source} "
            f"(sampling and rounding explain {allowed:.2g}): "
            + (
                f"multiply it by {e.std / m.std:.4g}, or draw it again with std={e.std:.5g}"
                if m.std > 0 and math.isfinite(m.std)
                else f"draw it again with std={e.std:.5g}"
            ),
        )
    error = max(e.std, m.std) / math.sqrt(m.finite)
    mean = 0.0 if e.mean is None else e.mean
    if e.mean is not None and not abs(m.mean - mean) <= STANDARD_ERRORS * error + rounding:
        yield (
            "mean",
            f"has mean {m.mean:.5g}, {abs(m.mean - mean) / error:.3g} standard errors from the {mean:.5g} of "
            f"{e.source}: subtract the difference, or look for a draw on [0, limit) in place of [-limit, limit)",
        )
    if m.finite >= KURTOSIS_SIZE and e.kurtosis is not None and not math.isnan(m.kurtosis):
        allowed = KURTOSIS_ERRORS * (e.kurtosis_error + 4 * KURTOSIS_ERRORS / math.sqrt(m.finite))
        allowed = allowed / math.sqrt(m.finite) + 10 * rounding / e.std
        if not abs(m.kurtosis - e.kurtosis) <= allowed:
            yield (
                "kurtosis",
                f"has excess kurtosis {m.kurtosis:.3g} where {e.source} has {e.kurtosis:.3g} (a normal 0, a "
                "uniform -1.2; larger is heavier tails): another distribution was drawn, or it was trained",
            )
    slack = [2 * _relative_step(dtype) * abs(bound) + _smallest(dtype) for bound in (e.low, e.high)]
    if m.low < e.low - slack[0] or m.high > e.high + slack[1]:
        yield (
            "bounds",
            f"reaches from {m.low:.6g} to {m.high:.6g}, outside the [{e.low:.6g}, {e.high:.6g}] of {e.source}",
        )


def _spike(m: Measured, sample: Array, planned: float) -> str | None:
    """Compare how many weights are exactly an extreme with how many the next occupied values have.

    Those are the sample's, so a coarse grid's neighbours are the grid's; `planned` is a share that is right.
    """
    for value, count, inwards in ((m.low, m.at_low, 1), (m.high, m.at_high, -1)):
        share = count / m.finite
        if value == 0 or count < SPIKE_COUNT or m.at_low + m.at_high + m.zeros >= m.finite:
            continue
        if share <= planned + STANDARD_ERRORS * math.sqrt(planned / m.finite):
            continue
        occupied, counts = np.unique(sample[np.isfinite(sample) & (sample != value)], return_counts=True)
        occupied, counts = occupied[::inwards][:SPIKE_BESIDE], counts[::inwards][:SPIKE_BESIDE]
        if len(occupied) < SPIKE_BESIDE // 2:
            continue
        beside = int(counts.sum())
        usual = beside / len(counts) / len(sample)
        most = max(usual * (1 + STANDARD_ERRORS / math.sqrt(beside)), counts[:2].mean() / len(sample))
        is_apart = abs(occupied[0] - value) > SPIKE_RATIO * np.abs(np.diff(occupied)).max()
        if share > SPIKE_RATIO * most or (is_apart and SPIKE_RATIO * share > usual):
            return (
                f"has {count:,} weights ({100 * share:.3g} %) at exactly {value:.6g}, its "
                f"{'least' if inwards > 0 else 'largest'} value; each of the next values inwards, from "
                f"{occupied[0]:.6g} on, has about {100 * usual:.2g} %. Clamping piles on the bound what it cuts "
                "off, and a narrow dtype drawn from directly has few values out there: draw in float64 "
                "by the inverse CDF and round once"
            )
    return None


def _equal(
    tensors: list[StoredTensor], gathered: dict[str, _core.Summary], expected: dict[str, Expected | None]
) -> Iterator[Finding]:
    """Equal bits have equal summaries; only those few pairs are read again."""
    alike: dict[Any, list[list[StoredTensor]]] = {}
    for tensor in tensors:
        facts, wanted = gathered[tensor.name].facts(), expected[tensor.name]
        if facts["low"] == facts["high"] or not _is_drawn(tensor, wanted):
            continue
        if _are_alike(wanted, tensor.spec.size):
            continue
        key = (tensor.spec.dtype.name, *(np.float64(value).tobytes() for value in facts.values()))
        groups = alike.setdefault(key, [])
        for group in groups:
            if tensor.same_bytes(0, group[0], 0, tensor.spec.nbytes):
                group.append(tensor)
                break
        else:
            groups.append([tensor])
    for group in (group for groups in alike.values() for group in groups if len(group) > 1):
        names = tuple(tensor.name for tensor in group)
        yield Finding(
            "equal",
            names,
            f"{', '.join(map(repr, names))} are equal to the bit: right only for tied weights; else one seed was "
            "used twice, and a stream per name would part them",
        )


# ---- a dtype's steps ---------------------------------------------------------------------------------

_FORMATS = {  # stored bits of the significand, exponent of the smallest subnormal
    "float64": (52, -1074),
    "float32": (23, -149),
    "float16": (10, -24),
    "bfloat16": (7, -133),
    "float8_e4m3fn": (3, -9),
    "float8_e5m2": (2, -16),
}


def _relative_step(dtype: DType) -> float:
    """Half a step between stored values, relative to them."""
    return 2.0 ** (-_FORMATS[dtype.name][0] - 1)


def _smallest(dtype: DType) -> float:
    return 2.0 ** _FORMATS[dtype.name][1]


def _rounding(e: Expected, dtype: DType) -> float:
    """How much rounding to the dtype moves a standard deviation, or a mean, at most."""
    if e.is_stored:
        return 0.0
    largest = abs(e.mean or 0.0) + e.std
    error = max(_relative_step(dtype) * largest, _smallest(dtype) / 2)
    return error * (error / e.std) if error < e.std else error


# ---- views -------------------------------------------------------------------------------------------


def _row(tensor: TensorDiagnosis) -> tuple[str | int | float | None, ...]:
    m, e = tensor.measured, tensor.expected
    return (
        tensor.name,
        "x".join(map(str, tensor.spec.shape)) or "scalar",
        tensor.spec.dtype.name,
        None if m is None else m.mean,
        None if m is None else m.std,
        None if e is None else e.std,
        None if m is None or math.isnan(m.kurtosis) else m.kurtosis,
        None if m is None else m.low,
        None if m is None else m.high,
        None if m is None else m.zeros,
        tensor.verdict,
    )


def _facts(tensor: TensorDiagnosis) -> dict[str, Any]:
    m, e = tensor.measured, tensor.expected
    return {
        "name": tensor.name,
        "shape": list(tensor.spec.shape),
        "dtype": tensor.spec.dtype.name,
        "verdict": tensor.verdict,
        "measured": m
        and {
            "finite": m.finite,
            "nan": m.nan,
            "inf": m.inf,
            "zeros": m.zeros,
            "mean": _plain(m.mean),
            "std": _plain(m.std),
            "kurtosis": _plain(m.kurtosis),
            "low": _plain(m.low),
            "high": _plain(m.high),
            "at_low": m.at_low,
            "at_high": m.at_high,
            "histogram": list(m.histogram),
            "sampled": m.sampled,
        },
        "expected": e
        and {
            "source": e.source,
            "mean": e.mean,
            "std": e.std,
            "kurtosis": e.kurtosis,
            "low": _plain(e.low),
            "high": _plain(e.high),
        },
    }


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
