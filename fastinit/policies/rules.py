"""What a rule is, and what a policy makes of a whole model: for each tensor a choice or a refusal.

Read `Rule` first. Nothing here draws, allocates or knows a model: families stand in `families.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple, Protocol

from .._engine.axes import SPATIAL
from .._engine.initializer import Distribution, Initializer
from .._files.specs import TensorSpec

Specs = Mapping[str, TensorSpec]
"""A whole model: name -> dtype and shape."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What one tensor gets.

    Attributes
    ----------
    initializer : Initializer
        What it is filled with.
    layout, groups
        The meaning of its axes, as in `fastinit.fans`.
    fan_in, fan_out : int or None
        Taken instead of the counted connections; both let a 1-d tensor be scaled.
    """

    initializer: Initializer
    layout: str = "io"
    groups: int = 1
    fan_in: int | None = None
    fan_out: int | None = None

    def distribution(self, shape: tuple[int, ...]) -> Distribution:
        """Return what a tensor of `shape` is filled with."""
        return self.initializer.for_shape(shape, self.layout, self.groups, self.fan_in, self.fan_out)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a policy fills a tensor with nothing.

    Attributes
    ----------
    reason : str
        What the tensor is.
    advice : str
        The initializer that a user may want instead, as text; "" where leaving the tensor out is the way.
    """

    reason: str
    advice: str = ""


Verdict = Choice | Refused | None
"""What a policy says of a tensor; None leaves it out of the plan."""


class Policy(Protocol):
    """Whatever decides a whole model, and has a text by which a plan says so."""

    @property
    def text(self) -> str:
        """What the plan calls its policy."""

    def __call__(self, specs: Specs, /) -> Mapping[str, Verdict]:
        """Return the verdict on every tensor."""


class Model:
    """What a policy may ask of a whole model: its numbers follow from its specs."""

    def __init__(self, specs: Specs) -> None:
        self.specs = specs
        self._has: dict[tuple[str, int | None], bool] = {}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor; () where the model has none of that name."""
        return self.specs[name].shape if name in self.specs else ()

    def has(self, pattern: str, rank: int | None = None) -> bool:
        """Say whether the pattern is found in any name, of a tensor of so many axes if `rank` is given."""
        if (pattern, rank) not in self._has:
            fitting = (name for name, spec in self.specs.items() if rank in (None, len(spec.shape)))
            self._has[pattern, rank] = any(map(re.compile(pattern).search, fitting))
        return self._has[pattern, rank]

    @cached_property
    def layers(self) -> int:
        """The number of layers: one more than the greatest first number in a name; at least 1."""
        return 1 + max((layer_of(name) for name in self.specs), default=0)

    @cached_property
    def hidden(self) -> int:
        """The width of the longest table of embeddings; 0 without one."""
        tables = [s.shape for n, s in self.specs.items() if len(s.shape) == 2 and re.search(EMBEDDINGS, n)]
        return max(tables, default=(0, 0))[1]

    @cached_property
    def vocabularies(self) -> frozenset[int]:
        """The rows of its tables of tokens."""
        return frozenset(s.shape[0] for n, s in self.specs.items() if len(s.shape) == 2 and re.search(_TABLE, n))


_TABLE = r"(?:^|[./])(?:embed_tokens|embedder|tok_embeddings|shared)[./]\w{1,16}$"
EMBEDDINGS = (
    r"(?:^|[./_])(?:embed(?:ding|dings|_tokens|der)?|emb|wte|wpe|shared|token_emb|tok_embeddings|embed_in"
    r"|embed_positions|embedding_table|word_embeddings?|[a-z]+_embeddings|embed_out_tokens)[./](?:weight|embedding)$"
    r"|(?:^|[./])(?:embedding|embeddings|positional_embedding|embedding_table)$"
)
"""Tables of one row for each token or position."""


def layer_of(name: str) -> int:
    """Return the first number that is a part of a name on its own, which counts layers; 0 without one."""
    found = re.search(r"[./](\d{1,6})[./]", name)
    return int(found[1]) if found else 0


class Subject(NamedTuple):
    """The tensor that a rule is about, in its model."""

    model: Model
    name: str
    spec: TensorSpec

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self.spec.shape

    def beside(self, pattern: str, replacement: str) -> tuple[int, ...]:
        """Return the shape of the tensor whose name is this one with a part replaced; () without one."""
        return self.model.shape(re.sub(pattern, replacement, self.name))


Chooser = Callable[[Subject], Verdict]
"""Where the choice follows from the model."""


def torch_layout(subject: Subject) -> str:
    """Name the axes as torch stores them: (out, in, *kernel)."""
    return "oi" + SPATIAL[: len(subject.shape) - 2]


def _always(subject: Subject) -> bool:  # noqa: ARG001
    return True


def _one(subject: Subject) -> int:  # noqa: ARG001
    return 1


ANY = range(64)
MATRIX = range(2, 3)
VECTOR = range(1, 2)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a policy. The first that is about a tensor decides.

    Attributes
    ----------
    reason : str
        What the tensors it matches are.
    pattern : str
        Regular expression searched for in the name, in time linear in its length: no part of it may be tried again
        from every place of the name. "The last `conv`" is therefore ``^(?>.*conv)``.
    ranks : range
        Numbers of axes it applies to.
    initializer : Initializer, callable or None
        A callable chooses by the whole model. None refuses the tensor, with `reason`.
    layout, groups : callable
        The meaning of its axes.
    is_float : bool
        Whether it applies to floating tensors or to integer ones.
    when : callable
        What else must be true.
    advice : str
        Of a refusal: the initializer that a user may want.
    """

    reason: str
    pattern: str
    ranks: range
    initializer: Initializer | Chooser | None
    layout: Callable[[Subject], str] = torch_layout
    groups: Callable[[Subject], int] = _one
    is_float: bool = True
    when: Callable[[Subject], bool] = _always
    advice: str = ""

    def is_about(self, subject: Subject) -> bool:
        """Say whether the rule is about this tensor of this model."""
        return (
            subject.spec.dtype.is_float == self.is_float
            and len(subject.shape) in self.ranks
            and re.search(self.pattern, subject.name) is not None
            and self.when(subject)
        )

    def verdict(self, subject: Subject) -> Verdict:
        """Return what the rule says of a tensor that it is about."""
        if self.initializer is None:
            return Refused(f"it is {self.reason}", self.advice)
        if not isinstance(self.initializer, Initializer):
            return self.initializer(subject)
        layout = self.layout(subject) if len(subject.shape) > 1 else "io"
        return Choice(self.initializer, layout, self.groups(subject))


