"""The tool behind `make pictures`: whatever has views is written, and always the same bytes."""

import importlib.util

import pytest
from conftest import ROOT
from page_parts import drawing, parts

from fastinit.views import figure as figures
from fastinit.views import page as html
from fastinit.views import pages_old as pages


class Shown:
    """A result with a drawing and a page."""


class Hidden:
    """A result with neither."""


figures.draw.register(Shown, lambda result: drawing())
pages.page.register(Shown, lambda result: html.page("shown", parts()))


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_second_run_changes_no_byte(tool, tmp_path):
    """A committed picture must change with what it shows, not with the day it was made."""
    paths = tool.write("it", Shown(), tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == ["pictures/it.svg", "reports/it.html"]
    before = [path.read_bytes() for path in paths]
    assert tool.write("it", Shown(), tmp_path) == paths
    assert [path.read_bytes() for path in paths] == before


def test_what_has_no_view_writes_nothing(tool, tmp_path):
    assert tool.write("it", Hidden(), tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_every_committed_view_is_of_a_listed_result(tool):
    """A picture that nothing makes again goes stale unseen."""
    folders = (ROOT / "docs" / folder for _, _, folder, _ in tool.VIEWS)
    assert {path.stem for folder in folders for path in folder.glob("*")} <= tool.RESULTS.keys()
