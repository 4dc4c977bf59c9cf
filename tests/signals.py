"""Send a signal to the command line at a random moment of its life, many times, and judge how each process ended.

The suite sends a few (test_process.py); ``python tests/signals.py --count 1000`` sends a thousand of each kind.
"""

import argparse
import collections
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SCRIPT = """\
import sys
from fastinit.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""
"""What pip installs as `fastinit`."""

SPECS = {f"layer.{i}.weight": {"dtype": "F32", "shape": [1024, 1024]} for i in range(8)}
COMMANDS = {
    "init": ["init", "specs.json", "--out", "model.safetensors"],
    "show": ["show", "specs.json"],
    "diagnose": ["diagnose", "made.safetensors"],
}
STARTING = ("<frozen importlib", "<frozen site", "<frozen runpy", "site.py", "sitecustomize", "encodings")


class End(NamedTuple):
    """One process: its status as the shell sees it, what it said, and the files it left."""

    status: int
    out: str
    err: str
    files: tuple[str, ...]

    def kind(self, number: int) -> str:
        """How it ended; anything but "stopped", "too late" and "Python's own start" is a fault."""
        if "Traceback" in self.err and "fastinit/" not in self.err.replace("bin/fastinit", ""):
            return "Python's own start"  # the interpreter's site module, before a line of anybody's runs
        if self.err.count("\n") > 1:
            return "more than a line"
        if set(self.files) - {"made.safetensors", "model.safetensors", "specs.json", "bin"}:
            return "a file left behind"
        if self.status == 0 and self.out and not self.err:
            return "too late"  # all was done: the process was already ending
        return "stopped" if self.status == 128 + number else f"status {self.status}"


def prepare(folder: Path) -> None:
    """Make the model's specs, a checkpoint to diagnose, and the script."""
    (folder / "bin").mkdir()
    (folder / "bin/fastinit").write_text(SCRIPT)
    (folder / "specs.json").write_text(json.dumps(SPECS))
    ended = start(folder, ["init", "specs.json", "--out", "made.safetensors"])
    ended.communicate()
    assert ended.returncode == 0


def start(folder: Path, arguments: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, str(folder / "bin/fastinit"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
        preexec_fn=heed,  # noqa: PLW1509  # there is one thread
    )


def heed() -> None:
    """Heed every signal in the child: a shell's background job inherits that Ctrl-C is ignored."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def duration(folder: Path, arguments: list[str]) -> float:
    """Seconds from exec to exit, undisturbed."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        start(folder, arguments).communicate()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def stopped(folder: Path, arguments: list[str], number: int, delay: float) -> End | None:
    """Run a command and send it the signal after `delay` seconds; None where it had ended by then."""
    (folder / "model.safetensors").unlink(missing_ok=True)
    child = start(folder, arguments)
    time.sleep(delay)
    sent = child.poll() is None
    if sent:
        child.send_signal(number)
    out, err = child.communicate(timeout=60)
    status = child.returncode if child.returncode >= 0 else 128 - child.returncode
    files = tuple(sorted(os.listdir(folder)))
    for left in folder.glob(".fastinit-*"):
        left.unlink()
    return End(status, out, err, files) if sent else None


def ends(folder: Path, command: str, number: int, count: int, seed: int) -> list[tuple[float, End]]:
    """`count` processes that got the signal, with the moment each got it."""
    moments = random.Random(seed)
    longest = duration(folder, COMMANDS[command])
    found = []
    while len(found) < count:
        delay = moments.uniform(0, longest)
        end = stopped(folder, COMMANDS[command], number, delay)
        if end is not None:
            found.append((delay, end))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="processes of each command and signal")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--command", choices=COMMANDS, action="append")
    parser.add_argument("--signal", choices=[number.name for number in SIGNALS], action="append")
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        for number in SIGNALS:
            if options.signal and number.name not in options.signal:
                continue
            for command in options.command or COMMANDS:
                found = ends(Path(name), command, number, options.count, options.seed)
                kinds = collections.Counter(end.kind(number) for _, end in found)
                print(f"{number.name} {command}: {dict(kinds)}", flush=True)
                faults = [each for each in found if each[1].kind(number) not in ACCEPTED]
                for delay, end in faults[:5]:
                    print(f"  after {delay:.4f} s: {end}")
                good = good and not faults and kinds["too late"] <= LATE * options.count
    return 0 if good else 1


LATE = 0.1
"""The share that may have ended by itself; more, and the signal was not heeded."""

ACCEPTED = ("stopped", "too late", "Python's own start")

if __name__ == "__main__":
    sys.exit(main())
