"""`diagnose`: what the tensors of a checkpoint hold, beside what they should, and a verdict on each.

It reads every weight once (`stored.py`, `measured.py`) and judges each tensor by a plan or a rule (`expected.py`,
`rules.py`) and by faults that need neither (`verdicts.py`), then all of them together (`whole.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import SupportsIndex

from .. import _core
from .._engine.threads import as_threads
from ..checkpoint import Progress, described_plan, is_described
from ..errors import PlanError
from ..plan import Plan, PlannedTensor
from ..policies import Choice, Verdict, as_policy, sorted_out
from ..policies.deciding import PolicyLike
from . import by_name
from .expected import Expected, of_planned
from .explained import Reason, copies, explanation
from .given import given_data, other_digests
from .globs import Globs
from .measured import Measured, measured
from .neighbours import Neighbours
from .result import NOT_READ, Diagnosis, Finding, TensorDiagnosis, named
from .stored import Opened, StoredTensor, open_checkpoint, summaries
from .verdicts import faults
from .whole import differences, equal, equal_finding, first_draws, placeholders, unlike_the_index


def diagnose(
    path: str | os.PathLike[str],
    *,
    plan: Plan | None = None,
    seed: SupportsIndex = 17,
    policy: PolicyLike | None = None,
    rules: Mapping[str, float] | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Measure every tensor of a checkpoint against what it should be.

    Parameters
    ----------
    path : str or path
        A ``.safetensors`` file, the ``.safetensors.index.json`` of a sharded checkpoint, or the folder of either.
    plan : Plan, optional
        What it should be. Default: the plan in the metadata of the file, or of each shard, that fastinit wrote.
    seed, policy : int and policy, optional
        Instead of a plan: the one that `policy` makes of the file's header. A tensor that the policy refuses is
        not judged.
    rules : mapping of str to float, optional
        From a glob (``*`` also matches dots) to a standard deviation, exact to 1 %, which goes before the plan;
        the first glob that matches a name decides, and each must decide something. 0 asks for equal weights.
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
    TypeError
        If `plan` is not a Plan.
    ValueError
        If a rule matches or decides no tensor of weights, or both a plan and a policy are given.
    PlanError
        If there is no such policy.
    CheckpointError
        If the file is not a ``.safetensors`` file.

    Notes
    -----
    A standard deviation is off where it differs from the expected one by more than 5 standard errors,
    ``sd * sqrt((kurtosis + 2) / (4 n))`` of n weights, plus what rounding to float32 or float64 adds (in
    narrower dtypes the expected moments are those after rounding), plus a rule's own tolerance.

    Without a plan, tensors whose names say bias, norm gain, running average or buffer are not searched for equal
    or repeated weights. What is constant, infinite or equal with a reason (a zero factor beside a drawn one,
    gains, tokens, masks, tables of sines) is then a remark and no finding, and a matrix that holds draws of
    N(0, 1) is one.

    Memory stays small whatever the file's size: nothing of it is kept or mapped.

    Examples
    --------
    >>> import fastinit, tempfile
    >>> from fastinit.diagnosis import diagnose
    >>> specs = {"c_proj.weight": {"dtype": "F32", "shape": [64, 64]}}
    >>> with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
    ...     _ = fastinit.write_checkpoint(fastinit.Plan.from_specs(specs, seed=17), file.name, force=True)
    ...     good = diagnose(file.name)
    ...     bad = diagnose(file.name, rules={"*c_proj.weight": 0.0041})
    >>> bool(good), [finding.kind for finding in bad.findings]
    (True, ['spread'])
    """
    _check(plan, policy)
    checked, threads = Globs(rules or {}), as_threads(threads)
    with open_checkpoint(path) as opened:
        tensors = opened.tensors
        checked.refuse_idle([tensor.name for tensor in tensors if tensor.spec.dtype.is_float])
        planned = _planned(opened, plan, seed, policy)
        expected = {t.name: checked.expected(t.name) or _expected(t, planned.get(t.name)) for t in tensors}
        given = given_data(tensors, planned, expected)
        weights = [t for t in tensors if t.spec.dtype.is_float and t.spec.size and t.name not in given]
        gathered = dict(zip((t.name for t in weights), summaries(weights, threads, progress), strict=True))
        verdicts = _Verdicts(expected, gathered, given, Neighbours(weights, gathered))
        verdicts.findings += unlike_the_index(opened.strays)
        verdicts.findings += placeholders(tensors)
        if plan is not None:
            verdicts.findings += differences(tensors, plan, expected)
        verdicts.findings += other_digests(tensors, planned, given)
        for tensor in weights:
            verdicts.judge(tensor)
        verdicts.compare(weights)
        drawn = first_draws(weights, planned) if planned else None
    return Diagnosis(str(path), verdicts.of(tensors), tuple(verdicts.findings), drawn, verdicts.remarks())


def _check(plan: object, policy: object) -> None:
    if not isinstance(plan, Plan | None):
        raise TypeError(
            f"plan must be a fastinit.Plan, got {type(plan).__name__}; "
            "fastinit.Plan.from_json(text) makes one of what `fastinit show --json` printed"
        )
    if plan is not None and policy is not None:
        raise ValueError("give a plan or a policy, not both")


