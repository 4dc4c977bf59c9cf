"""Tables: the same rows as text and as HTML; markup in a stranger's names must stay text."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

from fastinit import NamedParameter, NamedParameters, Plan, Tensor
from fastinit.views.table import Table

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


@pytest.mark.parametrize("cell", [0.1, np.float64(0.1), float("nan"), float("-inf"), 2**64 - 1])
def test_a_value_for_sorting_is_a_plain_number(cell):
    """The page's script reads it, and could not read numpy's own repr, np.float64(0.1)."""
    table = ET.fromstring(Table("c", ("x",), ((cell,),)).html())
    assert table.find("tbody/tr/td").get("data-value") == str(cell)


def test_a_table_without_rows_is_its_head():
    empty = Table("nothing", ("a", "b"), ())
    assert empty.lines() == ["a  b"]
    assert list(ET.fromstring(empty.html()).find("tbody")) == []


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 cells for 1 columns"):
        Table("c", ("a",), ((1, 2),))


def shown_rows(thing):
    """The rows of the notebook's table, as {column: text} each."""
    table = ET.fromstring(thing._repr_html_()).find("table")
    columns = [cell.text for cell in table.iter("th")]
    return [dict(zip(columns, (cell.text for cell in row), strict=True)) for row in table.find("tbody")]


def test_parameters_show_their_measures_in_a_notebook():
    weight = NamedParameter.from_tensor("a.weight", Tensor([[3.0, -1.0, 1.0], [1.0, 1.0, 1.0]]))
    bias = NamedParameter.from_tensor("a.bias", Tensor(2.0))
    (weight.tensor * 2.0).sum().backward()
    first, second = shown_rows(NamedParameters([weight, bias]))
    assert first == {
        "index": "0", "name": "a.weight", "shape": "2x3", "elements": "6", "mean": "1", "sd": "1.155", "min": "-1",
        "max": "3", "Xavier sd": "0.6325", "gradient": "yes",
    }  # fmt: skip
    assert (second["index"], second["shape"], second["sd"], second["gradient"]) == ("1", "scalar", "0", "no")
    assert second["Xavier sd"] is None
    assert shown_rows(bias) == [{key: text for key, text in second.items() if key != "index"}]


@pytest.mark.parametrize(
    "values", [np.zeros((0, 3)), np.zeros((2, 0)), [1e308, 1e308, -1e308, -1e308], [-1e308] * 9]
)
def test_any_leaf_can_be_shown(values):
    """No element to measure, or a sum past the largest float64: a notebook must not end in a traceback."""
    (row,) = shown_rows(NamedParameter.from_tensor("a", values))
    assert row["elements"] == str(np.size(values))


def test_a_long_plan_scrolls_inside_its_own_box():
    """1,137 tensors keep all their rows, in a box of a screen's height and less than a quarter of a megabyte."""
    text = Plan.from_layout("llama-3.1-405b", 17)._repr_html_()
    assert text.count("<tr>") == 1138
    assert "max-height" in text
    assert "overflow: auto" in text
    assert len(text) < 250_000


def test_a_plan_shows_itself_in_a_notebook():
    plan = Plan.from_layout({"a.weight": {"dtype": "F32", "shape": [2, 3]}}, 17)
    table = ET.fromstring(plan._repr_html_()).find("table")
    assert (
        table.findtext("caption")
        == str(plan)
        == "1 tensor, 24 bytes, 6 draws; seed 17, policy xavier, order named"
    )
    assert [cell.text for cell in table.find("tbody/tr")][:3] == ["a.weight", "2x3", "float32"]


LONG = Table("many", ("name", "n"), tuple((f"row {number}", number) for number in range(2500)))


def test_a_long_table_is_cut_and_says_so():
    """A model of 91,000 tensors would scroll every line away that matters."""
    assert LONG.lines(2500) == LONG.lines()
    assert len(LONG.lines()) == 1 + 2500
    *shown, last = LONG.lines(500)
    assert shown[0] == "name       n"
    assert shown[-1] == "row 499  499"
    assert last == "... and 2,000 more of 2,500; --all shows all"


def test_a_notebook_keeps_two_thousand_rows_and_a_page_all():
    body = ET.fromstring(LONG.html(2000)).find("tbody")
    assert len(body) == 2001
    assert "".join(body[-1].itertext()) == "... and 500 more of 2,500"
    assert LONG._repr_html_().count("<tr>") == 1 + 2001
    assert LONG.html().count("<tr>") == 1 + 2500
