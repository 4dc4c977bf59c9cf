"""Policies: what each tensor of a real model gets, by its name, shape and dtype, and by the model around it.

Read `rules.py` first, then `families.py`; `user.py` has a user's own rules, `deciding.py` the refusals.
"""

from .deciding import as_policy, decided, sorted_out
from .families import POLICIES, XAVIER
from .rules import Choice, Model, Policy, Refused, Rule, Ruled, Specs, Verdict
from .user import Customized, UserRule, customized, parse_rule, read_policy

__all__ = [
    "POLICIES", "XAVIER", "Choice", "Customized", "Model", "Policy", "Refused", "Rule", "Ruled", "Specs",
    "UserRule", "Verdict", "as_policy", "customized", "decided", "parse_rule",
    "read_policy", "sorted_out",
]  # fmt: skip
