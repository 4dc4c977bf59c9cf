"""The three populations: a weight in no bin, or in two, would make a histogram that looks right and is not."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from reference_populations import exact, reference_weights
from tables import REFUSED_INTEGERS

from fastinit.lessons import populations
from fastinit.lessons.populations import (
    EDGES,
    expected_variances,
    histogram,
    measure_populations,
    moments,
)


@pytest.mark.parametrize("seed", [17, 0, 2**64 - 1])
def test_the_measured_numbers_are_those_of_exact_arithmetic(seed):
    found = measure_populations(seed)
    assert found.passed
    assert [p.kind for p in found.members] == ["zero", "oversized", "xavier"]
    for p, (kind, weights) in zip(found.members, reference_weights(seed).items(), strict=True):
        least, most, mean, variance, counts = exact(weights)
        assert (p.kind, p.counts, p.underflow, p.overflow) == (kind, counts, 0, 0)
        assert (p.min, p.max) == (least, most)
        assert sum(p.counts) == 4096
        assert p.percentages == tuple(float(Fraction(100 * count, 4096)) for count in counts)
        assert p.mean == pytest.approx(mean, rel=1e-15)
        assert p.variance == pytest.approx(variance, rel=1e-14)


def test_limits_and_seeds_are_those_of_the_draws():
    zero, oversized, xavier = measure_populations(17).members
    assert (zero.seed, zero.limit) == (None, 0.0)
    assert (xavier.seed, xavier.limit) == (17, math.sqrt(6 / 128))
    assert (oversized.seed, oversized.limit) == (17, 2 * math.sqrt(6 / 128))
    assert (zero.mean, math.copysign(1, zero.mean), zero.variance) == (0, 1, 0)


def test_expected_variances_are_the_lessons():
    assert [p.expected_variances for p in measure_populations().members] == [
        (1.0, 0.0, 0.0, 0.0, 0.0),
        (1.0, 4.0, 16.0, 64.0, 256.0),
        (1.0, 1.0, 1.0, 1.0, 1.0),
    ]
    assert expected_variances(1 / 32) == (1.0, 2.0, 4.0, 8.0, 16.0)


def test_edges_are_the_floats_nearest_to_their_decimals():
    """Steps of 0.1 from -0.45 miss most of them; an edge at 0 would draw zeros as weights from 0 to 0.1."""
    assert EDGES == (-0.45, -0.35, -0.25, -0.15, -0.05, 0.05, 0.15, 0.25, 0.35, 0.45)


def counts(values):
    found = histogram(np.asarray(values))
    return found["underflow"], *found["counts"], found["overflow"]


def test_a_bin_holds_its_left_edge_and_the_last_one_both():
    assert counts(EDGES) == (0, *(1,) * 8, 2, 0)
    assert counts(np.nextafter(EDGES[1:], -1)) == (0, *(1,) * 9, 0)
    assert counts(np.nextafter(EDGES[:-1], 1)) == (0, *(1,) * 9, 0)
    assert counts([-0.0]) == (0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0)


def test_what_lies_outside_the_bins_is_counted_not_dropped():
    above, below = [np.nextafter(0.45, 1), 7.0, np.inf], [np.nextafter(-0.45, -1), -np.inf]
    assert counts([0.0, *above, *below]) == (2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 3)
    with pytest.raises(ValueError, match="1 of 3 values are NaN"):
        histogram(np.array([0.0, np.nan, 0.1]))


def test_variance_survives_a_large_mean_and_divides_by_n():
    """The one-pass formula loses all digits here; dividing by n - 1 gives 1.25 * 4/3."""
    values = 1e9 + np.array([0.0, 1.0, 2.0, 3.0])
    found = moments(values)
    assert (found["mean"], found["variance"]) == (1e9 + 1.5, 1.25)


def test_a_mean_is_summed_exactly():
    assert moments(np.array([2.0**100, 1.0, 1.0, -(2.0**100)]))["mean"] == 0.5


@pytest.mark.parametrize(("seed", "error"), REFUSED_INTEGERS)
def test_wrong_seeds_are_refused(seed, error):
    with pytest.raises(error, match="seed"):
        measure_populations(seed)
    if seed is not None:
        with pytest.raises(error, match="alternate_seed"):
            measure_populations(17, seed)


def test_the_alternate_seed_is_the_next_one_and_wraps():
    assert measure_populations(17).alternate_seed == 18
    assert measure_populations(2**64 - 1).alternate_seed == 0
    assert measure_populations(17, 40).alternate_seed == 40


def changed(change):
    """`initialize`, with `change(values, initializer, calls so far)` applied to its weights."""
    original, calls = populations.initialize, []

    def initialize(shape, seed, initializer):
        calls.append(initializer)
        return change(original(shape, seed, initializer), initializer, len(calls))

    return initialize


# What breaks, and the only check that must notice.
BROKEN = [
    ("oversized weights with draws of their own", "base_draws_equal",
     lambda values, initializer, _: -values if getattr(initializer, "scale", 1) == 4 else values),
    ("one bit off in the oversized weights", "base_draws_equal",
     lambda values, initializer, _: np.nextafter(values, 1) if getattr(initializer, "scale", 1) == 4 else values),
    ("another matrix at the second call", "same_seed_equal",
     lambda values, _, calls: np.nextafter(values, 1) if calls == 4 else values),
    ("the same matrix for every seed", "alternate_seed_different",
     lambda values, initializer, _: values * 0 + getattr(initializer, "scale", 0) ** 0.5 / 8),
]  # fmt: skip


@pytest.mark.parametrize(("check", "change"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_product_does_not_hold(monkeypatch, check, change):
    monkeypatch.setattr(populations, "initialize", changed(change))
    found = measure_populations()
    checks = ("base_draws_equal", "same_seed_equal", "alternate_seed_different")
    assert [name for name in checks if not getattr(found, name)] == [check]
    assert not found.passed


def test_a_seed_compared_with_itself_does_not_hold():
    found = measure_populations(17, 17)
    assert not found.alternate_seed_different
    assert not found.passed


def test_a_wrong_limit_ratio_does_not_hold():
    assert not dataclasses.replace(measure_populations(), limit_ratio=1.9).passed


def test_facts_are_json_with_every_digit():
    found = measure_populations()
    facts = json.loads(json.dumps(found.facts()))
    assert (facts["seed"], facts["holds"], facts["edges"]) == (17, True, list(EDGES))
    for stated, p in zip(facts["members"], found.members, strict=True):
        assert (stated["variance"], stated["mean"], stated["counts"]) == (p.variance, p.mean, list(p.counts))
        assert stated["percentages"] == list(p.percentages)


def test_tables_hold_the_numbers_and_say_which_are_expected_only():
    found = measure_populations()
    zero, oversized, xavier = found.members
    spread, bins, expected = found.tables()
    assert spread.caption.startswith("Measured: ")
    assert bins.caption.startswith("Measured: ")
    assert expected.caption.startswith("Expected, not measured: ")
    assert spread.rows[2][:4] == ("xavier", xavier.limit, xavier.min, xavier.max)
    assert spread.rows[2][4:6] == (xavier.mean, xavier.variance)
    assert [row[-1] for row in spread.rows] == pytest.approx([0, 1 / 16, 1 / 64], rel=1e-15)
    assert bins.rows[2] == ("-0.25 to -0.15", 0, 0.0, 482, 100 * 482 / 4096, 674, 100 * 674 / 4096)
    assert expected.rows[1] == ("oversized", *oversized.expected_variances)
    assert "\n".join(bins.lines()).count("4,096") == zero.counts.count(4096)
    assert found._repr_html_().count("<table>") == 3
