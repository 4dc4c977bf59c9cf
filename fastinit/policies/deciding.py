"""A policy's verdicts on a whole model, and its refusals as one error: grouped by pattern, with what to type."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._engine.dtypes import FLOATS, INTEGERS
from .._files.json_text import quoted
from .._files.specs import TensorSpec
from ..errors import InitializationError, PlanError, TensorsRefused
from .families import POLICIES, policy_called
from .rules import Choice, Policy, Refused, Rule, Ruled, Specs, Verdict, unnamed
from .user import read_policy

PolicyLike = str | os.PathLike[str] | Iterable[Rule] | Callable[[Specs], Mapping[str, Verdict]]
"""A policy's name, a TOML file of rules, rules, or a callable that sees the whole model."""


@dataclass(frozen=True, slots=True)
class _Own:
    """A policy that is a callable of the user's."""

    text: str
    call: Callable[[Specs], Mapping[str, Verdict]]

    def __call__(self, specs: Specs, /) -> Mapping[str, Verdict]:
        return self.call(specs)


def as_policy(policy: PolicyLike) -> Policy:
    """Return a policy, or the one that a name, a path, rules or a callable stand for.

    A str is a name and never a path: files name their policy, and a file must not choose what is read.
    """
    if isinstance(policy, str):
        return policy_called(policy)
    if isinstance(policy, os.PathLike):
        return read_policy(policy)
    if callable(policy):
        return policy if hasattr(policy, "text") else _Own(f"callable {_name(policy)}", policy)
    return _of_rules(policy)


def _name(call: Callable[..., Any]) -> str:
    return str(getattr(call, "__qualname__", type(call).__qualname__))


def _of_rules(rules: object) -> Policy:
    listed = tuple(rules) if isinstance(rules, Iterable) else ()
    if not listed or not all(isinstance(rule, Rule) for rule in listed):
        raise PlanError(
            f"policy must be the name of one ({', '.join(POLICIES)}), a path of TOML rules, Rule objects, or a "
            f"callable of the specs, got {rules!r}"
        )
    return Ruled(f"{len(listed)} rules of the caller", listed)


def decided(policy: Policy, specs: Specs) -> dict[str, Choice]:
    """Return the choice for every tensor that the policy does not leave out.

    Raises
    ------
    TensorsRefused
        If it refuses any: nothing is filled by guesswork.
    """
    choices, refused = sorted_out(policy, specs)
    if refused:
        raise TensorsRefused(policy.text, len(specs), tuple(_refusals(refused, choices, specs)))
    return choices


def sorted_out(policy: Policy, specs: Specs) -> tuple[dict[str, Choice], dict[str, Refused]]:
    """Return what the policy chooses, and what it refuses."""
    verdicts = policy(specs)
    _refuse_strangers(policy, verdicts, specs)
    choices, refused = dict[str, Choice](), dict[str, Refused]()
    for name, spec in specs.items():
        verdict = _checked(_verdict(verdicts, name, spec), spec)
        if isinstance(verdict, Choice):
            choices[name] = verdict
        elif verdict is not None:
            refused[name] = verdict
    return choices, refused


def _refuse_strangers(policy: Policy, verdicts: Mapping[str, Verdict], specs: Specs) -> None:
    strange = next((name for name in verdicts if name not in specs), None)
    if strange is not None:
        raise PlanError(f"policy {policy.text} chose for tensor {strange!r}, which the model does not have")


def _verdict(verdicts: Mapping[str, Verdict], name: str, spec: TensorSpec) -> Verdict:
    verdict = verdicts[name] if name in verdicts else unnamed("the policy says nothing of it", name, spec)
    if spec.dtype.is_foreign and verdict is not None:
        known = ", ".join(dtype.tag for dtype in FLOATS + INTEGERS)
        return Refused(f"nothing here fills its dtype {spec.dtype.tag}, only {known}")
    return verdict


def _checked(verdict: Verdict, spec: TensorSpec) -> Verdict:
    """Return the verdict, or a refusal where the choice does not fit the shape."""
    if not isinstance(verdict, Choice | Refused | None):
        raise PlanError(f"a policy says Choice, Refused or None of a tensor, got {verdict!r}")
    if isinstance(verdict, Choice):
        try:
            verdict.distribution(spec.shape)
        except (InitializationError, ValueError) as error:
            return Refused(f"it was to be {verdict.initializer.name}, but {error}")
    return verdict


# ---- one error for a file ----------------------------------------------------------------------------


class Refusal(NamedTuple):
    """Tensors of one kind that a policy fills with nothing.

    Attributes
    ----------
    pattern : str
        The glob of their names, which matches no tensor that is filled.
    reason : str
        Why.
    advice : str
        The initializer that may be wanted, as text; "" where leaving them out is the way.
    names : tuple of str
        All of them.
    shape, dtype : tuple of int and str
        Of the first.
    """

    pattern: str
    reason: str
    advice: str
    names: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str

    @property
    def option(self) -> str:
        """What to type for them on the command line."""
        pattern = self.pattern.replace("'", "'\\''")
        return f"--rule '{pattern}={self.advice}'" if self.advice else f"--skip '{pattern}'"

    def __str__(self) -> str:
        number = len(self.names)
        first = self.names[0]
        what = f"tensor {quoted(first)}" if number == 1 else f"{number:,} tensors, the first {quoted(first)}"
        return f"{what} {list(self.shape)} {self.dtype}: {self.reason}; {self.option}"


def pattern_of(name: str, digits: str = r"\d+") -> str:
    """Return the glob of a name's kind: each number is ``*``.

    Examples
    --------
    >>> from fastinit.policies.deciding import pattern_of
    >>> pattern_of("h.11.attn.bias")
    'h.*.attn.bias'
    """
    literal = re.sub(r"[\[?*]", lambda found: f"[{found[0]}]", name)
    return re.sub(digits, "*", literal)


_WHOLE_NUMBERS = r"(?<![^./])\d+(?![^./])"


def _refusals(refused: Mapping[str, Refused], choices: Mapping[str, Choice], specs: Specs) -> Iterator[Refusal]:
    groups: dict[tuple[str, Refused], list[str]] = {}
    for name, verdict in refused.items():
        groups.setdefault((pattern_of(name), verdict), []).append(name)
    for shown, ((pattern, verdict), names) in enumerate(groups.items()):
        exact = shown >= TensorsRefused.SHOWN or not _catches(pattern, choices)
        for narrow, members in ({pattern: names} if exact else _narrowed(names, choices)).items():
            spec = specs[members[0]]
            yield Refusal(narrow, verdict.reason, verdict.advice, tuple(members), spec.shape, spec.dtype.tag)


def _catches(pattern: str, names: Iterable[str]) -> bool:
    """Say whether a glob matches a tensor that is not refused: it would take that one too."""
    matches = re.compile(fnmatch.translate(pattern)).match
    return any(map(matches, names))


def _narrowed(names: list[str], choices: Mapping[str, Choice]) -> dict[str, list[str]]:
    """Group names by the widest glob that catches nothing else."""
    found: dict[str, list[str]] = {}
    for name in names:
        whole = pattern_of(name, _WHOLE_NUMBERS)
        found.setdefault(pattern_of(name, "$^") if _catches(whole, choices) else whole, []).append(name)
    return found
