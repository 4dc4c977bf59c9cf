"""The trace: a script that diffs or parses it must never read a number that was not written."""

import dataclasses
import hashlib
import json
from decimal import Decimal

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from reference_populations import exact, reference_weights

from fastinit.cli import main as cli
from fastinit.lessons import populations
from fastinit.lessons.populations import Populations, measure_populations
from fastinit.lessons.trace import parse_trace, render_trace

MEASURED = measure_populations()
TEXT = render_trace(MEASURED)
"""The trace of seed 17, which the first tests compare with the published one and an independent computation."""

PUBLISHED = "094f6429605483879980e93edee5df507a9a47461ae9e4931f5d06fbccf950ed"
"""SHA-256 of parameter-initialization-v2 of seed 17, as its course (MIT licence) publishes it."""


def test_the_trace_of_seed_17_is_the_published_one():
    """A trace of that name with other bins or keys could be compared with no other program's."""
    assert hashlib.sha256(TEXT.encode()).hexdigest() == PUBLISHED
    assert parse_trace(TEXT) == rounded(MEASURED)


def fixed(value):
    text = f"{Decimal(value).quantize(Decimal(10) ** -12):f}"
    return text.removeprefix("-") if not Decimal(text) else text


def listed(values):
    return ",".join(map(fixed, values))


def displayed(value):
    text = f"{Decimal(fixed(value)).quantize(Decimal('0.0001')):f}"
    return text.removeprefix("-") if not Decimal(text) else text


def reference_trace(seed, alternate):
    """The lesson's lines, from weights drawn by numpy alone, exact fractions and decimals."""
    limits = {"zero": Decimal(0), "oversized": 2 * (Decimal(6) / 128).sqrt(), "xavier": (Decimal(6) / 128).sqrt()}
    factors = {"zero": 0, "oversized": 4, "xavier": 1}
    edges = [Decimal(k) / 20 for k in range(-9, 10, 2)]
    lines = [
        "TRACE parameter-initialization-v2 BEGIN",
        "FIXTURE name=fixed-seed-width64 generator=splitmix64 mapping=top53-affine "
        f"seed={seed} shape=64x64 samples=4096 fan-in=64 fan-out=64 statistic=population-two-pass "
        "layers=0,1,2,3,4 propagation=expected-linear-independent input-variance=1.000000000000 "
        "display-input-variance=1",
        f"BINNING edges={listed(edges)} display-edges={','.join(f'{edge:.2f}' for edge in edges)} "
        "width=0.100000000000 display-width=0.10 closure=left-closed-right-open-last-closed",
    ]
    for kind, weights in reference_weights(seed).items():
        *numbers, counts = exact(weights)
        numbers = dict(zip(("limit", "min", "max", "mean", "variance"), (limits[kind], *numbers), strict=True))
        lines.append(
            f"DISTRIBUTION kind={kind} seed={'none' if kind == 'zero' else seed} "
            + " ".join(f"{key}={fixed(value)}" for key, value in numbers.items())
            + "".join(f" display-{key}={displayed(value)}" for key, value in numbers.items())
        )
        percent = [Decimal(100 * count) / 4096 for count in counts]
        lines.append(
            f"HISTOGRAM kind={kind} counts={','.join(map(str, counts))} bar-percent={listed(percent)} "
            f"display-percent={','.join(str(each.quantize(Decimal('0.1'))) for each in percent)} "
            "underflow=0 overflow=0"
        )
    lines.append(f"PAIRING seed={seed} base-draws-equal=yes oversized-to-xavier-limit=2.000000000000")
    for kind, factor in factors.items():
        variances = [factor**layer for layer in range(5)]
        lines.append(
            f"PROPAGATION kind={kind} variances={listed(variances)} "
            f"display-variances={','.join(map(str, variances))}"
        )
    lines.append(
        f"REPRODUCIBILITY seed={seed} same-seed-equal=yes alternate-seed={alternate} alternate-seed-different=yes"
    )
    return "\n".join([*lines, "TRACE parameter-initialization-v2 END", ""])


@pytest.mark.parametrize(("seed", "alternate"), [(17, 18), (0, 1), (2**64 - 1, 0)])
def test_every_byte_follows_from_an_independent_computation(seed, alternate):
    assert render_trace(measure_populations(seed)) == reference_trace(seed, alternate)


