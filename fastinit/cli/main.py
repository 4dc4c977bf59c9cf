"""The command line: argparse over public functions.

Exit status 0: good; 1: a check failed; 2: wrong usage or a refused request. Errors go to standard error. Imports
stand inside the commands, so that ``--help`` loads neither numpy nor the kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..lessons.digits import Digits
    from ..plan import Plan

Command = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]
"""Adds a command: its name, what runs it, what it does."""

GOOD, FAILED, REFUSED = 0, 1, 2
DTYPE_WORDS = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    options = _parser().parse_args(arguments)
    if arguments is None:  # as a program of its own: an exception, so that what is half done is undone
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        options.status = options.run(options)
        if sys.stdout is not None:  # closed by the shell: `>&-`
            sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.stdout = None
        return int(options.status)
    except KeyboardInterrupt:
        print("fastinit: interrupted; nothing was changed", file=sys.stderr)
        return 130
    except Exception as error:
        from ..errors import FastinitError  # noqa: PLC0415

        if not isinstance(error, FastinitError | ValueError | TypeError | ImportError | OSError | MemoryError):
            raise
        print(f"fastinit: {str(error) or 'not enough memory'}", file=sys.stderr)
        return REFUSED
    return int(options.status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fastinit",
        description="Starting weights at memory speed, with bits that never change.",
        epilog="exit status: 0 good, 1 a check failed, 2 wrong usage or a refused request",
    )
    parser.add_argument("--version", action="store_true", help="print the version and the kernels in use")
    commands = parser.add_subparsers(metavar="COMMAND")
    # A command that fails says so in options.status before it prints: the reader may be gone.
    parser.set_defaults(run=lambda options: _version(options, parser), status=GOOD)

    def command(name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=summary, description=summary)
        sub.set_defaults(run=run)
        sub.add_argument("--json", action="store_true", help="print one JSON object instead of text")
        return sub

    init = command("init", _init, "Initialize a whole model into one .safetensors file.")
    _add_plan_options(init)
    init.add_argument("--out", required=True, metavar="FILE", help="the .safetensors file to write")
    init.add_argument("--memset", action="store_true", help="compare with libc's memset of the same size")
    init.add_argument("--quiet", action="store_true", help="no progress line")

    verify = command("verify", _verify, "Regenerate a checkpoint from its own header and compare every byte.")
    verify.add_argument("file", metavar="FILE", help="a file that fastinit wrote")
    verify.add_argument("--quiet", action="store_true", help="no progress line")

    _add_plan_options(command("show", _show, "Print the plan of a model: what every tensor will be."))

    scale = command("scale", _scale, "Print the Xavier variance, standard deviation and uniform limit.")
    scale.add_argument("fan_in", type=int, metavar="FAN_IN", help="weighted inputs summed into each output")
    scale.add_argument("fan_out", type=int, metavar="FAN_OUT", help="outputs that receive each input")

    _add_lessons(command)
    _add_propagate(command)

    diagnose = command("diagnose", _diagnose, "Measure every tensor of a checkpoint against what it should be.")
    diagnose.add_argument(
        "file", metavar="FILE", help="a .safetensors file, or the .safetensors.index.json of shards"
    )
    diagnose.add_argument("--plan", metavar="FILE", help="judge by a plan written by `fastinit show --json`")
    diagnose.add_argument("--policy", help="judge by the plan that a policy makes of the file's header")
    diagnose.add_argument("--seed", type=int, help="of that plan (default 17; alone: policy xavier)")
    diagnose.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="GLOB=STD",
        help="the standard deviation of the tensors so named, to 1 %%; goes before the plan; may be repeated: "
        "the first that matches a name decides, and one that decides nothing is refused",
    )
    diagnose.add_argument("--quiet", action="store_true", help="no progress line")
    _add_views(diagnose)

    command("info", _info, "Print the machine, the kernels in use and how they were built.")

    bench = command("bench", _bench, "Time fills beside memory itself and whatever peers are installed.")
    bench.add_argument("--mib", type=int, default=512, help="size of the buffer in MiB (default 512)")
    bench.add_argument("--threads", type=int, default=1, help="threads (default 1)")
    bench.add_argument("--rounds", type=int, default=5, help="timed runs of each contestant (default 5)")
    bench.add_argument("--dtype", choices=tuple(DTYPE_WORDS), help="one dtype (default: all)")
    return parser


def _add_lessons(command: Command) -> None:
    report = command("report", _report, "Print the learner report: one sampled projection and its checks.")
    report.add_argument("--seed", type=int, default=17, help="seed of the example (default 17)")
    _add_views(report)

    trace = command("trace", _trace, "Print three populations of weights: measured spread, and variance by depth.")
    trace.add_argument("--seed", type=int, default=17, help="seed of the populations (default 17)")
    _add_views(trace)

    train = command("train", _train, "Train a 784-10-10 network from different starts, and compare them.")
    train.add_argument("--seeds", type=int, default=5, help="runs of each start (default 5)")
    train.add_argument("--epochs", type=int, default=30, help="passes over the data in a run (default 30)")
    train.add_argument("--optimizer", choices=("sgd", "momentum", "adam"), default="sgd", help="(default sgd)")
    train.add_argument(
        "--pretrained",
        metavar="FILE",
        help="a .safetensors file of layer.0.weight, layer.0.bias, layer.1.weight, layer.1.bias "
        "(default: an earlier run on half of the images)",
    )
    _add_digits(train)
    _add_views(train)

    digits = command("digits", _digits, "Train a 64-32-10 network to read digits, in seconds.")
    digits.add_argument("--seed", type=int, default=17, help="0 to 2**64 - 1 (default 17)")
    _add_views(digits)

    claims = command("claims", _claims, "Print what is often said about starting weights beside what is measured.")
    claims.add_argument("--seed", type=int, default=17, help="0 to 2**64 - 1 (default 17)")
    _add_digits(claims)
    claims.add_argument("--html", metavar="FILE", type=_file, help="write one self-contained page")
    claims.set_defaults(figure=None)


def _add_propagate(command: Command) -> None:
    propagate = command("propagate", _propagate, "Measure activations and gradients through depth, beside theory.")
    propagate.add_argument(
        "lesson",
        nargs="?",
        choices=("seed3",),
        metavar="seed3",
        help="the lesson's networks beside what is said of them",
    )
    propagate.add_argument("--activation", metavar="NAME", help="the nonlinearity (default relu)")
    propagate.add_argument(
        "--init",
        metavar="INIT",
        help='a name such as kaiming_normal, or JSON: {"kind": "normal", "mean": 0, "std": 0.02} '
        "(default: six starts side by side)",
    )
    depth = propagate.add_mutually_exclusive_group()
    depth.add_argument("--layers", type=int, metavar="L", help="weight matrices (default 50)")
    depth.add_argument(
        "--residual", type=int, metavar="N", help="2N additions x + f(x), with and without the factor 1/sqrt(2N)"
    )
    propagate.add_argument("--width", type=int, metavar="W", help="units of every layer (default 512)")
    propagate.add_argument("--inputs", type=int, default=256, metavar="B", help="inputs in a batch (default 256)")
    propagate.add_argument("--seeds", type=int, default=5, metavar="K", help="networks measured (default 5)")
    propagate.add_argument("--seed", type=int, default=17, help="seed of the first (default 17)")
    _add_views(propagate)

    advice = command("recommend", _recommend, "Say which initializer goes before an activation, and why.")
    advice.add_argument("activation", metavar="ACTIVATION", help="for example relu, tanh, gelu")
    advice.add_argument(
        "--residual-layers", type=int, metavar="N", help="for weights that write to a residual stream of N layers"
    )


def _add_plan_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "layout",
        metavar="LAYOUT",
        help="a .safetensors file (its header is enough), a layout .json, or a bundled name such as gpt2-124m",
    )
    parser.add_argument("--seed", type=int, default=17, help="0 to 2**64 - 1 (default 17)")
    parser.add_argument("--policy", default="xavier", help="the rules that choose initializers (default xavier)")
    parser.add_argument(
        "--order",
        default="named",
        choices=("named", "sequential"),
        help="a stream per tensor name (default), or the seed's one stream in the layout's order",
    )
    parser.add_argument(
        "--dtype", choices=tuple(DTYPE_WORDS), help="store floating tensors so (default: as the layout says)"
    )


def _plan(options: argparse.Namespace) -> Plan:
    from ..plan import Plan  # noqa: PLC0415

    dtype = DTYPE_WORDS[options.dtype] if options.dtype else None
    return Plan.from_layout(options.layout, options.seed, options.policy, order=options.order, dtype=dtype)


def _version(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if not options.version:
        parser.print_help(sys.stderr)
        return REFUSED
    from .. import __version__, _core  # noqa: PLC0415

    print(f"fastinit {__version__} (kernels: {_core.simd_level()})")
    return GOOD


def _init(options: argparse.Namespace) -> int:
    from ..checkpoint import write_checkpoint  # noqa: PLC0415
    from ..views.table import counted  # noqa: PLC0415

    plan = _plan(options)
    with _Progress("init", options.quiet) as progress:
        written = write_checkpoint(plan, options.out, progress)
    facts: dict[str, Any] = {
        "file": options.out,
        "tensors": len(plan),
        "bytes": written.size,
        "seconds": written.seconds,
        "fill_seconds": written.fill_seconds,
        "gb_per_second": _rate(plan.nbytes, written.fill_seconds),
    }
    lines = [
        f"wrote {options.out}: {counted(len(plan), 'tensor')}, {written.size:,} bytes in "
        f"{written.seconds:.3f} s to disk; "
        f"filled in {written.fill_seconds:.3f} s, {_rate(plan.nbytes, written.fill_seconds):.2f} GB/s"
    ]
    if options.memset:
        from .._engine.speed import memset_seconds  # noqa: PLC0415

        seconds = memset_seconds(plan.nbytes)
        ratio = written.fill_seconds / seconds if seconds else 0.0
        facts |= {"memset_seconds": seconds, "ratio_to_memset": ratio}
        lines.append(
            f"memset of the same size in memory: {seconds:.3f} s, {_rate(plan.nbytes, seconds):.2f} GB/s; "
            f"the fill of the mapped file took {ratio:.2f} times as long"
        )
    _print(options, facts, lines)
    return GOOD


def _verify(options: argparse.Namespace) -> int:
    from ..checkpoint import verify_checkpoint  # noqa: PLC0415
    from ..views.table import counted  # noqa: PLC0415

    began = time.perf_counter()
    with _Progress("verify", options.quiet) as progress:
        found = verify_checkpoint(options.file, progress)
    seconds = time.perf_counter() - began
    plan = found.plan
    facts = {
        "file": options.file,
        "good": bool(found),
        "seed": plan.seed,
        "policy": plan.policy,
        "order": plan.order,
        "tensors": len(plan),
        "bytes": plan.nbytes,
        "seconds": seconds,
        "mismatches": [
            {"name": m.name, "index": m.index, "stored": m.stored, "expected": m.expected}
            for m in found.mismatches
        ],
    }
    options.status = GOOD if found else FAILED
    if found:
        summary = (
            f"verified {options.file}: all {plan.nbytes:,} bytes of {counted(len(plan), 'tensor')} follow from "
            f"seed {plan.seed}, policy {plan.policy}, order {plan.order} ({seconds:.3f} s)"
        )
        _print(options, facts, [summary])
        return GOOD
    if options.json:
        _print(options, facts, [])
    for mismatch in found.mismatches:
        print(f"fastinit: {options.file}: {mismatch}", file=sys.stderr)
    return FAILED


def _show(options: argparse.Namespace) -> int:
    plan = _plan(options)
    if options.json:
        print(plan.to_json())
        return GOOD
    print("\n".join([*plan.table().lines(), str(plan)]))
    return GOOD


def _scale(options: argparse.Namespace) -> int:
    from .._engine.gains import xavier_scale  # noqa: PLC0415

    scale = xavier_scale(options.fan_in, options.fan_out)
    facts = {
        "fan_in": scale.fan_in,
        "fan_out": scale.fan_out,
        "target_variance": scale.target_variance,
        "standard_deviation": scale.standard_deviation,
        "uniform_limit": scale.uniform_limit,
    }
    names = {"fan_in": "d", "fan_out": "d"}
    _print(
        options,
        facts,
        [f"{key.replace('_', ' ')}: {value:{names.get(key, '.12f')}}" for key, value in facts.items()],
    )
    return GOOD


def _report(options: argparse.Namespace) -> int:
    from ..lessons.report import learner_report  # noqa: PLC0415

    report = learner_report(options.seed)
    return _deliver(options, report, good=report.holds)


def _trace(options: argparse.Namespace) -> int:
    from ..lessons.populations import measure_populations  # noqa: PLC0415
    from ..lessons.trace import render_trace  # noqa: PLC0415

    found = measure_populations(options.seed)
    return _deliver(options, found, render_trace(found).splitlines(), good=found.holds)


def _add_digits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--images", metavar="FILE", help="training images in MNIST's idx format (default: built in)"
    )
    parser.add_argument("--labels", metavar="FILE", help="their labels")
    parser.add_argument("--test-images", metavar="FILE", help="held-out images (default: every fifth of --images)")
    parser.add_argument("--test-labels", metavar="FILE", help="their labels")


def _digits_of(options: argparse.Namespace) -> Digits | None:
    """Return the digits of the files given, or None for those that come with the package."""
    from ..lessons.digits import read_digits  # noqa: PLC0415

    files = (options.images, options.labels, options.test_images, options.test_labels)
    if not any(files):
        return None
    if not (options.images and options.labels):
        raise ValueError("digits of your own need both --images FILE and --labels FILE")
    return read_digits(*files)


def _train(options: argparse.Namespace) -> int:
    from ..lessons.training import compare_starts  # noqa: PLC0415

    result = compare_starts(
        _digits_of(options),
        seeds=options.seeds,
        epochs=options.epochs,
        optimizer=options.optimizer,
        pretrained=options.pretrained,
    )
    return _deliver(options, result)


def _propagate(options: argparse.Namespace) -> int:
    # One thread a product: they are too small for more, and `measure` runs a network on every CPU.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from .. import propagation  # noqa: PLC0415
    from ..propagation.result import Comparison, Propagation  # noqa: PLC0415

    sample = {name: getattr(options, name) for name in ("inputs", "seeds", "seed")}
    chosen = {
        name: getattr(options, name)
        for name in ("activation", "init", "layers", "residual", "width")
        if getattr(options, name) is not None
    }
    result: Comparison | Propagation
    if options.lesson:
        if chosen:
            raise ValueError(f"the networks of {options.lesson} are fixed: leave out --{', --'.join(chosen)}")
        return _deliver(options, propagation.lesson(**sample))
    if options.init is not None:
        chosen["initializer"] = chosen.pop("init")
    if options.residual is not None:
        chosen.pop("residual")
        result = propagation.residual_stack(residual_layers=options.residual, **chosen, **sample)
    elif options.init is not None:
        result = propagation.propagate(**{"activation": "relu", **chosen}, **sample)
    else:
        result = propagation.compare_initializers(**chosen, **sample)
    return _deliver(options, result)


def _digits(options: argparse.Namespace) -> int:
    from ..lessons.training import train_digits  # noqa: PLC0415

    result = train_digits(options.seed)
    return _deliver(options, result, good=result.reached)


def _claims(options: argparse.Namespace) -> int:
    from ..lessons.claims import check_claims  # noqa: PLC0415

    return _deliver(options, check_claims(_digits_of(options), options.seed))


def _recommend(options: argparse.Namespace) -> int:
    from ..lessons.recommend import recommend  # noqa: PLC0415

    advice = recommend(options.activation, options.residual_layers)
    facts = {
        "initializer": advice.initializer.to_json(),
        "scheme": advice.initializer.name,
        "reason": advice.reason,
    }
    _print(options, facts, [f"{options.activation}: {advice.initializer.name}", advice.reason])
    return GOOD


def _diagnose(options: argparse.Namespace) -> int:
    from ..diagnosis.judge import diagnose  # noqa: PLC0415

    if options.plan and (options.policy or options.seed is not None):
        raise ValueError("--plan already says seed and policy; leave out --seed and --policy")
    policy = options.policy or (None if options.seed is None else "xavier")
    with _Progress("diagnose", options.quiet) as progress:
        diagnosis = diagnose(
            options.file,
            plan=_plan_of(options.plan) if options.plan else None,
            seed=17 if options.seed is None else options.seed,
            policy=policy,
            rules=_rules(options.expect),
            progress=progress,
        )
    return _deliver(options, diagnosis, good=bool(diagnosis))


def _plan_of(path: str) -> Plan:
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
            f"{path} is not a plan: {error}; `fastinit show LAYOUT --seed SEED --json` prints one"
        ) from error


def _rules(texts: list[str]) -> dict[str, float]:
    rules: dict[str, float] = {}
    for text in texts:
        glob, _, std = text.rpartition("=")
        if glob in rules:
            raise ValueError(f"the glob {glob!r} is given twice; leave one of the two out")
        try:
            rules[glob] = float(std)
        except ValueError:
            raise ValueError(
                f"--expect takes GLOB=STD, for example '*c_proj.weight=0.0041', got {text!r}"
            ) from None
    return rules


def _info(options: argparse.Namespace) -> int:
    from .. import __version__  # noqa: PLC0415
    from .._engine.speed import machine  # noqa: PLC0415

    facts = {"fastinit": __version__, **machine()}
    runs = ", ".join(name if here else f"{name} (not here)" for name, here in facts["levels"].items())
    _print(options, facts, [f"{key}: {value}" for key, value in {**facts, "levels": runs}.items()])
    return GOOD


def _bench(options: argparse.Namespace) -> int:
    import dataclasses  # noqa: PLC0415

    from .._engine.dtypes import BY_NAME  # noqa: PLC0415
    from .._engine.speed import compare, dtype_names, machine, table  # noqa: PLC0415

    if options.mib < 1 or options.rounds < 1:
        raise ValueError("--mib and --rounds must be at least 1")
    names = (DTYPE_WORDS[options.dtype],) if options.dtype else dtype_names()
    facts: dict[str, Any] = {"machine": machine(), "threads": options.threads, "seconds": {}}
    for name in names:
        nbytes = options.mib << 20
        timings = compare(name, nbytes, options.threads, options.rounds)
        facts["seconds"][name] = {who: dataclasses.asdict(timing) for who, timing in timings.items()}
        if not options.json:
            print("\n".join(table(name, nbytes // BY_NAME[name].itemsize, timings)), flush=True)
    if options.json:
        print(json.dumps(facts))
    return GOOD


def _add_views(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--figure", metavar="FILE", type=_figure_file, help="draw it into FILE, .svg or .png (needs matplotlib)"
    )
    parser.add_argument(
        "--html", metavar="FILE", type=_drawn_file, help="write one self-contained page (needs matplotlib)"
    )


def _file(path: str) -> str:
    """Refuse a view's file at once where it cannot be written, not after a minute's computation."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"cannot write {path!r}: there is no folder {folder!r}")
    if os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"cannot write {path!r}: it is a folder")
    return path


