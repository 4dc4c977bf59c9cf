"""Rules of the user: from a TOML file or the command line, tried before those of a policy.

A rule that matches nothing is an error: it would be a misspelt glob. So are two rules of one source that match one
tensor: which of them was meant is not guessed. The command line goes before a file.
"""

from __future__ import annotations

import difflib
import fnmatch
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._engine.axes import parse_layout
from .._engine.checks import as_choice, as_u64
from .._files.opening import read_bounded
from ..errors import PlanError
from ..functions import as_initializer
from ..initializers import Initializer
from .families import policy_called
from .rules import Choice, Model, Policy, Specs, Subject, Verdict, torch_layout

DEPTHWISE = "depthwise"
"""Groups of a kernel that has as many as outputs."""

_LIMIT = 1 << 20  # bytes of a file of rules


@dataclass(frozen=True, slots=True)
class UserRule:
    """What the tensors get whose names match a glob (``*`` also matches dots).

    Attributes
    ----------
    pattern : str
        The glob.
    initializer : Initializer, str or None
        As `fastinit.initialize` takes it; None leaves the tensors out of the plan.
    layout : str or None
        The meaning of the axes; None takes the policy's, else torch's.
    groups : int, "depthwise" or None
        Groups of a convolution; None takes the policy's, else 1.

    Examples
    --------
    >>> from fastinit.policies import UserRule
    >>> UserRule("*.conv.weight", "he_normal", groups="depthwise").initializer.name
    'kaiming_normal'
    """

    pattern: str
    initializer: Initializer | str | None = None
    layout: str | None = None
    groups: int | str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str) or not self.pattern:
            raise ValueError(f"a rule needs a glob of names, for example '*.weight', got {self.pattern!r}")
        if self.initializer is not None:
            object.__setattr__(self, "initializer", as_initializer(self.initializer))
        if self.layout is not None:
            parse_layout(self.layout)
        if self.groups is not None and self.groups != DEPTHWISE:
            object.__setattr__(self, "groups", as_u64(self.groups, "groups"))

    def choice(self, subject: Subject, otherwise: Verdict) -> Verdict:
        """Return what the rule makes of a tensor that the policy would treat `otherwise`."""
        if self.initializer is None:
            return None
        initializer = as_initializer(self.initializer)
        if len(subject.shape) < 2:
            return Choice(initializer)
        theirs = otherwise if isinstance(otherwise, Choice) else Choice(initializer, torch_layout(subject))
        layout = self.layout or theirs.layout
        return Choice(initializer, layout, self._groups(subject, layout, theirs.groups))

    def _groups(self, subject: Subject, layout: str, theirs: int) -> int:
        if self.groups == DEPTHWISE:
            holder = layout.find("I") if "I" in layout else layout.lower().find("o")
            return subject.shape[holder] if holder < len(subject.shape) else 1
        return theirs if self.groups is None else int(self.groups)


@dataclass(frozen=True, slots=True)
class Customized:
    """A policy with rules of the user before its own.

    Attributes
    ----------
    base : Policy
        What decides the rest.
    sources : tuple
        Of rules: the later goes before the earlier.
    """

    base: Policy
    sources: tuple[tuple[UserRule, ...], ...]

    @property
    def text(self) -> str:
        """The base's, and that it was changed."""
        number = sum(map(len, self.sources))
        return (
            f"{self.base.text} with {number} user rule{'' if number == 1 else 's'}" if number else self.base.text
        )

    def __call__(self, specs: Specs, /) -> dict[str, Verdict]:
        """Return the verdict on every tensor."""
        verdicts, model = dict(self.base(specs)), Model(specs)
        for rules in self.sources:
            for name, rule in _matched(rules, specs).items():
                verdicts[name] = rule.choice(Subject(model, name, specs[name]), verdicts.get(name))
        return verdicts


def customized(
    base: Policy | str = "xavier", rules: Iterable[UserRule] = (), skip: Iterable[str] = ()
) -> Customized:
    """Return a policy with rules of your own before those of `base`.

    Parameters
    ----------
    base : str or policy, default "xavier"
        What decides the rest.
    rules : iterable of UserRule, optional
        Tried first; no two may match one tensor.
    skip : iterable of str, optional
        Globs of the tensors to leave out of the plan.

    Examples
    --------
    >>> import fastinit
    >>> from fastinit.policies import UserRule, customized
    >>> policy = customized("gpt2", [UserRule("*.ln_1.weight", "normal(1, 0.1)")], skip=["*.attn.bias"])
    >>> specs = {
    ...     "h.0.ln_1.weight": {"dtype": "F32", "shape": [4]},
    ...     "h.0.attn.bias": {"dtype": "F32", "shape": [1, 1, 8, 8]},
    ... }
    >>> fastinit.Plan.from_specs(specs, 17, policy)
    <Plan of 1 tensor, 16 bytes: seed 17, policy 'gpt2 with 2 user rules', order 'named'>
    """
    policy = policy_called(base) if isinstance(base, str) else base
    sources = policy.sources if isinstance(policy, Customized) else ()
    own = (*rules, *(UserRule(glob) for glob in skip))
    inner = policy.base if isinstance(policy, Customized) else policy
    return Customized(inner, (*sources, own) if own else sources)


