"""What type checkers make of the package: wrong calls are refused, results have types, and nothing is unknown."""

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from conftest import ROOT

import fastinit
from fastinit._engine.annotations import FloatName
from fastinit._engine.dtypes import FLOATS
from fastinit._engine.targets import as_dtype

WRONG, RIGHT = ROOT / "tests/typing/wrong_calls.py", ROOT / "tests/typing/right_calls.py"


def checked(checker: str, *arguments: str) -> str:
    """What a checker of this environment prints."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"no {checker} here; pip install -e '.[test]'")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ended = subprocess.run(
        [sys.executable, "-m", checker, *arguments],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout, ended.stderr
    return ended.stdout


def mypy(file: Path) -> set[int]:
    """The lines of a file that mypy refuses."""
    told = checked("mypy", "--strict", str(file))
    found = re.findall(rf"^{re.escape(str(file.relative_to(ROOT)))}:(\d+): error: ", told, re.MULTILINE)
    return set(map(int, found))


def pyright(file: Path) -> set[int]:
    """The lines of a file that pyright refuses."""
    told = json.loads(checked("basedpyright", "--outputjson", str(file)))
    found = [row for row in told["generalDiagnostics"] if row["severity"] == "error"]
    return {row["range"]["start"]["line"] + 1 for row in found if Path(row["file"]) == file}


def calls(file: Path) -> dict[int, str]:
    """line -> text of each statement, but for those that set the scene."""
    text = file.read_text()
    statements = ast.parse(text).body[1:]
    lines = text.splitlines()
    scene = (ast.Import, ast.ImportFrom, ast.Assign)
    return {node.lineno: lines[node.lineno - 1] for node in statements if not isinstance(node, scene)}


@pytest.mark.parametrize("refused", [mypy, pyright])
def test_every_wrong_call_is_refused(refused):
    """``fastinit.xavier_unifrom``, ``out=[1.0]`` and ``dtype="float33"`` passed, for an Any stood in the way."""
    wrong = calls(WRONG)
    assert {line: text for line, text in wrong.items() if line not in refused(WRONG)} == {}
    assert len(wrong) > 40


@pytest.mark.parametrize("refused", [mypy, pyright])
def test_right_calls_pass_and_results_keep_their_dtype(refused):
    assert refused(RIGHT) == set()


def test_right_calls_run():
    """A file of calls that checkers take, and the package refuses, shows nothing."""
    code = compile(RIGHT.read_text(), str(RIGHT), "exec")
    exec(code, {"__name__": "right_calls"})


PEERS = ("torch", "jax", "keras", "dask")


def test_every_public_type_is_known():
    """What is inferred may be inferred otherwise by another checker; what is unknown is not checked at all."""
    told = json.loads(checked("basedpyright", "--verifytypes", "fastinit", "--ignoreexternal", "--outputjson"))
    absent = tuple(f"fastinit.{peer}" for peer in PEERS if importlib.util.find_spec(peer) is None)
    symbols = [s for s in told["typeCompleteness"]["symbols"] if s["isExported"]]
    assert len(symbols) > 2000
    unknown = {
        s["name"]: [d["message"] for d in s["diagnostics"]]
        for s in symbols
        if not s["isTypeKnown"] or s["isTypeAmbiguous"]
        if not s["name"].startswith(absent or ("no absent library",))
    }
    assert unknown == {}


def test_every_name_of_a_dtype_that_checkers_take_is_taken():
    for name in typing.get_args(FloatName):
        assert as_dtype(name)[0].name in {dtype.name for dtype in FLOATS}, name
    names = set(typing.get_args(FloatName))
    assert {text for dtype in FLOATS for text in (dtype.name, dtype.tag, dtype.word)} <= names
    assert {f"torch.{dtype.name}" for dtype in FLOATS} <= names


def test_the_stub_of_the_functions_is_that_of_the_package():
    stub = ast.parse((ROOT / "fastinit/functions.pyi").read_text())
    declared = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)} - {
        "as_initializer",
        "as_text",
    }
    assert {name for name in declared if not callable(getattr(fastinit, name))} == set()
