"""``fastinit show``: the plan of a model."""

from __future__ import annotations

import argparse

from .options import add_plan as add_arguments
from .options import plan_of
from .printing import GOOD, say

__all__ = ["add_arguments", "run"]


def run(options: argparse.Namespace) -> int:
    """Print the plan as a table, or as the JSON that `Plan.from_json` reads."""
    plan = plan_of(options)
    if options.json:
        print(plan.to_json())
    else:
        say([*plan.table().lines(), str(plan)])
    return GOOD
