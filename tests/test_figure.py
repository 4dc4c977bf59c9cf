"""What all drawings share: colours that the colour-blind tell apart, labels that do not overlap, a ground."""

import itertools
import re

import matplotlib as mpl
import numpy as np
import pytest
from conftest import ROOT
from matplotlib.text import Text
from page_parts import RESULTS, drawing

from fastinit.lessons import compare_starts, load_digits
from fastinit.lessons.training import train_digits
from fastinit.propagation import compare_initializers, propagate, residual_stack
from fastinit.views import figure as figures

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SEEN = {
    "everyone": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998],
    ]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881],
    ]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900],
    ]),
}  # fmt: skip
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])  # D65
OKABE_ITO = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7")
LEAST = 16


def lab(colour, eyes):
    """CIE L*a*b* of an sRGB colour as some eyes see it."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(SEEN[eyes] @ linear, 0, 1) / WHITE
    x, y, z = (np.cbrt(c) if c > 216 / 24389 else (24389 / 27 * c + 16) / 116 for c in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def least_distance(colours, eyes):
    """The least CIE76 distance between two of the colours."""
    return min(np.linalg.norm(lab(a, eyes) - lab(b, eyes)) for a, b in itertools.combinations(colours, 2))


def test_the_judge_finds_the_known_distance_of_okabe_and_itos_colours():
    assert min(least_distance(OKABE_ITO, eyes) for eyes in SEEN) == pytest.approx(16.05, abs=0.01)


@pytest.mark.parametrize("eyes", SEEN)
def test_the_colours_of_a_picture_are_told_apart_by_all_eyes(eyes):
    """Ten colours collapsed into six: four pairs were 4 to 6 apart in the eyes of the colour-blind."""
    assert least_distance([*figures.PALETTE, figures.MUTED], eyes) >= LEAST


def test_emphasized_lines_differ_in_more_than_colour():
    styles = [figures.emphasis(place) for place in range(15)]
    assert len({(style["color"], style["marker"]) for style in styles}) == 15
    assert figures.emphasis(None)["color"] == figures.MUTED
    assert "marker" not in figures.emphasis(None)


def labelled(heights, width=50):
    """A drawing of constant lines with a label each, laid out; and the extents of the labels."""
    with figures.style():
        figure = figures.new_figure(6, 3)
        axes = figure.subplots()
        axes.set(yscale="log", ylim=(1e-3, 1e3), xlim=(0, 10))
        lines = {f"line {place} {'m' * width}": axes.plot([0, 10], [h, h])[0] for place, h in enumerate(heights)}
        figures.label_ends(axes, lines)
        figure.draw_without_rendering()
    return axes, [Text.get_window_extent(text) for text in axes.texts]  # an annotation's holds its leader as well


@pytest.mark.parametrize("heights", [[1] * 8, [1, 1.01, 900, 1000], [1e-9, 1e9, 1e-9], [0.0, 1, np.inf], [5]])
def test_labels_stand_beside_their_lines_and_never_on_each_other(heights):
    axes, extents = labelled(heights)
    panel = axes.get_window_extent()
    assert all(extent.x0 >= panel.x1 for extent in extents)
    for one, other in itertools.pairwise(sorted(extents, key=lambda extent: extent.y0)):
        assert one.y1 <= other.y0 + 1.5
    assert all(panel.y0 - 16 <= e.y0 and e.y1 <= panel.y1 + 16 for e in extents)
    order = [text.get_text().split()[1] for text in sorted(axes.texts, key=lambda text: text.xyann[1])]
    limited = np.clip(heights, 1e-3, 1e3)
    assert [limited[int(place)] for place in order] == sorted(limited)


def test_a_line_that_leaves_the_axes_is_labelled_where_it_leaves():
    with figures.style():
        axes = figures.new_figure(4, 3).subplots()
        axes.set(yscale="log", ylim=(1e-3, 1e3), xlim=(0, 10))
        up, down, zero = (axes.plot(range(11), 10.0 ** (k * np.arange(11)))[0] for k in (1, -1, -400))
        figures.label_ends(axes, {"up": up, "down": down, "zero": zero})
    ends = {text.get_text(): text.xy for text in axes.texts}
    assert ends["up"] == pytest.approx((0.3, 1))
    assert ends["down"] == pytest.approx((0.3, 0))
    assert ends["zero"] == pytest.approx((0, 0))


def test_a_message_stays_inside_its_drawing():
    with figures.style():
        figure = figures.new_figure(5, 2)
        figures.message(figure, "a name with $math$ and many a word " * 6)
        figure.subplots()
        figure.draw_without_rendering()
        (text,) = [text for text in figure.texts if "$math$" in text.get_text()]
        extent = text.get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= 500
    assert "\n" in text.get_text()


GROUND = re.compile(r'<g id="patch_1">\s*<path d="M 0 ([\d.]+) \nL ([\d.]+) \1 [^"]*" style="fill: #ffffff"/>')
PICTURES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.svg"))


@pytest.mark.parametrize("picture", PICTURES)
def test_a_committed_picture_has_a_white_ground(picture):
    """Black axes on nothing vanish on a dark page."""
    assert GROUND.search((ROOT / picture).read_text())


def test_a_saved_drawing_has_a_white_ground_whatever_the_users_matplotlibrc(tmp_path):
    with mpl.rc_context({"savefig.transparent": True, "savefig.facecolor": "black", "figure.facecolor": "none"}):
        figures.save(drawing(), tmp_path / "d.svg")
    assert GROUND.search((tmp_path / "d.svg").read_text())


DRAWN = {name: make for name, make in RESULTS.items() if name != "claims"} | {
    "propagate": lambda: compare_initializers(width=32, layers=8, inputs=8, seeds=2),
    "one network": lambda: propagate("relu", "kaiming_normal", 8, 32, inputs=8, seeds=2),
    "residual": lambda: residual_stack(4, width=32, inputs=8, seeds=2),
    "train": lambda: compare_starts(load_digits(8), seeds=2, epochs=2),
    "digits": lambda: train_digits(epochs=2),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_has_a_message_readable_text_and_no_colours_of_its_own(name, tmp_path):
    """Titles of 7 points cannot be read; a colour of its own was never judged beside the palette's."""
    figure = DRAWN[name]().figure()
    assert len(figure.get_suptitle()) > 20
    assert min(text.get_fontsize() for text in figure.findobj(Text) if text.get_text()) >= 8
    figures.save(figure, tmp_path / "d.svg")
    used = set(re.findall("#[0-9a-f]{6}", (tmp_path / "d.svg").read_text()))
    assert used - {*figures.PALETTE, figures.MUTED} <= {"#000000", "#ffffff", "#b0b0b0"}, "ink, ground and grid"
