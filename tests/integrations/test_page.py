"""Pages in headless Chromium: sorted by mouse and keyboard, on a phone, in the dark, and silent in the console.

Set FASTINIT_REQUIRE_CHROMIUM=1 to make a missing browser a failure.
"""

import contextlib
import os
import re
import shutil

import numpy as np
import pytest
from page_parts import HOSTILE, RESULTS, ROWS, TABLE, parts
from safetensors.numpy import save_file

from fastinit.diagnosis import diagnose
from fastinit.initializers import Normal, Residual
from fastinit.propagation.experiments import measure
from fastinit.propagation.result import Comparison
from fastinit.propagation.stack import Stack
from fastinit.views import page as html
from fastinit.views.table import Table

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
DESK, PHONE = {"width": 1200, "height": 800}, {"width": 360, "height": 640}


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415
    except ImportError:
        sync_playwright = None
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    missing = [name for name, found in (("playwright", sync_playwright), ("chromium", executable)) if not found]
    if missing:
        message = f"no {' and no '.join(missing)} here, so no page was looked at"
        if os.environ.get("FASTINIT_REQUIRE_CHROMIUM"):
            pytest.fail(message)
        pytest.skip(message)
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium's sandbox refuses root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=sandbox)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def every_part(tmp_path_factory):
    """A page with every kind of part, as a file."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(html.page(f"Every part {HOSTILE}", parts()), encoding="utf-8")
    return path


@contextlib.contextmanager
def listening(browser):
    """Open files; fail at the end for every console message, error and network request of theirs."""
    heard, contexts = [], []

    def visit(path, **options):
        contexts.append(browser.new_context(**{"viewport": DESK, **options}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: heard.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: heard.append(f"page error: {error}"))
        page.on("dialog", lambda dialog: heard.append(f"dialog: {dialog.message}") or dialog.dismiss())
        page.on("request", lambda request: heard.append(f"request: {request.url[:80]}"))
        page.goto(path.as_uri())
        heard.remove(f"request: {path.as_uri()[:80]}")
        heard[:] = [each for each in heard if not each.startswith("request: data:")]
        return page

    yield visit
    for context in contexts:
        context.close()
    assert heard == []


@pytest.fixture
def visit(browser):
    with listening(browser) as visit:
        yield visit


@pytest.fixture(scope="module", params=[None, *RESULTS], ids=["every part", *RESULTS])
def page(request, browser, every_part, tmp_path_factory):
    """The page of every part, then that of each result; loaded once, so that a test sets what it needs itself."""
    path = every_part
    if request.param:
        path = tmp_path_factory.mktemp("result") / "page.html"
        html.save(RESULTS[request.param]().page(), path)
    with listening(browser) as visit:
        yield visit(path)


def column(page, number):
    """The texts of a column of the page's first table, downwards."""
    return page.locator("table").first.locator(f"tbody td:nth-child({number})").all_inner_texts()


def orders(page):
    return [header.get_attribute("aria-sort") for header in page.locator("table").first.locator("th").all()]


NAMES = [row[0] for row in ROWS]
NATURAL = [HOSTILE, *(f"h.{i}.weight" for i in (1, 2, 3, 4, 10))]
# column: its cells in ascending order, then in descending order
SORTED = {
    "name": (1, NATURAL, NATURAL[::-1]),
    # 2**53 and 2**53 + 1 are one and the same to a JavaScript Number
    "elements": (2, ["7", "9", "10", "768", "9,007,199,254,740,992", "9,007,199,254,740,993"],
                 ["9,007,199,254,740,993", "9,007,199,254,740,992", "768", "10", "9", "7"]),
    "sd": (3, ["-inf", "1e-12", "0.5", "inf", "nan", ""], ["inf", "0.5", "1e-12", "-inf", "nan", ""]),
    "verdict": (4, ["exploded", "exploded", "good", "good", "good", ""],
                ["good", "good", "good", "exploded", "exploded", ""]),
}  # fmt: skip


@pytest.mark.parametrize("name", SORTED)
def test_a_click_sorts_and_another_reverses(visit, every_part, name):
    page = visit(every_part)
    number, ascending, descending = SORTED[name]
    assert orders(page) == [None] * 4
    button = page.locator("table").first.get_by_role("button", name=name)
    for order, cells in (("ascending", ascending), ("descending", descending), ("ascending", ascending)):
        button.click()
        assert column(page, number) == cells
        assert orders(page) == [order if i == number else None for i in range(1, 5)]
    assert sorted(column(page, 1)) == sorted(NAMES)


def test_equal_rows_keep_their_places(visit, every_part):
    """Sorting by one column, then by another, must sort by both."""
    page = visit(every_part)
    table = page.locator("table").first
    for name in ("name", "verdict"):
        table.get_by_role("button", name=name).click()
    assert column(page, 1) == [HOSTILE, *(f"h.{i}.weight" for i in (4, 2, 3, 10, 1))]
    assert orders(page) == [None, None, None, "ascending"]
    table.get_by_role("button", name="verdict").click()
    assert column(page, 1) == [f"h.{i}.weight" for i in (2, 3, 10)] + [HOSTILE, "h.4.weight", "h.1.weight"]


