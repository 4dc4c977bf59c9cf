"""Run the C programs, and the fill, array and thread tests, under the compiler's sanitizers: `make sanitize`.

AddressSanitizer with UndefinedBehaviorSanitizer looks for memory and arithmetic that C does not define,
ThreadSanitizer for two threads at one place. The programs of tests/native hold the core alone; the tests load an
extension built with the sanitizer into an ordinary Python, which must therefore load the sanitizer's library
first. Every level of this machine has its turn. Compiled files stay in build/sanitize.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitize"
COMMON = ("-g", "-fno-omit-frame-pointer")

PROGRAMS = {
    "levels": (),
    "selftest": (),
    "summary": (),
    "rounding": ("20000",),
    "fma": ("200000",),
    "order": ("100000",),
    "brief": ("0.3",),
}
"""The programs of tests/native, and their arguments; `intervals` is built for one level, for `make accuracy`."""

TESTS = ("fill", "parts", "targets", "overlap", "threads", "summary")
"""Of tests/: test_NAME.py."""


@dataclass(frozen=True)
class Sanitizer:
    """How one is compiled in, loaded and told to stop at a finding, and which tests cannot run under it."""

    flags: tuple[str, ...]
    library: str
    options: dict[str, str]
    unfit: dict[str, str]


SANITIZERS = {
    "address": Sanitizer(
        ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
        "libasan.so",
        # Python keeps what it has interned until it ends, so its leaks say nothing of ours.
        {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},
        {},
    ),
    "thread": Sanitizer(
        ("-fsanitize=thread",),
        "libtsan.so",
        {"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"},
        {
            "test_a_forked_child_makes_its_own_pool": "ThreadSanitizer cannot follow a fork of running threads",
        },
    ),
}


class Failed(Exception):
    """A step ended badly; the sentence names it."""


def step(what: str, command: list[str], env: dict[str, str] | None = None) -> str:
    """Run a command; print how long it took, or raise `Failed` with what it printed."""
    began = time.monotonic()
    ended = subprocess.run(
        command, env={**os.environ, **(env or {})}, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise Failed(f"{what}: status {ended.returncode}\n{ended.stdout[-6000:]}{ended.stderr[-6000:]}")
    print(f"  {what}: clean, {time.monotonic() - began:.0f} s", flush=True)
    return ended.stdout


def core(name: str, sanitizer: Sanitizer, compiler: list[str]) -> tuple[list[str], list[str]]:
    """Compile the core, once for both parts; return the command that compiles and links, and the objects."""
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    command = [*compiler, "-std=c11", "-O1", "-fPIC", "-ffp-contract=off", "-fno-math-errno", *COMMON]
    command += [*sanitizer.flags, f"-I{ROOT / 'csrc'}"]
    objects = []
    for source in sorted((ROOT / "csrc").rglob("*.c")):
        made = folder / f"{source.stem}.o"
        if not is_newer(made):
            step(f"{source.name} compiled", [*command, "-c", str(source), "-o", str(made)])
        objects.append(str(made))
    return command, objects


def is_newer(made: Path) -> bool:
    """Whether a compiled file is newer than every file of the core."""
    return made.exists() and made.stat().st_mtime > max(p.stat().st_mtime for p in (ROOT / "csrc").rglob("*.[ch]"))


def programs(name: str, sanitizer: Sanitizer, compiler: list[str]) -> None:
    """Run every program of tests/native with the core."""
    command, objects = core(name, sanitizer, compiler)
    for program, arguments in PROGRAMS.items():
        binary, source = str(BUILD / name / program), str(ROOT / "tests" / "native" / f"{program}.c")
        subprocess.run([*command, source, *objects, "-lm", "-o", binary], check=True)
        step(f"tests/native/{program}.c", [binary, *arguments], sanitizer.options)


def extension(name: str, sanitizer: Sanitizer, compiler: list[str]) -> Path:
    """Copy the package, with the core linked into its extension; return the folder to import it from."""
    command, objects = core(name, sanitizer, compiler)
    folder = BUILD / name / "lib"
    package = folder / "fastinit"
    shutil.copytree(
        ROOT / "fastinit", package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    generated = str(BUILD / name / "_core.c")
    step(
        "_core.pyx translated", [sys.executable, "-m", "cython", "-3", str(package / "_core.pyx"), "-o", generated]
    )
    made = str(package / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}")
    include = f"-I{sysconfig.get_path('include')}"
    step("the extension linked", [*command, include, "-shared", generated, *objects, "-lm", "-o", made])
    return folder


def levels(place: Path, env: dict[str, str]) -> list[str]:
    """Return the levels that run here."""
    code = "import json; from fastinit import _core as c; print(json.dumps([c.__file__, c.levels()]))"
    loaded, found = json.loads(step("the extension loaded", [sys.executable, "-c", code], env))
    if not Path(loaded).is_relative_to(place):
        raise Failed(f"{loaded} was loaded, not the extension in {place}")
    return [level for level, runs in found.items() if runs]


def tests(name: str, sanitizer: Sanitizer, compiler: list[str]) -> None:
    """Run the tests on every level, and name those that cannot run."""
    place = extension(name, sanitizer, compiler)
    env = {
        **sanitizer.options,
        "LD_PRELOAD": " ".join(libraries(sanitizer, compiler)),
        "PYTHONPATH": str(place),
        "PYTHONSAFEPATH": "1",  # the folder of the sources holds an extension without sanitizers
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    for test, reason in sanitizer.unfit.items():
        print(f"  {test}: not run: {reason}")
    files = [str(ROOT / "tests" / f"test_{test}.py") for test in TESTS]
    names = " and ".join(f"not {test}" for test in sanitizer.unfit) or "test"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", names, *files]
    for level in levels(place, env):
        step(f"{len(TESTS)} files of tests, level {level}", command, {**env, "FASTINIT_LEVEL": level})


def libraries(sanitizer: Sanitizer, compiler: list[str]) -> Iterator[str]:
    """Yield the sanitizer's library and, for C++ code that throws through it, C++'s own."""
    for library in (sanitizer.library, "libstdc++.so.6"):
        answer = subprocess.run(
            [*compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(answer).is_absolute():
            raise Failed(f"{compiler[0]} has no {library}; install its sanitizers")
        yield answer


def main() -> int:
    """Run what is asked for; return 1 at the first finding."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SANITIZERS, help="one sanitizer")
    parser.add_argument("--part", choices=("programs", "tests"), help="the C programs, or the tests")
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    options = parser.parse_args()
    for name, sanitizer in SANITIZERS.items():
        if options.only in (None, name):
            print(f"{name} sanitizer", flush=True)
            try:
                for part in (programs, tests):
                    if options.part in (None, part.__name__):
                        part(name, sanitizer, compiler)
            except Failed as failure:
                print(f"  {failure}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
