"""``fastinit diagnose``: every tensor of a checkpoint against its plan or a rule."""

from __future__ import annotations

import argparse

from .options import add_all, add_demanded_plan, add_rules, add_views, demanded_plan, most_rows, policy_of
from .outputs import refuse_overwriting
from .printing import deliver
from .progress import Progress, add_quiet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, and what to judge it by."""
    parser.add_argument(
        "file", metavar="FILE", help="a .safetensors file, the .safetensors.index.json of shards, or their folder"
    )
    add_demanded_plan(
        parser,
        plan="judge by a plan written by `fastinit show --json`",
        policy="judge by the plan that a policy makes of the file's header",
        seed="of that plan (default 17; alone: policy xavier)",
    )
    parser.add_argument(
        "--config",
        metavar="CONFIG",
        help="judge by what the model's own code does, recorded by torch: a config.json, or module:callable",
    )
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="GLOB=STD",
        help="the standard deviation of the tensors so named, to 1 %%; goes before the plan; may be repeated: "
        "the first that matches a name decides, and one that decides nothing is refused",
    )
    add_rules(parser)
    add_all(parser)
    add_quiet(parser)
    add_views(parser)
    parser.set_defaults(reads=("file", "plan"))


def run(options: argparse.Namespace) -> int:
    """Diagnose the file; status 1 where a tensor is wrong."""
    from pathlib import Path  # noqa: PLC0415

    from .._files.index import in_folder, shards  # noqa: PLC0415
    from ..diagnosis import diagnose  # noqa: PLC0415

    plan = demanded_plan(options)
    if options.figure or options.html:
        path = in_folder(Path(options.file))
        refuse_overwriting(options, (path, *shards(path)))
    asked = options.policy or options.rule or options.skip or options.seed is not None
    with Progress("diagnose", options.quiet) as progress:
        diagnosis = diagnose(
            options.file,
            plan=plan,
            seed=17 if options.seed is None else options.seed,
            policy=policy_of(options) if asked else None,
            rules=_rules(options.expect),
            progress=progress,
        )
    return deliver(options, diagnosis, lambda: diagnosis.lines(most_rows(options)))


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
