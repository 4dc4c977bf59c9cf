"""The C core by itself: every level against the portable one, here and on other architectures under qemu.

The same programs run natively, as AArch64 (NEON) and as big-endian s390x, and must print the same hash of the
portable bits. Name levels in FASTINIT_REQUIRE_LEVELS (commas between them) to make their absence a failure.
"""

import graphlib
import itertools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fno-math-errno"]
CORE = sorted((ROOT / "csrc").rglob("*.c"))
TEMPLATE = ROOT / "csrc" / "levels" / "loop.h"  # a part of each level's file
HEADERS = [path for path in sorted((ROOT / "csrc").rglob("*.h")) if path != TEMPLATE]
REQUIRED = {level for level in os.environ.get("FASTINIT_REQUIRE_LEVELS", "").split(",") if level}

# name: compiler, emulator, what only this target has
TARGETS = {
    "gcc": ("gcc", None, None),
    "clang": ("clang", None, None),
    "aarch64": ("aarch64-linux-gnu-gcc", "qemu-aarch64", "neon"),
    "s390x": ("s390x-linux-gnu-gcc", "qemu-s390x", "big-endian"),
}
NATIVE = REQUIRED - {feature for _, _, feature in TARGETS.values()}
"""The levels required of this machine."""


def compilers(target: str) -> tuple[str, str | None]:
    """The compiler and emulator of `target`; skip, or fail if required, where one is missing."""
    compiler, emulator, feature = TARGETS[target]
    missing = [tool for tool in (compiler, emulator) if tool and not shutil.which(tool)]
    if missing:
        message = f"no {' and no '.join(missing)} here, so {target} was not run"
        if feature in REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    return compiler, emulator


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """The core's objects for a target and flags, compiled once for all programs."""

    @cache
    def objects(target: str, flags: tuple[str, ...]) -> list[str]:
        compiler, _ = compilers(target)
        folder = tmp_path_factory.mktemp(target)
        subprocess.run([compiler, *FLAGS, *flags, "-c", *map(str, CORE)], check=True, cwd=folder)
        return sorted(map(str, folder.glob("*.o")))

    return objects