FOCUSED = """() => {
  const element = document.activeElement, { outlineStyle, outlineWidth } = getComputedStyle(element);
  return [element.localName, element.ariaLabel || element.textContent, `${outlineStyle} ${outlineWidth}`];
}"""


def test_the_keyboard_reaches_everything_in_order_and_sorts(visit, every_part):
    page = visit(every_part)
    kinds, names, outlines = [], [], set()
    for _ in range(10):
        page.keyboard.press("Tab")
        kind, name, outline = page.evaluate(FOCUSED)
        kinds.append(kind)
        names.append(name)
        outlines.add(outline)
    assert kinds == ["a"] * 3 + ["div"] * 3 + ["button"] * 4
    assert names[3:] == ["Figure 1", "Figure 2", TABLE.caption, *TABLE.columns]
    assert outlines == {"solid 2px"}
    page.keyboard.press("Shift+Tab")  # from "verdict" to "sd"
    for key, cells in (("Enter", SORTED["sd"][1]), ("Space", SORTED["sd"][2])):
        page.keyboard.press(key)
        assert column(page, 3) == cells
    assert page.evaluate("document.activeElement.textContent") == "sd"


def test_the_skip_link_skips(visit, every_part):
    page = visit(every_part)
    page.keyboard.press("Tab")
    link = page.get_by_role("link", name="Skip to the content")
    assert link.bounding_box()["y"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "Figure 1"


def test_a_wide_table_scrolls_by_itself_with_the_arrow_keys(visit, every_part):
    page = visit(every_part, viewport={"width": 600, "height": 800})
    region = page.get_by_role("region", name="wider than any phone")
    region.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("region => region.scrollLeft > 0", arg=region.element_handle())
    assert page.evaluate("scrollX") == 0


def test_a_short_cell_is_one_line_and_a_long_one_is_readable(visit, tmp_path):
    """A table wider than the screen scrolls; it does not first break names into a word a line."""
    short, long = "N(0, variance 1e-5)", "why this start does not train " * 9
    table = Table("starts", ("a", "b", "c", "why"), ((short, short, short, long),))
    path = tmp_path / "page.html"
    path.write_text(html.page("t", [table]), encoding="utf-8")
    found = (
        visit(path, viewport={"width": 600, "height": 800})
        .locator("td")
        .evaluate_all("""cells => cells.map(cell => {
      const text = document.createRange();
      text.selectNodeContents(cell);
      return [text.getClientRects().length, cell.offsetWidth];
    })""")
    )
    assert [lines for lines, _ in found[:3]] == [1, 1, 1]
    assert found[3][0] > 4
    assert 224 <= found[3][1] <= 448


def test_hostile_text_is_text(visit, every_part):
    page = visit(every_part)
    assert page.title() == f"Every part {HOSTILE}"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1


def test_the_policy_stops_what_escaping_would_miss(browser, every_part):
    """Were a name ever written as markup, it must still not run: said in the console, so not a `visit`."""
    context = browser.new_context()
    page = context.new_page()
    heard = []
    page.on("console", lambda message: heard.append(message.text))
    page.goto(every_part.as_uri())
    page.evaluate("text => { document.querySelector('main').innerHTML += text; }", HOSTILE)
    page.wait_for_timeout(100)
    assert page.title() != "owned"
    assert any("Content Security Policy" in each for each in heard)
    context.close()


@pytest.mark.parametrize("width", [320, 360, 768, 1200])
def test_the_page_never_scrolls_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 640})
    assert page.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth)") <= width


CUT = """() => [...document.querySelectorAll(".scroll:has(> table)")]
  .filter(region => region.scrollWidth > region.clientWidth).map(region => region.ariaLabel)"""


@pytest.fixture(scope="module")
def widest(browser, tmp_path_factory):
    """The pages with the widest tables: networks with long names and verdicts, and a checkpoint."""
    stream = Stack("gelu", "xavier_normal", 110, 8, 4, True, "layer", Residual(Normal(std=0.123), 12))
    runs = measure([Stack("relu", Normal(std=1 / 3e4), 110, 8, 4), stream], seeds=2)
    folder = tmp_path_factory.mktemp("widest")
    save_file({"model.layers.0.self_attn.q_proj.weight": np.ones((4, 4), np.float32)}, folder / "w.safetensors")
    pages = {"propagation": Comparison("t", runs), "diagnosis": diagnose(folder / "w.safetensors")}
    with listening(browser) as visit:
        found = {}
        for name, result in pages.items():
            html.save(result.page(), folder / f"{name}.html")
            found[name] = visit(folder / f"{name}.html")
        yield found


