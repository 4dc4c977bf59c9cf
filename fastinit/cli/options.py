"""Arguments that several commands share, each beside the code that reads it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..lessons.digits import Digits
    from ..plan import Plan
    from ..policies import Policy


def add_dtype(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --dtype with the help `text`."""
    from .._engine.dtypes import BY_WORD  # noqa: PLC0415

    parser.add_argument("--dtype", type=_float_name, metavar="{" + ",".join(BY_WORD) + "}", help=text)


def _float_name(text: str) -> str:
    """Return the name of the dtype that `text` spells, as argparse wants a type."""
    from .._engine.dtypes import BY_WORD, spelled_dtype  # noqa: PLC0415

    dtype = spelled_dtype(text)
    if dtype is None or not dtype.is_float:
        raise argparse.ArgumentTypeError(
            f"weights are stored in {', '.join(BY_WORD)} (bf16, bfloat16 and BF16 are one); got {text!r}"
        )
    return dtype.name


def add_seed(parser: argparse.ArgumentParser, text: str = "0 to 2**64 - 1") -> None:
    """Add --seed with the help `text`."""
    parser.add_argument("--seed", type=int, default=17, help=f"{text} (default 17)")


def add_all(parser: argparse.ArgumentParser) -> None:
    """Add --all, without which long tables are cut."""
    parser.add_argument("--all", action="store_true", help=f"show long tables whole, not their first {_ROWS} rows")


def most_rows(options: argparse.Namespace) -> int | None:
    """Return how many rows of a table are shown; None for all."""
    return None if options.all else _ROWS


_ROWS = 500

# ---- a model's plan ----------------------------------------------------------------------------------


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add the model, and the options that make its plan."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a .safetensors file (its header is enough) or the index of its shards, a .json of specs or of a "
        "plan, a bundled name such as gpt2-124m; or code, which torch runs: a config.json, or module:callable",
    )
    parser.add_argument(
        "--plan", metavar="PLAN.json", help="instead of MODEL: a plan, as `fastinit show --json` prints one"
    )
    parser.add_argument("--seed", type=int, help="0 to 2**64 - 1 (default 17)")
    parser.add_argument(
        "--policy",
        metavar="NAME_OR_FILE.toml",
        help="the rules that choose initializers: xavier (default), gpt2, llama and so on, or a file of your own",
    )
    add_rules(parser)
    parser.add_argument(
        "--order",
        choices=("named", "sequential"),
        help="a stream per tensor name (default), or the seed's one stream in the model's order",
    )
    add_dtype(parser, "store floating tensors so (default: as the model says)")


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan of the model and the options of `add_plan`, or the plan that a file holds."""
    from ..plan import Plan  # noqa: PLC0415

    path = _plan_file(options)
    if path is not None:
        _refuse_choices(options, path)
        return _read_plan(path)
    if is_code(options.model):
        return _recorded(options, options.model)
    seed, order = 17 if options.seed is None else options.seed, options.order or "named"
    return Plan.from_specs(options.model, seed, policy_of(options), order=order, dtype=options.dtype)


def _plan_file(options: argparse.Namespace) -> str | None:
    """Return the file of a plan that --plan or MODEL names; None where MODEL is specs."""
    if (options.model is None) == (options.plan is None):
        raise ValueError("name a MODEL, or a plan by --plan PLAN.json: one of the two")
    return options.plan or (options.model if _holds_plan(options.model) else None)


def _holds_plan(path: str) -> bool:
    if not path.endswith(".json") or not os.path.isfile(path):
        return False
    from .._files.opening import read_bounded  # noqa: PLC0415
    from .._files.safetensors import HEADER_LIMIT  # noqa: PLC0415
    from ..plan import is_plan  # noqa: PLC0415

    return is_plan(read_bounded(Path(path), HEADER_LIMIT, "a plan"))


def _refuse_choices(options: argparse.Namespace, path: str) -> None:
    """Refuse the options that would choose what a plan has chosen."""
    given = _given(options, "seed", "policy", "order", "dtype", "rule", "skip")
    if given:
        raise ValueError(f"{path} is a plan, which already says its {given[0]}; leave out --{given[0]}")


def _given(options: argparse.Namespace, *names: str) -> list[str]:
    return [name for name in names if getattr(options, name, None) not in (None, [])]


# ---- a model's code ----------------------------------------------------------------------------------


def is_code(source: str) -> bool:
    """Say whether a MODEL is code to run: a configuration, or module:callable where no file has that name."""
    if os.path.exists(source):
        return source.endswith(".json") and _is_configuration(source)
    module, colon, name = source.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def _is_configuration(path: str) -> bool:
    from .._files.opening import read_bounded  # noqa: PLC0415
    from .._files.safetensors import HEADER_LIMIT  # noqa: PLC0415
    from .._files.sources import is_configuration  # noqa: PLC0415

    return is_configuration(read_bounded(Path(path), HEADER_LIMIT, "a configuration"))


def _recorded(options: argparse.Namespace, source: str) -> Plan:
    """Return the plan that a model's own code makes, which no rule changes."""
    from ..torch import recorded_plan  # noqa: PLC0415

    given = _given(options, "policy", "order", "rule", "skip")
    if given:
        raise ValueError(f"{source} is code, which itself says what each tensor is; leave out --{given[0]}")
    return recorded_plan(source, 17 if options.seed is None else options.seed, options.dtype)