def rounded(found):
    """The populations with their measurements rounded to 12 decimals."""
    members = tuple(
        dataclasses.replace(
            p, **{name: float(fixed(getattr(p, name))) for name in ("min", "max", "mean", "variance")}
        )
        for p in found.members
    )
    return dataclasses.replace(found, members=members)


def test_a_trace_is_read_back():
    found = measure_populations()
    assert parse_trace(TEXT) == rounded(found)
    assert render_trace(parse_trace(TEXT)) == TEXT


numbers = st.one_of(
    st.integers(-(10**15), 10**15).map(lambda k: k / 10**12),
    st.floats(-1e15, 1e15),
    st.sampled_from([0.0, -0.0, -1e-13, 5e-13, -5e-13, 5e-324, 999.999999999999]),
)
seeds = st.integers(0, 2**64 - 1)
counts = st.lists(st.integers(0, 4096), min_size=10, max_size=10).map(
    lambda cuts: tuple(b - a for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 4096], strict=True))
)


@st.composite
def any_populations(draw):
    """Populations of any seed with any measurements."""
    seed = draw(seeds)
    members = []
    for p in MEASURED.members:
        below, *inside, above = draw(counts)
        measured = {name: draw(numbers) for name in ("min", "max", "mean", "variance")}
        taken = {} if p.kind == "zero" else {"seed": seed}
        bins = {"counts": tuple(inside), "underflow": below, "overflow": above}
        members.append(dataclasses.replace(p, **taken, **measured, **bins))
    flags = [draw(st.booleans()) for _ in range(3)]
    return Populations(seed, draw(seeds), tuple(members), flags[0], MEASURED.limit_ratio, flags[1], flags[2])


@given(any_populations())
def test_whatever_was_measured_is_read_back(found):
    text = render_trace(found)
    assert "-0.000000000000" not in text
    assert parse_trace(text) == rounded(found)
    assert render_trace(parse_trace(text)) == text


def test_a_caption_is_rounded_from_the_number_beside_it():
    """Rounded from the measurement itself it could contradict the 12 decimals that a reader has."""
    zero, *others = MEASURED.members
    found = dataclasses.replace(MEASURED, members=(dataclasses.replace(zero, mean=0.00005 - 1e-14), *others))
    text = render_trace(found)
    assert "mean=0.000050000000 " in text
    assert "display-mean=0.0001 " in text
    assert render_trace(parse_trace(text)) == text


@given(st.integers(0, len(TEXT) - 1), st.sampled_from("0 12=,.-\n\r\0e+_xTyén"), st.booleans())
def test_a_changed_byte_is_refused_with_its_line_or_kept(place, character, insert):
    text = TEXT[:place] + character + TEXT[place + (not insert) :]
    said = ""
    try:
        kept = render_trace(parse_trace(text)) == text
    except ValueError as error:
        kept, said = False, str(error)
    assert kept != said.startswith("line ")


@given(st.integers(0, len(TEXT) - 1))
def test_a_trace_cut_short_is_refused(length):
    with pytest.raises(ValueError, match=r"^line \d+"):
        parse_trace(TEXT[:length])


def without(number):
    return "".join(each + "\n" for at, each in enumerate(TEXT.splitlines(), 1) if at != number)


