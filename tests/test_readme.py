"""README's commands, as written and in their order, in a fresh clone."""

import doctest
import os
import re
import shutil
import site
import subprocess
import venv
from pathlib import Path

import pytest
from conftest import ROOT

COMMANDS = re.findall(
    r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)",
    "".join(re.findall(r"^```console\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)),
    re.MULTILINE,
)
"""(command, what README shows of its output)."""

OFFLINE = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "false",  # pip's way to say that there is none
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PYTEST_ADDOPTS": "tests/test_names.py",  # this suite is running already
    "MAKEFLAGS": "",
}


ENDED = "printf '\\nended %s\\n' $?"


def clone(folder: Path) -> None:
    """Clone the repository, with what is not committed yet."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("no git, or no repository here, to clone")
    git = ["git", "-c", "safe.directory=*"]
    subprocess.run([*git, "clone", "-q", ROOT, folder], check=True)
    changed = ["ls-files", "-z", "--modified", "--others", "--exclude-standard"]
    listed = subprocess.run([*git, "-C", ROOT, *changed], check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)


def environment(folder: Path) -> None:
    """Make the clone's .venv see what is installed here, so that pip needs no network and finds all in place.

    The library that is built here is younger than the clone's sources, so it is not compiled once more.
    """
    venv.create(folder / ".venv")
    (place,) = (folder / ".venv").glob("lib/python*/site-packages")
    here = [path for path in site.getsitepackages() if Path(path).is_dir()]
    (place / "tests.pth").write_text("\n".join(here))
    for library in (ROOT / "fastinit").glob("_core*.so"):
        shutil.copyfile(library, folder / "fastinit" / library.name)


@pytest.mark.skipif(not shutil.which("make") or not shutil.which("bash"), reason="no make or no bash here")
def test_every_command_runs_as_written_and_in_order(tmp_path: Path) -> None:
    """A command that needs a file which nobody has, or an option that is gone."""
    pytest.importorskip("Cython", reason="the build needs Cython; pip install -e '.[test]'")
    pytest.importorskip("pip")
    folder = tmp_path / "clone"
    clone(folder)
    environment(folder)
    assert COMMANDS[0][0].startswith("make run")
    assert len(COMMANDS) > 8
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    script = "".join(f"{command}\n{ENDED}\n" for command, _ in COMMANDS)
    ended = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=folder,
        env={**env, **OFFLINE},
        capture_output=True,
        text=True,
        check=False,
    )
    answers = re.findall(r"(.*?)\nended (\d+)\n", ended.stdout, re.DOTALL)
    assert len(answers) == len(COMMANDS), ended.stdout[-2000:]
    for (command, shown), (output, status) in zip(COMMANDS, answers, strict=True):
        is_refusal = shown.startswith("fastinit: ")
        assert (status != "0") == is_refusal, f"{command}: {status}\n{output[-2000:]}"
        alike = doctest.OutputChecker().check_output(
            shown, output + "\n", doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        )
        assert not shown or alike, f"{command}\n{output[:2000]}"
    shutil.rmtree(folder)  # a gigabyte