def _planned(
    opened: Opened,
    plan: Plan | None,
    seed: SupportsIndex,
    policy: PolicyLike | None,
) -> Mapping[str, PlannedTensor]:
    """Return the plan given, or that of a policy, or that of the file's metadata; empty where there is none."""
    if plan is not None:
        return plan
    if policy is not None:
        return _by_policy(opened.tensors, seed, policy)
    planned: dict[str, PlannedTensor] = {}
    for file, header in opened.headers.items():
        if is_described(header.metadata):
            planned |= described_plan(header.specs, header.metadata, file)
    return planned


def _by_policy(
    tensors: Sequence[StoredTensor], seed: SupportsIndex, policy: PolicyLike
) -> dict[str, PlannedTensor]:
    """Plan each tensor that the policy does not refuse, by itself: masks and the like are left out."""
    Plan.from_specs({}, seed)  # refuses a bad seed
    choices, _ = sorted_out(as_policy(policy), {tensor.name: tensor.spec for tensor in tensors})
    planned: dict[str, PlannedTensor] = {}
    for tensor in tensors:
        name = tensor.name
        if name not in choices or (by_name.is_buffer(name) and len(tensor.spec.shape) > 1):
            continue
        try:
            planned |= Plan.from_specs({name: tensor.spec}, seed, _only(name, choices[name]))
        except PlanError:
            continue
    return planned


def _only(name: str, choice: Choice) -> Callable[[object], dict[str, Verdict]]:
    return lambda specs: {name: choice}  # noqa: ARG005


def _expected(tensor: StoredTensor, planned: PlannedTensor | None) -> Expected | None:
    if planned is None or planned.shape != tensor.spec.shape or not planned.dtype.is_float:
        return None
    return of_planned(planned, tensor.spec.dtype) if tensor.spec.dtype.is_float else None


class _Verdicts:
    """The numbers, findings and remarks of a checkpoint's tensors, gathered one by one."""

    def __init__(
        self,
        expected: Mapping[str, Expected | None],
        gathered: Mapping[str, _core.Summary],
        given: Mapping[str, bool],
        neighbours: Neighbours,
    ) -> None:
        self.findings: list[Finding] = []
        self._expected, self._gathered, self._given, self._neighbours = expected, gathered, given, neighbours
        self._found: dict[str, Measured] = {}
        self._reasons: dict[Reason, dict[str, None]] = {}  # a set of names, in order

    def judge(self, tensor: StoredTensor) -> None:
        """Measure one tensor, and keep what is wrong with it, or why it is not."""
        sample, e = tensor.sample(), self._expected[tensor.name]
        m = measured(tensor, self._gathered[tensor.name].facts(), sample)
        self._found[tensor.name] = m
        for kind, sentence in faults(tensor, m, e, sample, self._neighbours):
            reason = None if e is not None else explanation(kind, tensor, m, sample, self._neighbours)
            if reason is None:
                self.findings.append(Finding(kind, (tensor.name,), f"{tensor.name!r} {sentence}"))
            else:
                self._reasons.setdefault(reason, {})[tensor.name] = None

    def compare(self, tensors: Sequence[StoredTensor]) -> None:
        """Keep the groups of tensors that are equal though each should be drawn, or why they are."""
        for group in equal(tensors, self._gathered, self._expected):
            reason = self._why_equal(group)
            if reason is None:
                self.findings.append(equal_finding(group))
            else:
                self._reasons.setdefault(reason, {}).update(dict.fromkeys(tensor.name for tensor in group))

    def _why_equal(self, group: Sequence[StoredTensor]) -> Reason | None:
        if any(self._expected[tensor.name] is not None for tensor in group):
            return None
        first = group[0]
        return copies(group) or explanation(
            "equal", first, self._found[first.name], first.sample(), self._neighbours
        )

    def remarks(self) -> tuple[Finding, ...]:
        """Return one remark for each reason."""
        return tuple(_remark(reason, list(names)) for reason, names in self._reasons.items())

    def of(self, tensors: Sequence[StoredTensor]) -> tuple[TensorDiagnosis, ...]:
        """Put each tensor's numbers, expectation and verdict together."""
        kinds: dict[str, list[str]] = {}
        for finding in (*self.findings, *self.remarks()):
            for name in finding.tensors:
                kinds.setdefault(name, []).append(finding.kind)
        return tuple(self._diagnosis(tensor, kinds.get(tensor.name, [])) for tensor in tensors)

    def _diagnosis(self, t: StoredTensor, kinds: list[str]) -> TensorDiagnosis:
        e, m, is_given = self._expected[t.name], self._found.get(t.name), self._given.get(t.name)
        unread = [NOT_READ] if _is_unread(t) and not is_given else []
        good = "good" if is_given or (e and m) else ""
        return TensorDiagnosis(t.name, t.spec, m, e, ", ".join(dict.fromkeys([*kinds, *unread])) or good)


def _is_unread(tensor: StoredTensor) -> bool:
    """Say whether a tensor may hold weights that nothing here reads: a foreign dtype, or integers in a matrix."""
    shape = tensor.spec.shape
    is_matrix = max(shape, default=1) < tensor.spec.size
    return tensor.spec.dtype.is_foreign or (is_matrix and not tensor.spec.dtype.is_float)


def _remark(reason: Reason, names: list[str]) -> Finding:
    verb = "is" if len(names) == 1 else "are"
    return Finding(reason.kind, tuple(names), f"{named(names)} {verb} {reason.sentence}")
