"""Parse the command line, run one command, and answer with the exit status.

Exit status 0: good; 1: a check failed; 2: wrong usage or a refused request. Errors go to standard error. A signal
ends the command as it ends any program, which a shell reads as 130 (Ctrl-C), 143 (SIGTERM) or 129 (SIGHUP).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from .._process import begin, settle, silence
from .outputs import Untouched, refuse_overwriting
from .printing import GOOD, REFUSED, Parser, complain

COMMANDS = {
    "init": "Initialize a whole model into one .safetensors file.",
    "verify": "Regenerate a checkpoint from its own header and compare every byte.",
    "show": "Print the plan of a model: what every tensor will be.",
    "scale": "Print the Xavier variance, standard deviation and uniform limit.",
    "report": "Print the learner report: one sampled projection and its checks.",
    "trace": "Print three populations of weights: measured spread, and variance by depth.",
    "train": "Train a 784-10-10 network from different starts, and compare them.",
    "digits": "Train a 64-32-10 network to read digits, in seconds.",
    "claims": "Print common statements about starting weights beside measurements.",
    "propagate": "Measure activations and gradients through depth, beside theory.",
    "recommend": "Say which initializer goes before an activation, and why.",
    "diagnose": "Measure every tensor of a checkpoint against what it should be.",
    "info": "Print the machine, the kernels in use and how they were built.",
    "bench": "Time fills beside memory itself; `make bench` adds the peers.",
}
"""Every command and its summary; the command's arguments stand in the file of its name beside this one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    Without `arguments` it is a process of its own, and reads them from ``sys.argv``.
    """
    if arguments is None:
        begin()
    # A command whose check fails writes options.status before it prints: the reader of a pipe may be gone.
    options = argparse.Namespace(status=GOOD, files="nothing was changed")
    try:
        _parse_and_run(list(sys.argv[1:] if arguments is None else arguments), options)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        silence(sys.stdout)
    except KeyboardInterrupt as stop:
        complain(f"interrupted; {options.files}")
        return int(getattr(stop, "status", 130))
    except Exception as error:
        return _refuse(error)
    return int(options.status)


def _parse_and_run(words: Sequence[str], options: argparse.Namespace) -> None:
    try:
        _parser(words).parse_args(words, options)
        options.files = Untouched(options)
        refuse_overwriting(options)
        options.status = options.run(options)
    except SystemExit as end:  # argparse has printed help, or what is wrong
        if end.code:
            raise
    if sys.stdout is not None:  # a program may have none
        sys.stdout.flush()


def _refuse(error: Exception) -> int:
    """Print the sentence of a refused request; raise any other error again, which is a fault of fastinit."""
    from ..errors import FastinitError  # noqa: PLC0415

    if not isinstance(error, FastinitError | ValueError | TypeError | ImportError | OSError | MemoryError):
        raise error
    complain(*getattr(error, "lines", (str(error) or "not enough memory",)))
    settle(sys.stdout)
    return REFUSED


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="fastinit",
        description="Starting weights at memory speed, with bits that never change.",
        epilog="exit status: 0 good, 1 a check failed, 2 wrong usage or a refused request",
    )
    parser.add_argument("--version", action="store_true", help="print the version and the kernels in use")
    parser.set_defaults(run=lambda options: _version(options, parser), figure=None, html=None)
    commands = parser.add_subparsers(metavar="COMMAND")
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name in words:  # no other command's file is needed
            _complete(name, command)
    return parser


def _complete(name: str, parser: argparse.ArgumentParser) -> None:
    command = import_module(f".{name}", __package__)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    command.add_arguments(parser)
    parser.set_defaults(run=command.run)


def _version(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if not options.version:
        options.status = REFUSED
        parser.print_help(sys.stderr)
        return REFUSED
    from .. import __version__, _core  # noqa: PLC0415

    print(f"fastinit {__version__} (kernels: {_core.simd_level()})")
    return GOOD
