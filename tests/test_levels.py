"""The kernels are chosen once, can be named, and are tested before they are trusted."""

import re
import subprocess
import sys
from pathlib import Path

import known_weights
import numpy as np
import pytest
import reference

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


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("count", [0, 1, 7, 63, 64, 65, 1000])
def test_the_draws_alone_are_those_of_a_fill(name, count):
    """A limit is none if it leaves out a step of the mix, or a draw."""
    _core.select_level(name)
    state = 2**64 - 500
    assert _core.sum_draws(state, count) == sum(reference.draw(state, i) for i in range(count)) % 2**64


SELF_TEST = Path(__file__).parent.parent / "csrc" / "selftest.c"


def test_the_self_test_knows_the_weights_of_the_plain_python():
    """A self-test whose expected weights were copied from the code that it tests."""
    assert known_weights.DRAWS[40] == 0
    assert list(known_weights.KNOWN)[: len(_core.BASES)] == list(_core.BASES)
    wanted = known_weights.lines(known_weights.KNOWN, _core.DTYPES)
    found = re.findall(r"^#define KNOWN_\w+ .*", SELF_TEST.read_text(), re.MULTILINE)
    assert found == wanted, "\n".join(wanted)
