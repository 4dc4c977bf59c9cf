"""The tool behind `make pictures`: it writes every view, always the same bytes; git keeps the pictures shown."""

import base64
import importlib.util
import re
import sys

import html5lib
import pytest
from conftest import ROOT
from page_parts import HOSTILE, drawing, parts

from fastinit.lessons import check_claims, learner_report
from fastinit.views import figure as figures
from fastinit.views import page as html
from fastinit.views.result import Result


class Shown(Result):
    """A result with a drawing and a page."""

    def figure(self):
        return drawing()

    def page(self):
        return html.page("shown", parts())


class Hidden(Result):
    """A result with neither."""


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_second_run_changes_no_byte(tool, tmp_path):
    """A committed picture must change with its figures only, not with the day it was made."""
    paths = tool.write("it", Shown(), tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == ["pictures/it.svg", "reports/it.html"]
    before = [path.read_bytes() for path in paths]
    assert tool.write("it", Shown(), tmp_path) == paths
    assert [path.read_bytes() for path in paths] == before


def test_what_has_no_view_writes_nothing(tool, tmp_path):
    assert tool.write("it", Hidden(), tmp_path) == []
    assert not list(tmp_path.iterdir())


def test_a_missing_view_says_whose_it_is():
    with pytest.raises(TypeError, match="there is no drawing of Hidden"):
        Hidden().figure()
    with pytest.raises(TypeError, match="there is no page of Hidden"):
        Hidden().page()


@pytest.mark.parametrize(("name", "views"), [("report", 2), ("trace", 2), ("claims", 1), ("diagnose", 2)])
def test_a_listed_result_is_written_with_all_its_views(tool, tmp_path, name, views):
    """The other three take minutes; their drawings and pages have tests of their own."""
    assert len(tool.write(name, tool.RESULTS[name](), tmp_path)) == views


def shown(result):
    """What a notebook gets: the drawings in it, as bytes by their texts, and the tables."""
    text = result._repr_html_()
    images = re.findall(r'<img alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]*)"', text)
    return {alt: base64.b64decode(data) for alt, data in images}, text.count("<table>")


def test_a_notebook_shows_the_drawing_above_the_tables(tmp_path):
    """A notebook showed numbers only."""
    report = learner_report()
    images, tables = shown(report)
    ((alt, drawn),) = images.items()
    assert alt == report.figure().get_suptitle().replace("\n", " ")
    figures.save(report.figure(), tmp_path / "d.svg")
    assert drawn == (tmp_path / "d.svg").read_bytes()
    assert tables == len(report.tables())


@pytest.mark.parametrize("name", ["trace", "diagnose"])
def test_every_result_with_a_drawing_shows_it_in_a_notebook(tool, name):
    result = tool.RESULTS[name]()
    images, tables = shown(result)
    assert len(images) == 1
    assert tables == len(result.tables())


def test_without_matplotlib_a_notebook_shows_the_tables(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert shown(learner_report()) == ({}, 1)


def test_without_a_drawing_a_notebook_shows_the_tables():
    images, tables = shown(check_claims())
    assert images == {}
    assert tables > 1


def test_the_text_of_a_notebooks_drawing_is_text():
    """A tensor's name may be part of a drawing's message."""
    figure = drawing()
    with figures.style():
        figures.message(figure, HOSTILE)
    text = figures.image(figure)
    assert text.count("<") == 1
    assert html5lib.parseFragment(text, namespaceHTMLElements=False)[0].get("alt") == HOSTILE


KEPT = sorted(re.findall(r"^!/docs/(pictures/.*)$", (ROOT / ".gitignore").read_text(), re.MULTILINE))


def test_git_keeps_the_pictures_that_the_lessons_show(tool):
    """A picture that nobody looks at, or that nothing makes again, goes stale unseen."""
    text = (ROOT / "docs" / "lessons.md").read_text()
    assert sorted(re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)) == KEPT
    assert {path.removeprefix("pictures/").removesuffix(".svg") for path in KEPT} <= tool.RESULTS.keys()


@pytest.mark.parametrize("picture", [*KEPT, "cost-against-size.svg"])
def test_a_kept_picture_is_small(picture):
    assert (ROOT / "docs" / picture).stat().st_size < 60_000