PAIRING = TEXT.splitlines()[9]
ZERO_MEAN = " mean=0.000000000000"
MEAN = "mean=-0.003369028566"
REPLACED = [
    ("an empty line", "\nPAIRING", "\n\nPAIRING", "line 10: expected PAIRING, got ''"),
    ("a repeated line", PAIRING, f"{PAIRING}\n{PAIRING}", "line 11: expected PROPAGATION, got 'PAIRING"),
    ("another version", "-v2 BEGIN", "-v3 BEGIN", "line 1: expected TRACE parameter-initialization-v2 BEGIN"),
    ("a longer kind", "PAIRING ", "PAIRINGS ", "line 10: expected PAIRING, got 'PAIRINGS"),
    ("DOS newlines", "\n", "\r\n", "line 1: expected TRACE"),
    ("a key too few", ZERO_MEAN, "", "line 4: key 'mean' is missing; DISTRIBUTION has kind,"),
    ("an unknown key", " generator=", " engine=", "line 2: unknown key 'engine'; FIXTURE has name,"),
    ("a key twice", " fan-out=64", " fan-in=64", "line 2: key 'fan-in' occurs twice"),
    ("no key", " closure=left", " left", "line 3: 'left-closed-right-open-last-closed' is not key=value"),
    ("two spaces", "zero counts", "zero  counts", "line 5: '' is not key=value"),
    ("another order", "fan-in=64 fan-out=64", "fan-out=64 fan-in=64", "line 2: the keys of FIXTURE stand in the"),
    ("a constant", "width=0.10 ", "width=0.20 ", "line 3: the rest of the trace makes it display-width=0.10, got"),
    ("another kind", "PROPAGATION kind=xavier", "PROPAGATION kind=zero", "line 13: the rest of the trace makes"),
    (
        "a count too few",
        "=0,0,0,0,4096,",
        "=0,0,0,4096,",
        "line 5: expected 9 counts that sum to 4096 with underflow and overflow, got 8 ",
    ),
    (
        "a wrong sum",
        "counts=409,",
        "counts=410,",
        "line 7: expected 9 counts that sum to 4096 with underflow and overflow, got 9 that sum to 4097",
    ),
    ("a negative count", "counts=409,498", "counts=-1,908", "line 7: expected a whole number, got '-1'"),
    (
        "counts moved",
        "counts=409,498",
        "counts=410,497",
        "line 7: the rest of the trace makes it bar-percent=10.009",
    ),
    (
        "a count below the bins",
        "underflow=0",
        "underflow=1",
        "line 5: expected 9 counts that sum to 4096 with underflow and overflow, got 9 that sum to 4097",
    ),
    (
        "another caption",
        "display-min=-0.4330",
        "display-min=-0.4331",
        "line 6: the rest of the trace makes it disp",
    ),
    ("a variance too few", "16.000000000000,", "", "line 12: the rest of the trace makes it variances=1"),
    (
        "a limit of another width",
        "limit=0.433012701892",
        "limit=9.000000000000",
        "line 6: the rest of the trace makes",
    ),
    (
        "a limit in the last decimal",
        "limit=0.216506350946",
        "limit=0.216506350947",
        "line 8: the rest of the trace",
    ),
    (
        "zeros with a limit",
        "limit=0.000000000000",
        "limit=7.000000000000",
        "line 4: the rest of the trace makes it",
    ),
    (
        "a ratio of other limits",
        "limit=2.000",
        "limit=3.000",
        "line 10: the rest of the trace makes it oversized-",
    ),
    (
        "growth that no limit gives",
        "1.000000000000 display-variances=1,1,1,1,1",
        "1.009000000000 display-variances=1,1,1,1,1",
        "line 13: the rest of the trace makes it variances=1",
    ),
    (
        "another display",
        "s=1,4,16",
        "s=1,4,17",
        "line 12: the rest of the trace makes it display-variances=1,4,16",
    ),
    ("a word for a number", ZERO_MEAN, " mean=none", "line 4: expected a float64 with 12 decimals"),
    ("eleven decimals", MEAN, MEAN[:-1], "line 8: expected a float64 with 12 decimals"),
    ("thirteen decimals", MEAN, MEAN + "0", "line 8: expected a float64 with 12 decimals"),
    ("negative zero", ZERO_MEAN, " mean=-0.000000000000", "line 4: expected a float64 with 12 decimals"),
    ("infinite", ZERO_MEAN, " mean=inf", "line 4: expected a float64 with 12 decimals"),
    ("not a number", ZERO_MEAN, " mean=nan", "line 4: expected a float64 with 12 decimals"),
    ("digits no float64 has", MEAN, "mean=1234567890123.003369028566", "line 8: expected a float64 with 12"),
    ("half an answer", "same-seed-equal=yes", "same-seed-equal=maybe", "line 14: expected yes or no, got 'maybe'"),
    (
        "one other seed",
        "PAIRING seed=17",
        "PAIRING seed=18",
        "line 10: the rest of the trace makes it seed=17, got",
    ),
    ("a seed for zeros", "seed=none", "seed=17", "line 4: the rest of the trace makes it seed=none, got seed=17"),
    ("a seed of 2**64", "alternate-seed=18", f"alternate-seed={2**64}", "line 14: a seed must be between 0 and"),
    ("a padded seed", "alternate-seed=18", "alternate-seed=018", "line 14: the rest of the trace makes it alt"),
    ("another script", "alternate-seed=18", "alternate-seed=\u0661\u0668", "line 14: expected a whole number"),
]
REFUSED = [
    ("nothing", "", "line 1: expected TRACE parameter-initialization-v2 BEGIN, got nothing"),
    ("no BEGIN", without(1), "line 1: expected TRACE parameter-initialization-v2 BEGIN, got 'FIXTURE name="),
    ("no END", without(15), "line 15: expected TRACE parameter-initialization-v2 END, got nothing"),
    ("no newline after END", TEXT[:-1], "line 15: must end with a newline: 'TRACE"),
    ("a line after END", TEXT + "more\n", "line 16: the trace ended above, got 'more'"),
    ("a missing line", without(5), "line 5: expected HISTOGRAM, got 'DISTRIBUTION kind=oversized"),
    *((name, TEXT.replace(old, new), said) for name, old, new, said in REPLACED),
]