def _drawn_file(path: str) -> str:
    from ..views import figure as figures  # noqa: PLC0415

    try:
        figures.style()
    except ImportError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return _file(path)


def _figure_file(path: str) -> str:
    from ..views import figure as figures  # noqa: PLC0415

    try:
        figures.format_of(path)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return _drawn_file(path)


def _deliver(
    options: argparse.Namespace, result: Any, lines: list[str] | None = None, *, good: bool = True
) -> int:
    """Print a result as text (its own lines, or `lines`) or JSON, write the views asked for, return the status."""
    options.status = GOOD if good else FAILED
    if options.figure:
        from ..views import figure as figures  # noqa: PLC0415

        figures.save(result, options.figure)
    if options.html:
        from ..views import pages_old as pages  # noqa: PLC0415

        pages.save(result, options.html)
    _print(options, result.facts(), lines or result.lines())
    return int(options.status)


def _print(options: argparse.Namespace, facts: dict[str, Any], lines: list[str]) -> None:
    print(json.dumps(facts) if options.json else "\n".join(lines))


def _rate(nbytes: int, seconds: float) -> float:
    return nbytes / seconds / 1e9 if seconds else 0.0


class _Progress:
    """One line on a terminal's standard error, rewritten as bytes are done; silent elsewhere."""

    def __init__(self, verb: str, quiet: bool) -> None:
        self.verb = verb
        self.shown = not quiet and sys.stderr.isatty()
        self.last = 0.0

    def __enter__(self) -> Callable[[int, int, str], None]:
        return self.update

    def __exit__(self, *error: object) -> None:
        if self.last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def update(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if self.shown and now - self.last > 0.05:
            self.last = now
            share = 100 * done / total if total else 100
            print(
                f"\r\x1b[K{self.verb} {share:3.0f} %  {done:,} of {total:,} bytes  {name[:60]}",
                end="",
                file=sys.stderr,
                flush=True,
            )