def run(
    compiled: Callable[..., list[str]],
    target: str,
    program: str,
    folder: Path,
    *arguments: str,
    flags: tuple[str, ...] = (),
) -> str:
    """Compile and run tests/native/`program`.c."""
    compiler, emulator = compilers(target)
    binary = folder / program
    source = ROOT / f"tests/native/{program}.c"
    static = ["-static"] if emulator else []
    objects = compiled(target, flags)
    build = [
        compiler,
        *FLAGS,
        *flags,
        *static,
        f"-I{ROOT / 'csrc'}",
        str(source),
        *objects,
        "-lm",
        "-o",
        str(binary),
    ]
    subprocess.run(build, check=True)
    command = [*([emulator] if emulator else []), str(binary), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def bits_hash(output: str) -> str:
    """The last line: a hash of all the portable bits."""
    return output.splitlines()[-1]


@pytest.fixture(scope="module")
def native(compiled, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the suite prints on this machine."""
    return run(compiled, "gcc", "levels", tmp_path_factory.mktemp("native"), *sorted(NATIVE))


@pytest.mark.parametrize("target", ["clang", "aarch64", "s390x"])
def test_every_compiler_and_architecture_gives_the_same_bits(
    compiled, target: str, tmp_path: Path, native: str
) -> None:
    """A level, compiler or byte order with bits of its own; a host environment that leaks in, or out."""
    output = run(compiled, target, "levels", tmp_path)
    assert bits_hash(output) == bits_hash(native)
    assert ("level neon" in output) == (target == "aarch64")


def test_optimization_changes_no_bit(compiled, tmp_path: Path, native: str) -> None:
    """An optimizer that contracts to fma, or moves arithmetic out of the guarded environment."""
    output = run(compiled, "gcc", "levels", tmp_path, flags=("-O3", "-march=native"))
    assert bits_hash(output) == bits_hash(native)


@pytest.mark.parametrize(
    ("target", "float32_values"), [("gcc", "1700000"), ("aarch64", "20000"), ("s390x", "20000")]
)
def test_every_value_of_every_dtype_is_rounded_right(
    compiled, target: str, float32_values: str, tmp_path: Path
) -> None:
    """A double rounding, a midpoint to the odd side, a subnormal flushed, a carry lost: on some level only."""
    assert "roundings right" in run(compiled, target, "rounding", tmp_path, float32_values)


@pytest.mark.parametrize(
    ("target", "millions"), [("gcc", "3"), ("clang", "1"), ("aarch64", "0.1"), ("s390x", "0.05")]
)
def test_the_short_ways_of_narrow_weights_end_in_the_exact_bits(
    compiled, target: str, millions: str, tmp_path: Path
) -> None:
    """An error bound that does not hold, at some scale, dtype, place or increment: other bits, in silence."""
    output = run(compiled, target, "brief", tmp_path, millions)
    assert output.count("distributions") == 5 * len({line.split()[0] for line in output.splitlines()})
    assert ": 0 distributions" not in output


def test_calls_between_the_operations_change_no_bit(compiled, tmp_path: Path, native: str) -> None:
    """A register that is spilled around a call and read back wider than it was written: gcc 12, with masks.

    The flag puts a call at both ends of every function, inlined ones too, as sanitizers and profilers do.
    """
    flags = ("-finstrument-functions", "-Wno-maybe-uninitialized")
    assert ": 0 distributions" not in run(compiled, "gcc", "brief", tmp_path, "0.2", flags=flags)
    assert bits_hash(run(compiled, "gcc", "levels", tmp_path, flags=flags)) == bits_hash(native)


@pytest.mark.parametrize("level", ["avx2", "avx512"])
def test_the_intervals_of_16_bit_weights_hold_every_weight(compiled, level: str, tmp_path: Path) -> None:
    """An end on the wrong side of a weight. Every 500th block of the 31 bits; `make accuracy` walks all."""
    if level not in run(compiled, "gcc", "levels", tmp_path):
        pytest.skip(f"this machine cannot run {level}")
    source = ROOT / "tests/native/intervals.c"
    others = [path for path in compiled("gcc", ()) if Path(path).stem != level]
    own = [f'-DLEVEL_FILE="levels/{level}.c"', f"-I{ROOT / 'csrc'}", "-Wno-unused-function"]
    build = ["gcc", *FLAGS, *own, str(source), *others, "-lm", "-o", str(tmp_path / "intervals")]
    subprocess.run(build, check=True)
    result = subprocess.run([tmp_path / "intervals", "500"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("the nearest ends miss by") == 26


@pytest.mark.parametrize("target", list(TARGETS))
def test_stored_weights_are_summarized_alike_by_every_level_compiler_and_byte_order(
    compiled, target: str, tmp_path: Path
) -> None:
    """A summary in another order of addition, or little-endian bytes taken for the host's own."""
    blocks = []
    for who in ("gcc", target):
        (tmp_path / who).mkdir(exist_ok=True)
        output = run(compiled, who, "summary", tmp_path / who)
        blocks += [block.split("\n", 1)[1] for block in output.split("level ")[1:]]
    assert len(blocks) >= 2
    assert all(block == blocks[0] for block in blocks), "\n".join(blocks)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_headers_can_be_included_alone_and_in_any_order(compiler: str, tmp_path: Path) -> None:
    """A header that leans on what another happens to include, or that changes what the next one means."""
    compilers(compiler)
    orders = [[header] for header in HEADERS]
    for pair in itertools.pairwise(HEADERS):
        orders += [[*pair], [*pair[::-1]]]
    orders += [HEADERS, HEADERS[::-1]]
    for i, order in enumerate(orders):
        lines = "".join(f'#include "{header}"\n' for header in order)
        (tmp_path / f"order{i}.c").write_text(lines)
    sources = sorted(map(str, tmp_path.glob("*.c")))
    strict = [compiler, *FLAGS, "-pedantic", "-fsyntax-only"]
    result = subprocess.run([*strict, *sources], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[:3000]


def test_a_template_says_who_includes_it(tmp_path: Path) -> None:
    compiler, _ = compilers("gcc")
    result = subprocess.run([compiler, "-fsyntax-only", TEMPLATE], capture_output=True, text=True, check=False)
    assert "included by a level's file" in result.stderr


def symbols(path: str) -> tuple[set[str], set[str]]:
    """The core's names that an object file defines, and those that it uses."""
    listing = subprocess.run(["nm", "-g", path], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in listing.splitlines()]
    defined = {row[-1] for row in rows if row[-2] != "U"}
    used = {row[-1] for row in rows if row[-2] == "U"}
    return defined, {name for name in used if name.startswith("fi_")}


@pytest.mark.parametrize("target", list(TARGETS))
def test_the_c_files_form_no_circle(compiled, target: str) -> None:
    """Two C files that need one another: neither can be read, tested or replaced by itself."""
    found = {Path(path).stem: symbols(path) for path in compiled(target, ())}
    home = {name: stem for stem, (defined, _) in found.items() for name in defined}
    needs = {stem: {home[name] for name in used} for stem, (_, used) in found.items()}
    order = list(graphlib.TopologicalSorter(needs).static_order())  # CycleError names the files of a circle
    assert set(order) == {path.stem for path in CORE}
    assert order.index("dispatch") < order.index("fill") < order.index("selftest")
    assert order.index("portable") < order.index("dispatch")


ARITHMETIC = ["scale.c", "quantile.c", "spec.c", "summary.c", "selftest.c", "levels/portable.c"]
GUARDS = [f"-U__{name}__" for name in ("FAST_MATH", "FINITE_MATH_ONLY", "RECIPROCAL_MATH", "ASSOCIATIVE_MATH")]
REORDERED = "-fassociative-math -fno-signed-zeros -fno-trapping-math"


UNSAFE = ["-ffast-math", "-funsafe-math-optimizations", "-ffinite-math-only", "-freciprocal-math", REORDERED]


@pytest.mark.parametrize(
    ("target", "flag", "files"),
    [(target, flag, ARITHMETIC) for target in ("gcc", "clang") for flag in UNSAFE]
    + [("gcc", REORDERED, [name]) for name in ("quantile.c", "spec.c", "summary.c", "levels/portable.c")]
    + [("gcc", "-freciprocal-math", [name]) for name in ("quantile.c", "scale.c")],
)
def test_a_build_with_other_arithmetic_fails_its_self_test(
    compiled, target: str, flag: str, files: list[str], tmp_path: Path
) -> None:
    """What the self-test does not know: far tails by a reciprocal and reordered moments passed."""
    compiler, _ = compilers(target)
    wrong = [str(ROOT / "csrc" / name) for name in files]
    flags = [*FLAGS, *flag.split(), *GUARDS, "-U__NO_SIGNED_ZEROS__"]
    subprocess.run([compiler, *flags, "-c", *wrong], check=True, cwd=tmp_path)
    right = [path for path in compiled(target, ()) if not (tmp_path / Path(path).name).exists()]
    program = [str(ROOT / "tests/native/selftest.c"), f"-I{ROOT / 'csrc'}"]
    link = [compiler, *FLAGS, *program, *right, *map(str, tmp_path.glob("*.o")), "-lm", "-o", "program"]
    subprocess.run(link, check=True, cwd=tmp_path)
    result = subprocess.run([tmp_path / "program"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "level portable gives wrong bits\n")


@pytest.mark.parametrize(
    ("target", "flag"),
    [("gcc", flag) for flag in ("-ffast-math", "-Ofast", "-freciprocal-math", "-fsingle-precision-constant")]
    + [("gcc", flag) for flag in ("-ffinite-math-only", "-fno-signed-zeros", REORDERED, "-m32 -mfpmath=387")]
    + [("gcc", "-funsafe-math-optimizations")]
    + [("clang", flag) for flag in ("-ffast-math", "-Ofast", "-ffinite-math-only", "-ffp-model=fast")],
)
def test_other_arithmetic_does_not_compile_where_a_macro_tells_of_it(target: str, flag: str) -> None:
    """Another build than setup.py's, with the flags of another project; -w silences no such error."""
    compiler, _ = compilers(target)
    command = [compiler, *FLAGS, *flag.split(), "-w", "-fsyntax-only", "-x", "c", ROOT / "csrc" / "fpenv.h"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "fastinit promises bits" in result.stderr


FORGOTTEN = {
    "dtype": ("#define FI_EACH_DTYPE(X, with)", "X(with, FI_NEW, new, 8, uint8_t, 2, 15, 57344)"),
    "base": ("#define FI_EACH_BASE(X, with)", "X(with, FI_NEW, new)"),
}


@pytest.mark.parametrize("target", ["gcc", "clang"])
@pytest.mark.parametrize(
    ("kind", "file", "named"),
    [
        ("dtype", "summary.c", "from_new_bits"),
        ("dtype", "levels/portable.c", "from_new_bits"),
        ("dtype", "levels/avx2.c", "pack_new"),
        ("dtype", "selftest.c", "KNOWN_constant_new"),
        ("base", "levels/portable.c", "new"),
        ("base", "levels/avx2.c", "LONG_new"),
        ("base", "spec.c", "prepare_new"),
        ("base", "selftest.c", "PARAMETERS_new"),
    ],
)
def test_a_forgotten_part_does_not_compile_under_w(
    target: str, kind: str, file: str, named: str, tmp_path: Path
) -> None:
    """A dtype or base without its function: with -w, C11's implicit declaration made a call into nowhere of it."""
    compiler, _ = compilers(target)
    if "avx" in file and platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip(f"{file} is empty on this machine")
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    header, (row, added) = tmp_path / "csrc" / "fastinit.h", FORGOTTEN[kind]
    text = header.read_text()
    assert text.count(row) == 1
    header.write_text(re.sub(f"({re.escape(row)} *)", rf"\1 {added} ", text))
    command = [compiler, "-std=c11", "-w", "-fsyntax-only", tmp_path / "csrc" / file]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1, "it compiled"
    assert named in result.stderr