def _matched(rules: Sequence[UserRule], specs: Specs) -> dict[str, UserRule]:
    """Return the rule of each tensor that one matches."""
    found: dict[str, UserRule] = {}
    for rule in rules:
        names = list(filter(re.compile(fnmatch.translate(rule.pattern)).match, specs))
        if not names:
            raise PlanError(f"the rule {rule.pattern!r} matches no tensor; {_near(rule.pattern, list(specs))}")
        tied = next((name for name in names if name in found), None)
        if tied is not None:
            raise PlanError(
                f"the rules {found[tied].pattern!r} and {rule.pattern!r} both match tensor {tied!r}, and which is "
                "meant is not guessed; narrow one of the two globs"
            )
        found |= dict.fromkeys(names, rule)
    return found


_SEARCHED = 1000  # names: a search for near ones takes longer than a glob
_LENGTH = 200  # characters of a name; longer ones are not typed by hand


def _near(glob: str, names: list[str]) -> str:
    searched = [name for name in names[:_SEARCHED] if len(name) <= _LENGTH]
    near = difflib.get_close_matches(glob[:_LENGTH], searched, 3, 0.3) or [name[:_LENGTH] for name in names[:3]]
    return f"names here look like {', '.join(map(repr, near))}" if near else "there is none here"


# ---- as text -----------------------------------------------------------------------------------------

_OPTION = re.compile(r"\s+(layout|groups)=(\w+)$")


def parse_rule(text: str) -> UserRule:
    """Return the rule that ``GLOB=INITIALIZER [layout=...] [groups=...]`` says.

    Examples
    --------
    >>> from fastinit.policies.user import parse_rule
    >>> rule = parse_rule("*.dw.weight=xavier_uniform groups=depthwise")
    >>> rule.pattern, rule.initializer.name, rule.groups
    ('*.dw.weight', 'xavier_uniform', 'depthwise')
    """
    glob, equals, words = text.partition("=")
    if not (glob and equals and words.strip()):
        raise ValueError(f"--rule takes GLOB=INITIALIZER, for example '*.weight=normal(0, 0.02)', got {text!r}")
    options: dict[str, Any] = {}
    while found := _OPTION.search(words):
        options[found[1]] = int(found[2]) if found[2].isdecimal() else found[2]
        words = words[: found.start()]
    return UserRule(glob, words.strip(), **options)


def read_policy(path: str | os.PathLike[str]) -> Customized:
    """Return the policy that a TOML file describes.

    Raises
    ------
    PlanError
        If it describes none, in one sentence that names the file.

    Notes
    -----
    ``base`` names the policy that decides the rest (default "xavier"). Each ``[[rule]]`` has a ``pattern``, and
    either an ``initializer`` (text, or a table as its JSON object) with ``layout`` and ``groups`` if need be, or
    ``skip = true``.
    """
    where = os.fspath(path)
    try:
        data = tomllib.loads(read_bounded(Path(path), _LIMIT, "rules").decode())
        _refuse_unknown(data, ("base", "rule"))
        tables = data.get("rule", [])
        if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
            raise ValueError("each rule is a table of its own, under [[rule]]")
        base = data.get("base", "xavier")
        if not isinstance(base, str):
            raise ValueError(f"base names a policy, got {base!r}")
        return customized(base, map(_rule, tables))
    except (PlanError, TypeError, ValueError, RecursionError) as error:
        raise PlanError(f"{where} is no policy: {error}") from error


_KEYS = ("pattern", "initializer", "layout", "groups", "skip")


def _rule(table: Mapping[str, Any]) -> UserRule:
    """Return the rule of one table."""
    _refuse_unknown(table, _KEYS)
    skips, initializer = table.get("skip", False), table.get("initializer")
    if not isinstance(skips, bool) or skips == (initializer is not None):
        raise ValueError(f"rule {table.get('pattern')!r} needs an initializer, or skip = true, and not both")
    made = Initializer.from_json(initializer) if isinstance(initializer, Mapping) else initializer
    return UserRule(table.get("pattern", ""), made, table.get("layout"), table.get("groups"))


def _refuse_unknown(table: Mapping[str, Any], keys: Sequence[str]) -> None:
    for key in table:
        as_choice(key, keys, "key")