@pytest.mark.parametrize(("text", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_trace_is_refused_by_its_line(text, said):
    assert text != TEXT
    with pytest.raises(ValueError, match="line") as refused:
        parse_trace(text)
    assert str(refused.value).startswith(said)


def test_the_command_prints_the_trace(capsys):
    assert cli.main(["trace"]) == 0
    assert capsys.readouterr().out == TEXT
    assert cli.main(["trace", "--seed", "40"]) == 0
    assert capsys.readouterr().out == render_trace(measure_populations(40))


def test_the_command_as_json(capsys):
    assert cli.main(["trace", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(measure_populations().facts()))


@pytest.mark.parametrize("arguments", [[], ["--json"]], ids=["text", "json"])
def test_a_check_that_fails_is_status_1(capsys, monkeypatch, arguments):
    original = populations.initialize
    monkeypatch.setattr(populations, "initialize", lambda shape, seed, scheme: original(shape, 17, scheme))
    assert cli.main(["trace", *arguments]) == 1
    out = capsys.readouterr().out
    assert "alternate-seed-different=no" in out or '"holds": false' in out


def labels(population):
    return [f"{n} / {100 * n / 4096:.1f} %" for n in population.counts]


def test_the_figure_shows_every_count_and_the_depth_table():
    found = measure_populations()
    *panels, table = found.figure().axes
    for axes, p in zip(panels, found.members, strict=True):
        texts = [text.get_text().replace("\n", " / ") for text in axes.texts]
        assert texts == labels(p)
        assert [bar.get_height() for bar in axes.patches] == pytest.approx(p.percentages)
        assert [bar.get_x() for bar in axes.patches] == list(populations.EDGES[:-1])
        assert p.kind in axes.get_title(loc="left")
        assert "measured" in axes.get_title(loc="left")
    assert "expected, not measured" in table.get_title(loc="left")
    cells = {place: cell.get_text().get_text() for place, cell in table.tables[0].get_celld().items()}
    assert [cells[0, column] for column in range(3)] == ["zero", "oversized", "xavier"]
    assert [[cells[row, column] for row in range(1, 6)] for column in range(3)] == [
        ["1", "0", "0", "0", "0"],
        ["1", "4", "16", "64", "256"],
        ["1", "1", "1", "1", "1"],
    ]


def test_the_page_holds_the_figure_and_its_tables():
    page = measure_populations().page()
    assert page.count("<svg") == 1
    assert page.count("<table>") == 3
    assert "Left, measured" in page
    assert "Right, only expected" in page


def test_the_committed_figure_is_of_these_populations():
    text = (ROOT / "docs" / "pictures" / "trace.svg").read_text()
    for p in measure_populations().members:
        assert all(f">{n}<" in text for n in p.counts)


def test_the_command_writes_its_views(capsys, tmp_path):
    figure, page = tmp_path / "trace.svg", tmp_path / "trace.html"
    assert cli.main(["trace", "--figure", str(figure), "--html", str(page)]) == 0
    assert capsys.readouterr().out == TEXT
    assert "<svg" in figure.read_text()
    assert page.read_text().startswith("<!doctype html>")