# 718 px is A4 within margins of 10 mm
@pytest.mark.parametrize(("width", "media"), [(360, "screen"), (1280, "screen"), (1920, "screen"), (718, "print")])
@pytest.mark.parametrize("name", ["propagation", "diagnosis"])
def test_no_table_is_cut_off_on_a_phone_a_desktop_or_a4(widest, name, width, media):
    """The column of verdicts was beyond the right edge."""
    page = widest[name]
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(media=media)
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("th").all_inner_texts()[1].strip().startswith("verdict")


def test_on_a_phone_each_cell_stands_behind_its_columns_name(visit, every_part):
    page = visit(every_part, viewport=PHONE)
    cells = page.locator("table").first.locator("tbody tr").first.locator("td")
    name = "cell => JSON.parse(getComputedStyle(cell, '::before').content)"
    assert [cell.evaluate(name) for cell in cells.all()] == list(TABLE.columns)
    boxes = [cell.bounding_box() for cell in cells.all()]
    assert [box["y"] for box in boxes] == sorted({box["y"] for box in boxes}), "one below the other"
    assert all(box["x"] + box["width"] <= PHONE["width"] for box in boxes)
    page.set_viewport_size(DESK)
    assert {cell.evaluate("cell => getComputedStyle(cell, '::before').display") for cell in cells.all()} == {
        "none"
    }


def test_a_column_named_by_a_stranger_stays_a_name(visit, tmp_path):
    """Columns' names are written into the style sheet too."""
    table = Table("t", (HOSTILE, '"; } body { display: none } /*', "same", "same"), ((1, 2, 3, 4),))
    path = tmp_path / "page.html"
    path.write_text(html.page("t", [table]), encoding="utf-8")
    page = visit(path, viewport=PHONE)
    assert page.locator("body").is_visible()
    assert page.title() == "t"
    name = "cell => getComputedStyle(cell, '::before').content"
    shown = [cell.evaluate(name).replace('\\"', '"')[1:-1] for cell in page.locator("td").all()]
    assert shown == [*table.columns[:2], f"{table.columns[1]}, same", f"{table.columns[1]}, same"]


def test_every_figure_table_and_region_has_its_name(page):
    for kind, role in (("svg", "img"), ("table", "table"), (".scroll", "region")):
        for element in page.locator(kind).all():
            assert re.match(rf"- '?{role} \".+", element.aria_snapshot())
    captions = page.locator("figcaption").all_inner_texts()
    assert [text.split(".")[0] for text in captions] == [f"Figure {i}" for i in range(1, len(captions) + 1)]


def test_every_header_sorts_its_table(page):
    orders = page.evaluate("""[...document.querySelectorAll("thead th")].map(header => ["", ""].map(() => {
      header.querySelector("button").click();
      return header.ariaSort;
    }).join())""")
    assert set(orders) <= {"ascending,descending"}


CONTRASTS = """() => {
  const luminance = colour => {
    const [r, g, b] = colour.match(/\\d+/g).map(c => c / 255)
      .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = luminance(getComputedStyle(document.documentElement).backgroundColor);
  const contrast = (element, property, part) => {
    const [low, high] = [paper, luminance(getComputedStyle(element, part)[property])].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const all = [...document.querySelectorAll("h1, h2, p, a, caption, figcaption, td, th button")];
  const texts = [...document.querySelectorAll("svg text")];
  return {
    paper,
    page: Math.min(...all.map(e => contrast(e, "color")),
                   ...[...document.querySelectorAll("th button")].map(e => contrast(e, "color", "::after"))),
    drawing: texts.length ? Math.min(...texts.map(e => contrast(e, "fill"))) : null,
  };
}"""


SHOWN = [("light", "screen", 0.9, 1), ("dark", "screen", 0, 0.05), ("dark", "print", 1, 1)]


@pytest.mark.parametrize(("scheme", "media", "low", "high"), SHOWN)
def test_text_can_be_read_in_the_light_in_the_dark_and_on_paper(page, scheme, media, low, high):
    """WCAG 1.4.3: 4.5 to 1; the page follows the reader's system, but is printed on white from either."""
    page.emulate_media(color_scheme=scheme, media=media)
    found = page.evaluate(CONTRASTS)
    assert low <= found["paper"] <= high
    assert found["page"] >= 4.5
    assert found["drawing"] is None or found["drawing"] >= 4.5  # None: there is no drawing


def test_a_printed_page_is_whole(visit, every_part):
    """A reader of paper cannot scroll a region."""
    page = visit(every_part)
    page.emulate_media(media="print")
    found = page.locator(".scroll").evaluate_all(
        "all => all.map(region => getComputedStyle(region)).map(style => [style.overflow, style.maxHeight])"
    )
    assert found == [["visible", "none"]] * 5
    buttons = page.locator("th button")
    shown = buttons.evaluate_all("all => [...new Set(all.map(button => getComputedStyle(button).display))]")
    assert shown == ["contents"], "Chromium repeats no head of a table that has boxes such as buttons in it"


def test_without_scripts_the_page_is_whole_and_promises_nothing(visit, every_part):
    page = visit(every_part, java_script_enabled=False)
    assert page.get_by_role("button").count() == 0
    assert column(page, 1) == NAMES
