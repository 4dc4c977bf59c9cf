"""Pages without a browser: valid, self-contained, the same bytes twice, and no id of one figure in another."""

import re
import warnings

import html5lib
import matplotlib as mpl
import pytest
from page_parts import HOSTILE, RESULTS, drawing, parts

from fastinit.propagation import propagate
from fastinit.views import figure as figures
from fastinit.views import page as html
from fastinit.views.page import Figure, Heading
from fastinit.views.table import Table

PAPERS = {"light": "#ffffff", "dark": "#15181c"}


def parsed(text):
    """The page's tree; the first parse error fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=html5lib.constants.DataLossWarning)
        return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)


def test_the_page_is_valid_and_in_order():
    tree = parsed(html.page("title & more", parts()))
    assert tree.findtext("head/title") == tree.findtext("body/header/h1") == "title & more"
    assert tree.get("lang") == "en"
    main = tree.find("body/main")
    assert [element.tag for element in main] == ["p", "h2", "figure", "figure", "h2", "div", "div", "div", "p"]
    assert len(main.findall(".//figcaption")) == 2
    assert len(main.findall(".//caption")) == 3


def test_a_table_without_rows_is_a_valid_page():
    assert len(parsed(html.page("t", [Table("no row", ("a", "b"), ())])).findall(".//th")) == 2


def test_headings_are_linked_where_there_are_several():
    tree = parsed(html.page("t", [Heading("one"), Heading("two")]))
    links = {link.get("href"): link.text for link in tree.iter("a")}
    assert links == {"#content": "Skip to the content", "#section-1": "one", "#section-2": "two"}
    assert {element.get("id") for element in tree.iter()} >= {href[1:] for href in links}
    assert parsed(html.page("t", [Heading("one")])).find(".//nav") is None


def test_what_a_stranger_wrote_stays_text():
    """A tensor's name may be any text: as title, section, paragraph, cell, caption and inside a drawing."""
    table = Table(HOSTILE, (HOSTILE,), ((HOSTILE,),))
    tree = parsed(html.page(HOSTILE, [Heading(HOSTILE), HOSTILE, table, Figure(drawing(HOSTILE), HOSTILE)]))
    for place in ("head/title", ".//h1", ".//h2", ".//p", ".//caption", ".//th", ".//td"):
        assert tree.findtext(place) == HOSTILE
    assert tree.find(".//figcaption/b").tail == f" {HOSTILE}"
    assert [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")].count(HOSTILE) == 1
    assert len(list(tree.iter("script"))) == 1
    assert not list(tree.iter("img"))


def test_a_caption_begins_with_the_message_of_its_drawing():
    """A phone shows a wide drawing in part: the rest of its title was out of sight."""
    figure = drawing()
    with figures.style():
        figures.message(figure, "one thing " * 12)
    tree = parsed(html.page("t", [Figure(figure, "how to read it")]))
    assert tree.findtext(".//figcaption/b") == f"Figure 1. {'one thing ' * 12}".rstrip() + "."
    assert tree.find(".//figcaption/b").tail == " how to read it"


def test_nothing_is_fetched():
    text = html.page("t", parts())
    assert not re.findall(r"https?:|@import|[^:]//", text.replace("\n// ", "\n"))
    assert set(re.findall(r"(?:src|href)=\"([^\"#]*)", text)) <= {
        "",
        "data:,",
        *re.findall(r"data:image[^\"]*", text),
    }
    assert set(re.findall(r"url\((.)", text)) == {"#"}


def test_the_policy_allows_this_script_alone():
    text = html.page("t", [])
    (script,) = re.findall(r"<script>(.*)</script>", text, re.DOTALL)
    assert f"script-src 'sha256-{sha256(script)}';" in text


def sha256(text):
    import base64  # noqa: PLC0415
    import hashlib  # noqa: PLC0415

    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_figures_share_no_id_and_every_reference_is_to_its_own():
    """The same drawing twice has the same ids in matplotlib: the second would be clipped by the first's path."""
    tree = parsed(html.page("t", [Figure(drawing(), "one"), Figure(drawing(), "two")]))
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    svgs = list(tree.iter("{http://www.w3.org/2000/svg}svg"))
    for number, svg in enumerate(svgs, 1):
        own = {element.get("id") for element in svg.iter()} - {None}
        used = {
            found
            for element in svg.iter()
            for value in element.attrib.values()
            for found in re.findall(r"#(f[\w-]+)", value)
        }
        assert own == used
        assert len(own) >= 3
        assert all(each.startswith(f"figure-{number}-") for each in own)
        assert svg.get("role") == "img"
        assert svg.get("aria-labelledby") == f"figure-{number}"
    assert [each.find("b").tail for each in tree.iter("figcaption")] == [" one", " two"]


def test_no_colour_of_ink_or_paper_is_fixed():
    """A black axis would vanish on a dark page; and a style sheet inside a drawing would hold outside it."""
    text = html.page("t", [Figure(drawing(), "one")])
    svg = text[text.index("<svg") : text.index("</svg>")]
    assert "currentColor" in svg
    assert "var(--paper)" in svg
    assert not re.findall(r"#000000|#ffffff|<style|<metadata", svg)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(colour, paper):
    low, high = sorted((luminance(colour), luminance(paper)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("paper", PAPERS.values(), ids=PAPERS)
@pytest.mark.parametrize("colour", figures.PALETTE)
def test_lines_are_seen_on_either_paper(colour, paper):
    """WCAG 1.4.11: a contrast of 3 to 1 for every part that is needed to understand a picture."""
    assert paper in html.page("t", [])
    assert contrast(colour, paper) >= 3


def signals():
    return propagate("relu", "kaiming_normal", 3, 8, inputs=4, seeds=2)


@pytest.mark.parametrize("make", [signals, *RESULTS.values()], ids=["propagate", *RESULTS])
def test_no_fill_is_a_light_of_its_own_in_the_dark(make):
    """A light band hides white ink on it; a translucent one takes the paper's colour, light or dark."""
    for fixed in re.findall(r'style="([^"]*(?:fill|stroke): #[^"]*)"', make().page()):
        if "opacity" not in fixed:
            colours = re.findall("#[0-9a-f]{6}", fixed)
            assert [c for c in colours if min(contrast(c, paper) for paper in PAPERS.values()) < 3] == []


def test_the_same_parts_give_the_same_bytes_whatever_the_users_matplotlibrc():
    first = html.page("t", parts())
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": None, "font.size": 20, "text.color": "red"}):
        assert html.page("t", parts()) == first


def test_drawing_changes_nothing_global():
    before = dict(mpl.rcParams)
    html.page("t", parts())
    assert dict(mpl.rcParams) == before
