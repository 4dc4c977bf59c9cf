"""The kernels are chosen once, can be named, and are tested before they are trusted."""

import math
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference
import reference_quantile

import fastinit
from fastinit import _core
from fastinit._engine import levels

HERE = [name for name, runs in _core.levels().items() if runs]


@pytest.fixture(autouse=True)
def _restore_level():
    before = fastinit.simd_level()
    yield
    _core.select_level(before)


def child(code, **environment):
    """Run `code` in a fresh Python."""
    import os  # noqa: PLC0415

    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_portable_is_always_there_and_last():
    assert list(_core.levels())[-1] == "portable"
    assert _core.levels()["portable"]


@pytest.mark.parametrize("name", HERE)
def test_a_named_level_is_the_one_in_use(name):
    result = child("import fastinit; print(fastinit.simd_level())", FASTINIT_LEVEL=name)
    assert result.stdout.strip() == name, result.stderr


def test_without_a_name_the_best_is_in_use():
    assert child("import fastinit; print(fastinit.simd_level())", FASTINIT_LEVEL="").stdout.strip() == HERE[0]


def test_an_unknown_level_is_refused_and_the_known_listed():
    """A typing error that silently runs the slow kernels, or the wrong ones."""
    result = child("import fastinit", FASTINIT_LEVEL="avx1024")
    assert result.returncode != 0
    assert "avx1024 is not a level" in result.stderr
    assert all(name in result.stderr for name in _core.levels())


@pytest.mark.parametrize("name", HERE)
def test_every_level_here_passes_the_self_test(name):
    assert _core.select_level(name) == _core.OK
    assert _core.self_test()


def test_a_level_that_fails_its_self_test_gives_way_to_portable(monkeypatch):
    """A CPU, or an emulator of one, whose vector instructions give other bits."""
    monkeypatch.setattr(levels, "self_test", lambda: _core.simd_level() == "portable")
    if HERE == ["portable"]:
        pytest.skip("this machine has the portable level only")
    with pytest.warns(RuntimeWarning, match="portable"):
        levels.choose()
    assert fastinit.simd_level() == "portable"


def test_if_portable_fails_too_the_import_fails(monkeypatch):
    monkeypatch.setattr(levels, "self_test", lambda: False)
    with pytest.raises(ImportError, match="wrong bits"):
        levels.choose()


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_levels_agree_through_the_public_door(name, dtype):
    """A strided or swapped target that takes another road on one level."""
    _core.select_level("portable")
    expected = fastinit.xavier_uniform((37, 53), 17, dtype=dtype)
    _core.select_level(name)
    out = np.zeros((53 * 2, 37), np.dtype(dtype).newbyteorder("S"))[::2].T
    fastinit.xavier_uniform(None, 17, out=out)
    assert np.array_equal(out, expected)


SELF_TEST = Path(__file__).parent.parent / "csrc" / "selftest.c"
COUNT = 75
STATE = -41 * reference.GAMMA % reference.WORD  # draw 40 is 0
ABOVE_MINUS_ONE = tuple(
    map(float.fromhex, ("0x1.44ed0bb7cb20bp-2", "0", "0x1.aec4bd120d37dp-54", "0x1.9f734e17374ccp+51"))
)


def truncated_weight(draw, form):
    weight = 0.3 + 0.7 * reference_quantile.near(draw >> 11, -1.0, math.inf, ABOVE_MINUS_ONE)
    return max(reference.narrowed(weight, form), reference.smallest_at_least(0.3 + 0.7 * -1.0, form))


KNOWN = {
    "constant": lambda draw, form: reference.narrowed(0.1, form),
    "uniform": lambda draw, form: reference.uniform_weight(draw, -0.3, 0.7, form),
    "centered_uniform": lambda draw, form: reference.centered_weight(draw, 1.3, form),
    "normal": lambda draw, form: reference.narrowed(reference_quantile.normal(draw >> 11, 0.3, 0.7), form),
    "truncated_normal": truncated_weight,
}


def fnv1a(words):
    value = 0xCBF29CE484222325
    for word in words:
        value = (value ^ word) * 0x100000001B3 % reference.WORD
    return value


def float64_words(values):
    return struct.unpack(f"<{len(values)}Q", struct.pack(f"<{len(values)}d", *values))


def known_scales():
    """Python's float64 arithmetic is IEEE's, one operation at a time (C13)."""
    words = []
    for i in range(1, 13):
        fan = float(i * i + 3)
        n = (fan, fan / 2, math.sqrt(fan))[i % 3]
        std = math.sqrt(1.3 / n)
        scales = 1.3 / n, std * 1.7, math.sqrt(3 * 1.3 / n) * 1.7, std / 0.87962566103423978 * 1.7
        rescaled = 1.3 * float(i) / math.sqrt(i / 7)
        slope = i * 0.125
        words += [*float64_words([*scales, rescaled, 2 / (1 + 0.3 * slope * slope)]), math.ceil(0.3 * (7 * i))]
    return fnv1a(words)


def known_far_tails():
    constants = (5.25, 0.0, 1.0, float.fromhex("0x1.7941fdedadc79p-3"))
    return fnv1a(float64_words([reference_quantile.far(i << 50, 5.25, 1e6, constants) for i in range(8)]))


def test_the_self_test_knows_the_weights_of_the_plain_python():
    """A self-test whose expected weights were copied from the code that it tests."""
    draws = [reference.draw(STATE, i) for i in range(COUNT)]
    assert draws[40] == 0
    wanted = [
        f"#define KNOWN_{base}_{dtype} UINT64_C(0x{fnv1a((0, *stored, 0)):016X})"
        for base in _core.BASES
        for dtype in _core.DTYPES
        for form in [reference.FORMATS[dtype]]
        for stored in [[reference.pattern(KNOWN[base](draw, form), form) for draw in draws]]
    ]
    wanted += [
        f"#define KNOWN_scales UINT64_C(0x{known_scales():016X})",
        f"#define KNOWN_far_tails UINT64_C(0x{known_far_tails():016X})",
    ]
    found = re.findall(r"^#define KNOWN_\w+ .*", SELF_TEST.read_text(), re.MULTILINE)
    assert found == wanted, "\n".join(wanted)
