"""``fastinit show``: the plan of a model."""

from __future__ import annotations

import argparse

from .options import add_all, add_plan, most_rows, plan_of
from .printing import GOOD, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, and how much of its plan is shown."""
    add_plan(parser)
    add_all(parser)


def run(options: argparse.Namespace) -> int:
    """Print the plan as a table, or as the JSON that `Plan.from_json` reads."""
    plan = plan_of(options)
    if options.json:
        print(plan.to_json())
    else:
        say([*plan.table().lines(most_rows(options)), str(plan)])
    return GOOD
