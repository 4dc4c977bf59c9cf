"""Feed mutated files to every reader: `make fuzz MINUTES=5`, or `python tools/fuzz.py --count 100000 --seed 1`.

A file is untrusted, so whatever its bytes are, a reader accepts it or refuses it by a sentence of its own: no
traceback, no error of another library, less than 300 MB, less than two seconds. What is accepted must be so: the
safetensors library judges headers, and the others must give back what they were read from.

Case n of a seed is always the same. Each finding is written to a folder of its own, with the files that made it.
"""

from __future__ import annotations

import argparse
import contextlib
import dis
import io
import mmap
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import TracebackType

from fuzz_kinds import KINDS, Files, Finding, Kind, make_originals

import fastinit
from fastinit.cli.main import main as command_line

SECONDS = 2.0
"""The longest that a reader may take."""
MEGABYTES = 300
"""The most memory that the process may have."""
STOP_SECONDS = 20
"""After so long a reader is stopped; it was a finding long before."""
BATCH = 500
"""Cases a process: one that dies takes no more with it."""
FOREIGN = (
    "codec can't",
    "set_int_max_str_digits",
    "'NoneType'",
    "object is not",
    "not supported between",
    "recursion",
)
"""What sentences of Python say, and none of ours."""
LONGEST = 10_000
"""Characters of a sentence, names of the file included."""
PACKAGE = str(Path(fastinit.__file__).parent)


class TooSlow(BaseException):
    """A reader was stopped; no `except Exception` may hide it."""


# ---- one reader ----


def check(kind: str, name: str, refusal: type[Exception], call: Callable[[], object]) -> str:
    """Call a reader; return how it ended, or raise `Finding`."""
    began = time.perf_counter()
    ended = "accepted"
    try:
        call()
    except Finding:
        raise
    except TooSlow:
        raise Finding(f"took more than {STOP_SECONDS} s and was stopped") from None
    except Exception as error:
        judge_refusal(error, refusal)
        ended = "refused"
    seconds = time.perf_counter() - began
    if seconds > SECONDS:
        raise Finding(f"took {seconds:.1f} s")
    return f"{kind} {name}: {ended}"


def judge_refusal(error: Exception, refusal: type[Exception]) -> None:
    """Raise `Finding` unless the error is the reader's own, in one clean sentence."""
    sentence = str(error)
    if not isinstance(error, refusal):
        raise Finding(f"{type(error).__name__} instead of {refusal.__name__}: {sentence}") from error
    if not raised_by_us(error.__traceback__):
        raise Finding(f"an error that fastinit did not raise: {type(error).__name__}: {sentence}") from error
    judge_sentence(sentence)


def raised_by_us(trace: TracebackType | None) -> bool:
    """Whether the innermost frame is fastinit's, and stands at a `raise`."""
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    if not trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        return False
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] in ("RAISE_VARARGS", "RERAISE")


def judge_sentence(sentence: str) -> None:
    """Raise `Finding` for a sentence that is empty, too long, foreign, or moves the reader's cursor."""
    foreign = [phrase for phrase in FOREIGN if phrase in sentence]
    if foreign:
        raise Finding(f"a foreign sentence ({foreign[0]}): {sentence}")
    if not 0 < len(sentence) <= LONGEST:
        raise Finding(f"a sentence of {len(sentence)} characters: {sentence[:200]!r}...")
    strange = {character for character in sentence if unicodedata.category(character) in ("Cc", "Cf", "Cs")}
    if strange:
        raise Finding(f"a sentence with {sorted(strange)!r}: {sentence!r}")


def check_command(kind: Kind, folder: Path, random: Random) -> str:
    """Run one command on the files, as a shell would; its status must be promised, and its error one sentence."""
    words = random.choice(kind.commands)
    arguments = [str(folder / word) if (folder / word).is_file() else word for word in words]
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        status = command_line(arguments)
    if status not in (0, 1, 2):
        raise Finding(f"fastinit {words[0]} ended with status {status}")
    _, *more = said.getvalue().split("\n")  # a policy that refuses names each kind on a line of its own
    if status == 2 and (not more or any(not line.startswith("  ") for line in more[:-1])):
        raise Finding(f"fastinit {words[0]} said {said.getvalue()!r}")
    return f"fastinit {words[0]}: status {status}"


# ---- one case ----