def first(rules: Iterable[Rule], subject: Subject) -> Verdict:
    """Return the verdict of the first rule that is about a tensor."""
    for rule in rules:
        if rule.is_about(subject):
            return rule.verdict(subject)
    return unnamed("no rule of this policy names it", subject.name, subject.spec)


def unnamed(reason: str, name: str, spec: TensorSpec) -> Refused:
    """Return the refusal of a tensor of which nothing is said; a draw is advised only where it may be a weight."""
    if not spec.dtype.is_float:
        return Refused(reason)
    if len(spec.shape) < 2:
        return Refused(f"{reason}, and one of fewer than two axes is seldom drawn: the model's code sets it")
    if _BUFFERS.search(name[-64:]):  # of a long name the whole would take quadratic time
        return Refused(f"{reason}, and it is called as a table that the model's code computes")
    return Refused(reason, "normal(0, 0.02)")


_BUFFERS = re.compile(
    r"(?:^|[._])(?:mean|std|var|alphas\w*|betas|posterior\w*|(?:log|sqrt)_\w+|slopes|\w*factors?|ema|\w*decay|\w*mask"
    r"|cluster_size|\w*embed_avg|codebook\w*|\w*(?:table|coords|grid|window|filter\w*|buffer|cache|index|scales?|freqs?"
    r"|frequencies|anchors|priors|statistics|sums?|counts?))$"
)
"""Last words of names of buffers."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """A policy of rules, or of a function from the model to them."""

    text: str
    rules: tuple[Rule, ...] | Callable[[Model], tuple[Rule, ...]]

    def __call__(self, specs: Specs, /) -> dict[str, Verdict]:
        """Return the verdict on every tensor."""
        model = Model(specs)
        near = shortlists(self.rules(model) if callable(self.rules) else self.rules)
        return {name: first(near(name, spec), Subject(model, name, spec)) for name, spec in specs.items()}


def shortlists(rules: Iterable[Rule]) -> Callable[[str, TensorSpec], list[Rule]]:
    """Return a function from a tensor to the rules that may be about it, in their order.

    A model may have 100,000 tensors, but the names of its layers and experts differ in their numbers only. The
    patterns are searched for once in all of those; a pattern that tells numbers apart stays in every list.
    """
    telling = {rule.pattern: _TELLS_NUMBERS.search(_HARMLESS.sub("", rule.pattern)) for rule in rules}

    @cache
    def near(name: str, rank: int, is_float: bool) -> list[Rule]:
        fitting = [rule for rule in rules if rule.is_float == is_float and rank in rule.ranks]
        return [rule for rule in fitting if telling[rule.pattern] or re.search(rule.pattern, name)]

    return lambda name, spec: near(_NUMBER.sub("0", name), len(spec.shape), spec.dtype.is_float)


_NUMBER = re.compile(r"(?<![^./])\d{1,6}(?![^./])")  # a part of a name on its own
_HARMLESS = re.compile(r"\{[01]?,\d*\}|(?<=[a-zA-Z_])\[\w+\]")  # counts from 0 or 1, and digits after a letter
_TELLS_NUMBERS = re.compile(r"(?<![a-zA-Z_\d])\d|\[[^\]]*\d|\\d\\d|\{")


def modules(words: str, parameter: str = "weight") -> str:
    """Return the pattern of the parameters of modules called so: ``modules("q_proj k_proj")``."""
    return rf"(?:^|[./])(?:{'|'.join(words.split())})(?:[./]base_layer)?[./](?:{parameter})$"
