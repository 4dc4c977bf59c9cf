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
    mean_and_variance,
    measure_populations,
)


@pytest.mark.parametrize("seed", [17, 0, 2**64 - 1])
def test_the_measured_numbers_are_those_of_exact_arithmetic(seed):
    found = measure_populations(seed)
    assert found.passed
    assert [p.kind for p in found.members] == ["zero", "oversized", "xavier"]
    for p, (kind, weights) in zip(found.members, reference_weights(seed).items(), strict=True):
        mean, variance, counts = exact(weights)
        assert (p.kind, p.counts) == (kind, counts)
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
    """Steps of 0.1 from -0.5 miss five of them, zero included."""
    assert EDGES == (-0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def test_a_bin_holds_its_left_edge_and_the_last_one_both():
    assert histogram(np.array(EDGES)) == (1, 1, 1, 1, 1, 1, 1, 1, 1, 2)
    assert histogram(np.nextafter(EDGES[1:], -1)) == (1,) * 10
    assert histogram(np.nextafter(EDGES[:-1], 1)) == (1,) * 10
    assert histogram(np.array([-0.0])) == (0, 0, 0, 0, 0, 1, 0, 0, 0, 0)


@pytest.mark.parametrize("outside", [np.nextafter(0.5, 1), np.nextafter(-0.5, -1), 7.0, np.inf, -np.inf, np.nan])
def test_what_no_bin_holds_is_refused_not_dropped(outside):
    with pytest.raises(ValueError, match=r"1 of 3 values are in no bin; the bins go from -0\.5 to 0\.5"):
        histogram(np.array([0.0, outside, 0.1]))


def test_variance_survives_a_large_mean_and_divides_by_n():
    """The one-pass formula loses all digits here; dividing by n - 1 gives 1.25 * 4/3."""
    values = 1e9 + np.array([0.0, 1.0, 2.0, 3.0])
    assert mean_and_variance(values) == (1e9 + 1.5, 1.25)


def test_a_mean_is_summed_exactly():
    assert mean_and_variance(np.array([2.0**100, 1.0, 1.0, -(2.0**100)]))[0] == 0.5


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
    assert spread.rows[2][:4] == ("xavier", xavier.limit, xavier.mean, xavier.variance)
    assert [row[-1] for row in spread.rows] == pytest.approx([0, 1 / 16, 1 / 64], rel=1e-15)
    assert bins.rows[2] == ("-0.3 to -0.2", 0, 0.0, 483, 100 * 483 / 4096, 152, 100 * 152 / 4096)
    assert expected.rows[1] == ("oversized", *oversized.expected_variances)
    assert "\n".join(bins.lines()).count("4,096") == zero.counts.count(4096)
    assert found._repr_html_().count("<table>") == 3