def run_case(kind_name: str, seed: int, number: int, folder: Path, found: Counter[str]) -> Iterator[str]:
    """Make a case, and yield every finding about it, as `reader: sentence`."""
    kind, random = KINDS[kind_name], Random(f"{seed}/{kind_name}/{number}")
    write(folder, kind.made(random))
    for name, refusal, call in kind.doors(folder):
        try:
            found[check(kind_name, name, refusal, call)] += 1
        except Finding as finding:
            yield f"{name}: {finding}{trace_of(finding)}"
        if megabytes() > MEGABYTES:
            yield f"{name}: the process has had {megabytes():.0f} MB"
            forget_peak()
    if kind.commands:
        try:
            found[check_command(kind, folder, random)] += 1
        except (Exception, TooSlow) as error:
            yield f"command: {type(error).__name__}: {error}{trace_of(error)}"


def write(folder: Path, files: Files) -> None:
    """Put the files of a case in its folder."""
    for name, content in files.items():
        (folder / name).write_bytes(content)


def trace_of(error: BaseException) -> str:
    """Return the traceback of the error behind a finding, for the person who mends it."""
    cause = error.__cause__ or (error if not isinstance(error, Finding) else None)
    return "" if cause is None else "\n" + "".join(traceback.format_exception(cause))


def megabytes() -> float:
    """Return the most memory that this process has had; 0 where the system does not say."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def forget_peak() -> None:
    """Let the peak start anew, so that the next case is not blamed."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


# ---- all of them ----


def run_batch(options: argparse.Namespace, numbers: range, at: mmap.mmap, folder: Path) -> Counter[str]:
    """Run cases in this process; `at` tells the parent which one, should this process die."""
    found: Counter[str] = Counter()
    names = options.kinds
    signal.signal(signal.SIGALRM, stop)
    for number in numbers:
        at[:8] = number.to_bytes(8, "little")
        signal.alarm(STOP_SECONDS)
        for finding in run_case(names[number % len(names)], options.seed, number, folder, found):
            found["finding"] += 1
            keep(options, number, finding, folder)
        signal.alarm(0)
    return found


def stop(*_: object) -> None:
    """End a reader that takes too long, as a signal's handler."""
    raise TooSlow(f"stopped after {STOP_SECONDS} s")


def keep(options: argparse.Namespace, number: int, finding: str, folder: Path) -> None:
    """Write a finding and its files."""
    place = options.out / f"seed{options.seed}-case{number}"
    place.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        shutil.copy(path, place)
    with (place / "finding.txt").open("a") as file:
        file.write(f"{finding}\n")
    name = options.kinds[number % len(options.kinds)]
    print(f"case {number} ({name}): {finding.splitlines()[0][:300]!a}", flush=True)


def tell(written: int, call: Callable[[], Counter[str]]) -> None:
    """Write what a call counted to a pipe, and end this process; what belongs to its parent is left alone."""
    status = 1
    try:
        os.write(written, "\n".join(f"{count} {what}" for what, count in call().items()).encode())
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def in_child(options: argparse.Namespace, numbers: range, at: mmap.mmap) -> tuple[Counter[str], int]:
    """Run a batch in a process of its own; return what it counted, and the case to go on with."""
    read, written = os.pipe()
    with tempfile.TemporaryDirectory() as place:
        child = os.fork()
        if child == 0:
            tell(written, lambda: run_batch(options, numbers, at, Path(place)))
        os.close(written)
        with os.fdopen(read) as pipe:
            lines = pipe.read().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            number = int.from_bytes(at[:8], "little")
            keep(options, number, f"the process died with status {status}", Path(place))
            return Counter(finding=1), number + 1
    split = (line.split(" ", 1) for line in lines)
    return Counter({what: int(count) for count, what in split}), numbers.stop


def run(options: argparse.Namespace) -> int:
    """Run all cases, print what came of them, and return the exit status."""
    make_originals()
    began, number, found = time.monotonic(), options.first, Counter[str]()
    at = mmap.mmap(-1, 8)
    end = options.first + options.count
    while number < end and time.monotonic() - began < 60 * options.minutes:
        counted, number = in_child(options, range(number, min(number + BATCH, end)), at)
        found += counted
    for what, count in sorted(found.items()):
        print(f"{count:8} {what}")
    print(
        f"{number - options.first} cases of seed {options.seed} in {time.monotonic() - began:.0f} s: "
        f"{found['finding'] or 'no'} findings{f', in {options.out}' if found['finding'] else ''}"
    )
    return 1 if found["finding"] else 0


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to see one again")
    parser.add_argument("--count", type=int, default=10**12, help="cases at most")
    parser.add_argument("--minutes", type=float, default=10**6, help="minutes at most")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"), help="folder of the findings")
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
