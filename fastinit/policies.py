"""Policies: which initializer a tensor of a real model gets, by its name, shape and dtype.

A policy is an ordered list of rules; the first that matches decides, and a tensor that none matches is
refused by name. Nothing here draws or allocates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ._engine.axes import SPATIAL
from ._engine.dtypes import FLOATS, INTEGERS, DType
from ._engine.initializer import Initializer
from .errors import PlanError
from .initializers import ONES, POSITIONS, XAVIER_UNIFORM, ZEROS


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a policy.

    Attributes
    ----------
    reason : str
        What the tensors it matches are.
    pattern : str
        Regular expression searched for in the name, in time linear in its length: no part of it may be tried again
        from every place of the name. "The last `conv`" is therefore ``^(?>.*conv)``.
    ranks : range
        Numbers of axes it applies to.
    initializer : Initializer or None
        None refuses the tensor, with `reason`.
    layout : callable
        From the number of axes to their layout.
    is_float : bool
        Whether it applies to floating tensors or to integer ones.
    """

    reason: str
    pattern: str
    ranks: range
    initializer: Initializer | None
    layout: Callable[[int], str] = lambda rank: "io"  # noqa: ARG005
    is_float: bool = True

    def matches(self, name: str, shape: tuple[int, ...], dtype: DType) -> bool:
        """Say whether the rule is about this tensor."""
        return (
            dtype.is_float == self.is_float
            and len(shape) in self.ranks
            and re.search(self.pattern, name) is not None
        )


def _convolution(rank: int) -> str:
    """(out, in, *kernel), as torch and the checkpoints made with it store them."""
    return "oi" + SPATIAL[: rank - 2]


def _stacked(rank: int) -> str:  # noqa: ARG001
    """Name the last two axes: a stack of matrices."""
    return "eio"


_ANY = range(64)
_CONVOLUTION = r"^(?>.*conv)[^.]*+(\.[^.]++)*\.weight$"
_TOKENS = r"^(?>.*(token|position|pos_emb))[^.]*+(\.weight)?$"

XAVIER = (
    Rule("position indices", r"(^|[._])position_ids$", range(1, 64), POSITIONS, is_float=False),
    Rule("token type indices", r"(^|[._])token_type_ids$", _ANY, ZEROS, is_float=False),
    Rule("batch counter", r"(^|\.)num_batches_tracked$", range(1), ZEROS, is_float=False),
    Rule("an attention mask stored under the name bias, not a bias", r"(^|\.)bias$", range(4, 5), None),
    Rule("the value of masked scores, not a bias", r"(^|[._])masked_bias$", _ANY, None),
    Rule("the decay rates of a state space, not a matrix", r"(^|\.)A_log$", _ANY, None),
    Rule("the scale of quantized weights, not a matrix", r"_scale(_inv)?$", _ANY, None),
    Rule("bias", r"(^|[._])bias(_[ih]h_l\d+(_reverse)?)?$", _ANY, ZEROS),
    Rule("running mean", r"(^|\.)running_mean$", range(1, 2), ZEROS),
    Rule("running variance", r"(^|\.)running_var$", range(1, 2), ONES),
    Rule("norm gain", r"(^|\.)(weight|gamma)$", range(1, 2), ONES),
    Rule("norm offset", r"(^|\.)beta$", range(1, 2), ZEROS),
    Rule("matrix", r"", range(2, 3), XAVIER_UNIFORM),
    Rule("convolution kernel", _CONVOLUTION, range(3, 6), XAVIER_UNIFORM, _convolution),
    Rule("tokens, positions", _TOKENS, range(3, 4), XAVIER_UNIFORM, _stacked),
    Rule("stacked experts", r"(^|[._])experts[._]", range(3, 4), XAVIER_UNIFORM, _stacked),
    Rule("convolution kernel", r"(^|\.)weight$", range(3, 6), XAVIER_UNIFORM, _convolution),
)
"""Matrices, embeddings and convolutions Xavier uniform, norm gains one, biases zero; index buffers explicit."""

POLICIES: dict[str, tuple[Rule, ...]] = {"xavier": XAVIER}
"""name -> rules."""


def policy_rules(name: str) -> tuple[Rule, ...]:
    """Return the rules of the policy called `name`."""
    if name not in POLICIES:
        raise PlanError(f"unknown policy {name!r}; expected one of {', '.join(POLICIES)}")
    return POLICIES[name]


def rule_for(rules: tuple[Rule, ...], name: str, shape: tuple[int, ...], dtype: DType) -> tuple[Initializer, str]:
    """Return the initializer and the layout of the first rule that matches.

    Raises
    ------
    PlanError
        If no rule does, or the one that does refuses the tensor: nothing is filled by guesswork.
    """
    if dtype.is_foreign:
        raise PlanError(
            f"tensor {name!r} {list(shape)} is refused: nothing here fills its dtype {dtype.tag}, only "
            f"{', '.join(dtype.tag for dtype in FLOATS + INTEGERS)}; leave it out of the specs"
        )
    for rule in rules:
        if rule.matches(name, shape, dtype):
            if rule.initializer is None:
                raise PlanError(f"tensor {name!r} {list(shape)} {dtype.tag} is refused: it is {rule.reason}")
            return rule.initializer, rule.layout(len(shape))
    raise PlanError(
        f"no rule of this policy matches tensor {name!r} {list(shape)} {dtype.tag}; "
        "it is refused rather than filled at random. Leave it out of the specs, or make a Plan of your own "
        "from PlannedTensor objects"
    )
