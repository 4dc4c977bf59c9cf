"""``fastinit diagnose``: every tensor of a checkpoint against its plan or a rule."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .options import add_views
from .printing import deliver
from .progress import Progress, add_quiet

if TYPE_CHECKING:
    from ..plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, and what to judge it by."""
    parser.add_argument(
        "file", metavar="FILE", help="a .safetensors file, or the .safetensors.index.json of shards"
    )
    parser.add_argument("--plan", metavar="FILE", help="judge by a plan written by `fastinit show --json`")
    parser.add_argument("--policy", help="judge by the plan that a policy makes of the file's header")
    parser.add_argument("--seed", type=int, help="of that plan (default 17; alone: policy xavier)")
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="GLOB=STD",
        help="the standard deviation of the tensors so named, to 1 %%; goes before the plan; may be repeated: "
        "the first that matches a name decides, and one that decides nothing is refused",
    )
    add_quiet(parser)
    add_views(parser)


def run(options: argparse.Namespace) -> int:
    """Diagnose the file; status 1 where a tensor is wrong."""
    from ..diagnosis import diagnose  # noqa: PLC0415

    if options.plan and (options.policy or options.seed is not None):
        raise ValueError("--plan already says seed and policy; leave out --seed and --policy")
    policy = options.policy or (None if options.seed is None else "xavier")
    with Progress("diagnose", options.quiet) as progress:
        diagnosis = diagnose(
            options.file,
            plan=_read_plan(options.plan) if options.plan else None,
            seed=17 if options.seed is None else options.seed,
            policy=policy,
            rules=_rules(options.expect),
            progress=progress,
        )
    return deliver(options, diagnosis)


def _read_plan(path: str) -> Plan:
    from pathlib import Path  # noqa: PLC0415

    from .._files.opening import read_bounded  # noqa: PLC0415
    from .._files.safetensors import HEADER_LIMIT  # noqa: PLC0415
    from ..errors import PlanError  # noqa: PLC0415
    from ..plan import Plan  # noqa: PLC0415

    if path.endswith(".safetensors"):
        raise PlanError(
            f"{path} is a checkpoint, not a plan: leave out --plan, and FILE is judged by the plan in its metadata"
        )
    try:
        return Plan.from_json(read_bounded(Path(path), HEADER_LIMIT, "a plan").decode())
    except (PlanError, UnicodeDecodeError) as error:
        raise PlanError(
            f"{path} is not a plan: {error}; `fastinit show MODEL --seed SEED --json` prints one"
        ) from error


def _rules(texts: list[str]) -> dict[str, float]:
    rules: dict[str, float] = {}
    for text in texts:
        glob, std = _rule(text)
        if glob in rules:
            raise ValueError(f"the glob {glob!r} is given twice; leave one of the two out")
        rules[glob] = std
    return rules


def _rule(text: str) -> tuple[str, float]:
    glob, _, std = text.rpartition("=")
    try:
        return glob, float(std)
    except ValueError:
        raise ValueError(f"--expect takes GLOB=STD, for example '*c_proj.weight=0.0041', got {text!r}") from None