def add_rules(parser: argparse.ArgumentParser) -> None:
    """Add --rule and --skip, which go before the policy."""
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="GLOB=INITIALIZER",
        help="what the tensors so named get, for example '*.wte.weight=normal(0, 0.02)'; 'layout=oihw' and "
        "'groups=8' (or groups=depthwise) may follow; may be repeated",
    )
    parser.add_argument(
        "--skip", action="append", default=[], metavar="GLOB", help="leave these tensors out; may be repeated"
    )


def policy_of(options: argparse.Namespace) -> Policy:
    """Return what --policy names, with the rules of `add_rules` before its own."""
    from ..policies import as_policy, customized, parse_rule  # noqa: PLC0415
    from .outputs import refuse_overwriting  # noqa: PLC0415

    named = options.policy or "xavier"
    if named.endswith(".toml"):
        refuse_overwriting(options, [named])
    base = as_policy(Path(named) if named.endswith(".toml") else named)
    return customized(base, map(parse_rule, options.rule), options.skip)


def add_demanded_plan(parser: argparse.ArgumentParser, *, plan: str, policy: str, seed: str) -> None:
    """Add --plan, --policy and --seed, which say what a file should hold, with their helps."""
    parser.add_argument("--plan", metavar="PLAN.json", help=plan)
    parser.add_argument("--policy", help=policy)
    parser.add_argument("--seed", type=int, help=seed)


def demanded_plan(options: argparse.Namespace) -> Plan | None:
    """Return the plan in the file that --plan names, or of the code of --config; None without them."""
    config = getattr(options, "config", None)
    if config and options.plan:
        raise ValueError("--plan and --config both say what the file should hold; leave out one of the two")
    if config:
        return _recorded(options, config)
    if not options.plan:
        return None
    if options.policy is not None or options.seed is not None:
        raise ValueError("--plan already says seed and policy; leave out --seed and --policy")
    return _read_plan(options.plan)


def _read_plan(path: str) -> Plan:
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


# ---- digits of the user's own ------------------------------------------------------------------------


def add_digits(parser: argparse.ArgumentParser) -> None:
    """Add the files of images and labels."""
    parser.add_argument(
        "--images", metavar="FILE", help="training images in MNIST's idx format (default: built in)"
    )
    parser.add_argument("--labels", metavar="FILE", help="their labels")
    parser.add_argument("--test-images", metavar="FILE", help="held-out images (default: every fifth of --images)")
    parser.add_argument("--test-labels", metavar="FILE", help="their labels")
    parser.set_defaults(reads=("images", "labels", "test_images", "test_labels"))


def digits_of(options: argparse.Namespace) -> Digits | None:
    """Return the digits of the files given, or None for those that come with the package."""
    from ..lessons.digits import read_digits  # noqa: PLC0415

    files = (options.images, options.labels, options.test_images, options.test_labels)
    if not any(files):
        return None
    if not (options.images and options.labels):
        raise ValueError("digits of your own need both --images FILE and --labels FILE")
    return read_digits(*files)


# ---- views -------------------------------------------------------------------------------------------


def add_views(parser: argparse.ArgumentParser) -> None:
    """Add --figure and --html, for a result with a drawing."""
    parser.add_argument(
        "--figure", metavar="FILE", type=_figure_file, help="draw it into FILE, .svg or .png (needs matplotlib)"
    )
    parser.add_argument(
        "--html", metavar="FILE", type=_drawn_file, help="write one self-contained page (needs matplotlib)"
    )


def add_page(parser: argparse.ArgumentParser) -> None:
    """Add --html, for a result whose page has no drawing."""
    parser.add_argument("--html", metavar="FILE", type=_file, help="write one self-contained page")


def _figure_file(path: str) -> str:
    from ..views import figure as figures  # noqa: PLC0415

    try:
        figures.format_of(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return _drawn_file(path)


def _drawn_file(path: str) -> str:
    from ..views import figure as figures  # noqa: PLC0415

    try:
        figures.style()
    except ImportError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return _file(path)


def _file(path: str) -> str:
    """Refuse a file that cannot be written while the arguments are read, not after a minute's computation."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"cannot write {path!r}: there is no folder {folder!r}")
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"cannot write {path!r}: it is a folder")
    if os.path.exists(path) and not os.path.isfile(path):  # a finished file is renamed, which would replace it
        raise argparse.ArgumentTypeError(f"cannot write {path!r}: it is a device, pipe or socket; name a file")
    return path


# ---- numpy -------------------------------------------------------------------------------------------


def one_thread_a_product() -> None:
    """Keep numpy's BLAS to one thread a product; call it before anything loads numpy, which reads this once.

    The products of the lessons are small. Threads that wait for each other at every one of them take three to
    seven times the CPU time of one; and where networks are measured at once, each CPU has one of its own.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
