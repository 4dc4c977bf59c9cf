"""The C core by itself: every level against the portable one, here and on other architectures under qemu.

The same program runs natively, as AArch64 (NEON) and as big-endian s390x, and must print the same hash of the
portable bits. Name levels in FASTINIT_REQUIRE_LEVELS (commas between them) to make their absence a failure.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLAGS = ["-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", f"-I{ROOT / 'csrc'}"]
SOURCES = [ROOT / "tests/native/levels.c", *sorted((ROOT / "csrc").glob("*.c"))]
REQUIRED = {level for level in os.environ.get("FASTINIT_REQUIRE_LEVELS", "").split(",") if level}

# name: compiler, emulator, level that only this architecture has
TARGETS = {
    "native gcc": ("gcc", None, None),
    "native clang": ("clang", None, None),
    "aarch64": ("aarch64-linux-gnu-gcc", "qemu-aarch64", "neon"),
    "s390x, big-endian": ("s390x-linux-gnu-gcc", "qemu-s390x", "big-endian"),
}
NATIVE_LEVELS = {"avx512", "avx2"}


def run(target: str, folder: Path, *extra_flags: str) -> str:
    """Compile and run the native suite for `target`; skip, or fail if required, where it cannot be."""
    compiler, emulator, level = TARGETS[target]
    missing = [tool for tool in (compiler, emulator) if tool and not shutil.which(tool)]
    if missing:
        message = f"no {' and no '.join(missing)} here, so {target} was not run"
        if level in REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    program = folder / "levels"
    static = ["-static"] if emulator else []
    build = [compiler, *FLAGS, *extra_flags, *static, *map(str, SOURCES), "-lm", "-o", str(program)]
    subprocess.run(build, check=True)
    required = [] if emulator else sorted(REQUIRED & NATIVE_LEVELS)
    command = [*([emulator] if emulator else []), str(program), *required]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    if level == "neon":
        assert "level neon" in result.stdout
    return result.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def native_hash(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hash of the portable bits on this machine."""
    return run("native gcc", tmp_path_factory.mktemp("native"))


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "native gcc"])
def test_every_compiler_and_architecture_gives_the_same_bits(
    target: str, tmp_path: Path, native_hash: str
) -> None:
    """A level, compiler or byte order with bits of its own; a host environment that leaks in, or out."""
    assert run(target, tmp_path) == native_hash


def test_optimization_changes_no_bit(tmp_path: Path, native_hash: str) -> None:
    """An optimizer that contracts to fma, or moves arithmetic out of the guarded environment."""
    assert run("native gcc", tmp_path, "-O3", "-march=native") == native_hash
