"""The C extension; everything else about the package is in pyproject.toml."""

import os
import shlex
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED_API = "0x030B0000"  # Python 3.11: one abi3 wheel for it and every later version

# -fno-wrapv: Python's own -fwrapv costs a normal draw an eighth of its time, and no signed number here overflows.
# -g0: Python's own -g takes half of the compiler's time and four fifths of the wheel.
compile_args = [
    "-std=c11",
    "-O3",
    "-g0",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-wrapv",
    "-fvisibility=hidden",
]

# What a user's CFLAGS permit the compiler to do to arithmetic is forbidden again after them: each part of
# -ffast-math by itself, because -fno-fast-math leaves a part that was asked for by its own name.
STRICT_ARITHMETIC = [
    "-fno-fast-math",
    "-fno-associative-math",
    "-fno-reciprocal-math",
    "-fno-finite-math-only",
    "-fno-approx-func",
    "-fno-rounding-math",
    "-fno-signaling-nans",
    "-fno-cx-limited-range",
    "-fno-single-precision-constant",
    "-fsigned-zeros",
    "-fhonor-nans",
    "-fhonor-infinities",
    "-fexcess-precision=standard",
    "-ffp-eval-method=source",
    "-fdenormal-fp-math=ieee",
    "-mfpmath=sse",
    "-mieee-fp",
    "-mrecip=none",
    "-mno-daz-ftz",
    "-fno-lto",
]
if sys.platform == "win32":
    raise SystemExit("fastinit needs gcc or clang: its bits rest on -ffp-contract=off. Use WSL or MinGW.")


# What links code that narrows long double in every process that loads the library; no later flag takes it out.
IRREVOCABLE = {"-mpc32", "-mpc64"}
for variable in ("CFLAGS", "CPPFLAGS", "LDFLAGS", "CC"):
    for flag in IRREVOCABLE.intersection(os.environ.get(variable, "").split()):
        raise SystemExit(
            f"fastinit cannot undo {flag}, which lowers the precision of the host; remove it from {variable}"
        )


def strict_arithmetic() -> list[str]:
    """Return the flags of STRICT_ARITHMETIC that this compiler knows, and what means its default for traps.

    No flag suits both compilers there: to clang, gcc's default is an order to keep every trap, which is slow.
    """
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    empty = ["-x", "c", os.devnull]
    known = [flag for flag in STRICT_ARITHMETIC if ask([*compiler, "-Werror", "-fsyntax-only", *empty, flag])]
    is_clang = "__clang__" in (ask([*compiler, "-dM", "-E", *empty]) or "")
    traps = ["-fno-trapping-math"] if is_clang else ["-fno-unsafe-math-optimizations", "-ftrapping-math"]
    return [*known, *traps]


def ask(command: list[str]) -> str | None:
    """Return what a command prints (a space at least), or None if it fails."""
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    return f" {answer.stdout}" if answer.returncode == 0 else None


class StrictBuild(build_ext):
    """Append the package's flags: setuptools puts them after a user's CFLAGS, so they have the last word."""

    def build_extensions(self) -> None:
        strict = strict_arithmetic()
        for extension in self.extensions:
            extension.extra_compile_args = [*strict, *compile_args]
            # linked with -ffast-math or -Ofast, a library flushes subnormals to zero in the process that loads it
            extension.extra_link_args = [*strict, "-O3"]
            extension.define_macros.append(("FI_FLAGS", f'"{" ".join(extension.extra_compile_args)}"'))
        compile_in_parallel(self.compiler)
        super().build_extensions()


def compile_in_parallel(compiler: Any) -> None:
    """Let setuptools' compiler work on several sources of one extension at a time; it takes them in turn."""
    compile_in_turn = compiler.compile

    def compile_all(sources: list[str], **options: Any) -> list[str]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return [*chain.from_iterable(pool.map(lambda source: compile_in_turn([source], **options), sources))]

    compiler.compile = compile_all


class Abi3Wheel(bdist_wheel):
    """Tag the wheel abi3, except on free-threaded builds, which have no limited API."""

    def finalize_options(self) -> None:
        if not FREE_THREADED:
            self.py_limited_api = "cp311"
        super().finalize_options()


LONGEST_FIRST = ["csrc/levels/avx2.c", "csrc/levels/avx512.c", "fastinit/_core.pyx"]
others = {path.as_posix() for path in Path("csrc").rglob("*.c")}.difference(LONGEST_FIRST)

core = Extension(
    "fastinit._core",
    sources=[*LONGEST_FIRST, *sorted(others)],
    depends=sorted(str(path) for path in Path("csrc").rglob("*.h")),
    include_dirs=["csrc"],
    define_macros=[] if FREE_THREADED else [("Py_LIMITED_API", LIMITED_API)],
    py_limited_api=not FREE_THREADED,
)

UNCHECKED = 'inspect = PyImport_ImportModule("inspect");\n'
CHECK = "    if (!inspect) return -1;\n"


def check_imports(source: Path) -> None:
    """Check the one import that Cython (3.1 to 3.3 at least) leaves unchecked: it crashed the process."""
    code = source.read_text()
    if UNCHECKED in code and CHECK not in code:
        source.write_text(code.replace(UNCHECKED, UNCHECKED + CHECK))


modules = cythonize([core], build_dir="build")
check_imports(next(path for path in map(Path, modules[0].sources) if path.name == "_core.c"))
setup(ext_modules=modules, cmdclass={"bdist_wheel": Abi3Wheel, "build_ext": StrictBuild})
