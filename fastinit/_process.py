"""What a process of fastinit's own needs, `fastinit` or ``python -m fastinit``: its signals and its three streams.

A signal ends such a process at once and in silence, as it ends `cat`; the shell reads 130, 143 or 129. Only inside
`Stoppable`, where a file is being written, it raises `Stopped`: the half-written file is removed first.
A program that imports fastinit keeps its own signals and streams: nothing here is called.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal`, `contextlib` and `typing` take ten times as long
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REFUSAL = 2
"""Exit status: wrong usage, or a refused request."""

_SIGNALS = tuple(getattr(_signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(_signal, name))


class Stopped(KeyboardInterrupt):
    """A signal asked the process to end; `status` is the exit status that says so.

    Parameters
    ----------
    number : int
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


class _Process:
    """The one process: whether it is fastinit's own, and the signal that asked it to end (0: none)."""

    own = False
    stopped = 0


def begin() -> None:
    """Take this process over for the command line; a second call changes nothing."""
    try:
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # not where the shell ignores it
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    except KeyboardInterrupt:  # it came a moment ago
        raise SystemExit(128 + _signal.SIGINT) from None
    except ValueError:  # not in the main thread, which alone may do this
        return
    if not _Process.own:
        _Process.own = True
        _open_streams()


def load() -> None:
    """Choose the kernels; where that fails, end the process with one sentence and status 2."""
    try:
        from ._engine.levels import choose  # noqa: PLC0415

        choose()
    except ImportError as error:
        tell(f"fastinit: {error}")
        raise SystemExit(REFUSAL) from None


def _open_streams() -> None:
    """Open the null device for each standard stream that the shell closed.

    Otherwise the next file that is opened gets the stream's number, and what C prints to it lands in that file.
    """
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


class Stoppable:
    """The context in which a file is written: a signal raises `Stopped` in it, once; later ones are ignored.

    An ignored signal stays ignored, as under `nohup`.
    """

    def __enter__(self) -> None:
        if _Process.own:
            _exchange(_signal.SIG_DFL, _stop)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        _exchange(_stop, _signal.SIG_DFL)
        if _Process.stopped and not isinstance(error, Stopped):  # a destructor or a library has swallowed it
            raise Stopped(_Process.stopped) from error


def _exchange(old: object, new: object) -> None:
    for number in _SIGNALS:
        if _signal.getsignal(number) == old:
            _signal.signal(number, new)


def _stop(number: int, _: object) -> None:
    if not _Process.stopped:
        _Process.stopped = number
        raise Stopped(number)


def tell(text: str) -> None:
    """Print a sentence to standard error; where nobody can read it, the exit status still tells."""
    if sys.stderr is None:  # print would take standard output
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a broken pipe, a full disk, a closed file
        silence(sys.stderr)


def settle(stream: Any) -> None:
    """Write what a stream still holds; where that fails, drop it, and leave the exit status as it is."""
    if stream is not None:
        try:
            stream.flush()
        except (OSError, ValueError):
            silence(stream)


def silence(stream: Any) -> None:
    """Send what a stream still holds to the null device: Python would fail once more to write it at exit."""
    if _Process.own:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
        except (OSError, ValueError):  # it has no file of its own, or none any more
            return
