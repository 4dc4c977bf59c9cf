"""Tables: the same rows as text and as HTML; what a stranger's names contain must not become markup."""

import xml.etree.ElementTree as ET

import pytest

from fastinit import Plan
from fastinit.tables import Table

TABLE = Table(
    "spread <of> layers", ("name", "n", "rms", "good"), (("a&b", 1234, 0.123456, True), ("c", 5, None, False))
)


def test_text_is_aligned_with_numbers_to_the_right():
    assert TABLE.lines() == [
        "name      n     rms  good",
        "a&b   1,234  0.1235  yes",
        "c         5          no",
    ]


def test_html_escapes_names_and_keeps_exact_values_for_sorting():
    table = ET.fromstring(TABLE.html())
    assert table.findtext("caption") == "spread <of> layers"
    assert [cell.text for cell in table.iter("th")] == list(TABLE.columns)
    cells = [[cell.text or "" for cell in row] for row in table.find("tbody")]
    assert cells == [["a&b", "1,234", "0.1235", "yes"], ["c", "5", "", "no"]]
    values = [[cell.get("data-value") for cell in row] for row in table.find("tbody")]
    assert values == [[None, "1234", "0.123456", None], [None, "5", None, None]]


def test_a_table_without_rows_is_its_head():
    empty = Table("nothing", ("a", "b"), ())
    assert empty.lines() == ["a  b"]
    assert list(ET.fromstring(empty.html()).find("tbody")) == []


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Table("c", ("a",), ((1, 2),))


def test_a_plan_shows_itself_in_a_notebook():
    plan = Plan.from_layout({"a.weight": {"dtype": "F32", "shape": [2, 3]}}, 17)
    table = ET.fromstring(plan._repr_html_())
    assert (
        table.findtext("caption")
        == str(plan)
        == "1 tensors, 24 bytes, 6 draws; seed 17, policy xavier, order named"
    )
    assert [cell.text for cell in table.find("tbody/tr")][:3] == ["a.weight", "2x3", "float32"]
