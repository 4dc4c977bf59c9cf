"""Said and measured: a verdict must follow from figures that an independent computation gives too."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fastinit import fans, initialize, initializers, stream_for
from fastinit.cli import main as cli
from fastinit.initializers import ZEROS, Normal
from fastinit.lessons import claims as module
from fastinit.lessons.claims import check_claims, fan_tables
from fastinit.lessons.digits import load_digits
from fastinit.propagation import lesson
from fastinit.propagation.result import Propagation
from fastinit.propagation.signal import Profile, Signal
from fastinit.propagation.stack import Stack


@pytest.fixture(scope="module")
def digits():
    return load_digits()


@pytest.fixture(scope="module")
def found(digits):
    return check_claims(digits)


def about(found, words):
    (claim,) = [claim for claim in found.claims if words in claim.said]
    return claim


VERDICTS = {
    "[0, 1] have variance 1": False,
    "output variance of 784": True,
    "saturate the ReLU": False,
    "gradients are zero": False,
    "1 effective one": True,
    "fail because of symmetry": False,
    "can never learn": False,
    "7,940 in all": True,
    "within 0.1": True,
    "0.512^10": False,
    "halves the signal": False,
    "about 1.0 at layer 50": False,
}


def test_the_verdicts(found):
    assert {words: about(found, words).holds for words in VERDICTS} == VERDICTS
    assert len(found.claims) == len(VERDICTS)


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_the_verdicts_do_not_hang_on_the_seed(digits, seed):
    assert [claim.holds for claim in check_claims(digits, seed).claims] == list(VERDICTS.values())


def start(seed, initializer, pixels=784):
    return [
        initialize(shape, stream_for(seed, f"layer.{layer}.weight"), initializer)
        for layer, shape in enumerate(((pixels, 10), (10, 10)))
    ]


def first_gradient(digits, weight, out_weight):
    hidden = np.maximum(digits.images @ weight, 0)
    logits = hidden @ out_weight
    logits -= logits.max(axis=1, keepdims=True)
    errors = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    errors[np.arange(len(errors)), digits.labels] -= 1
    return digits.images.T @ (errors @ out_weight.T * (hidden > 0)) / len(errors)


def test_the_pixels_moments_are_the_pixels(digits, found):
    mean = math.fsum(digits.images.ravel()) / digits.images.size
    second = math.fsum((digits.images**2).ravel()) / digits.images.size
    expected = f"mean {mean:.4f}, variance {second - mean**2:.4f}, second moment {second:.4f}"
    assert about(found, "[0, 1] have variance 1").measured == expected


def test_the_first_pass_figures_are_those_of_plain_numpy(digits, found):
    large, small, xavier = (
        start(17, initializer) for initializer in (Normal(), Normal(std=1e-5**0.5), initializers.xavier("normal"))
    )
    gradients = [f"{np.sqrt((first_gradient(digits, *w) ** 2).mean()):.3g}" for w in (large, small, xavier)]
    above = [f"{np.mean(digits.images @ weights[0] > 0):.1%}" for weights in (large, small, xavier)]
    measured = about(found, "saturate the ReLU").measured
    for text in (above[0], gradients[0], above[2], gradients[2]):
        assert text in measured
    zeros = f"{np.mean(digits.images @ small[0] <= 0):.1%}"
    assert (
        f"zeros: {zeros} at variance 1e-5, {zeros} at variance 1;" in about(found, "gradients are zero").measured
    )
    assert gradients[1] in about(found, "gradients are zero").measured


def zero_weight(digits, seed):
    """The brightest pixel, the first unit that it can teach, and the gradient of the weight between them at 0."""
    pixel = max(range(digits.pixels), key=lambda place: math.fsum(digits.images[:, place]))
    for unit in range(10):
        weight, out_weight = start(seed, initializers.kaiming("normal"), digits.pixels)
        weight[pixel, unit] = 0.0
        if any(image[pixel] > 0 and image @ weight[:, unit] > 0 for image in digits.images):
            return pixel, unit, first_gradient(digits, weight, out_weight)[pixel, unit]
    raise AssertionError


def test_depth_is_measured_once(found):
    """`fastinit propagate --lesson` shows the same networks: two figures for one statement would leave it open."""
    rows = {claim: measured for claim, measured, _ in lesson(seeds=1).claims.rows}
    sigmoid = rows["Xavier + sigmoid is at about 1.0 at layer 50"].split(",")[0]
    assert about(found, "about 1.0 at layer 50").measured.startswith(
        f"{sigmoid} at layer 50; inputs can no longer"
    )
    square = rows["with Xavier before relu the signal falls to 0.5**50 = 8.8e-16"].rpartition("square ")[2]
    assert f"square {square} of" in about(found, "halves the signal").measured
    left = float(rows["linear, Var(w) = 0.001: 0.512**10 = 0.00013"].rpartition(" ")[2])
    assert float(about(found, "0.512^10").measured.split()[0]) == pytest.approx(left, abs=1e-5)


@pytest.mark.parametrize(("seed", "unit"), [(17, 0), (29, 0), (3, 1)])
def test_the_zero_weights_gradient_is_that_of_a_live_unit_and_a_lit_pixel(digits, seed, unit):
    """At seed 3 unit 0 is off, at seed 29 unit 5: a gradient of 0 there says nothing of the weight's start."""
    pixel, live, gradient = zero_weight(digits, seed)
    assert (live, gradient != 0) == (unit, True)
    claim = module._one_zero_weight(digits, seed)
    change = f"gradient {gradient:.3g}, weight {-0.03 * gradient:.3g} after one step"
    assert claim.measured == f"pixel {pixel} of 784 to unit {unit}: {change}"
    assert not claim.holds


def test_the_zero_weight_is_named_in_images_of_any_size(digits):
    """Blank borders, and images that are no squares: the pixel is one that is lit, by its row-major place."""
    wide = replace(digits, images=np.hstack([np.zeros((len(digits.images), 100)), digits.images]))
    pixel, unit, gradient = zero_weight(wide, 17)
    measured = module._one_zero_weight(wide, 17).measured
    assert measured.startswith(f"pixel {pixel} of 884 to unit {unit}: gradient {gradient:.3g}, ")
    with pytest.raises(ValueError, match="seed 17: no hidden unit is on"):
        module._one_zero_weight(replace(digits, images=np.zeros((5, 784)), labels=digits.labels[:5]), 17)


def signals(activations, gradients=(1.0,)):
    """A `lesson_run` that measures these sizes, layer by layer, whatever it is asked for."""
    nothing = [0.0] * len(activations)
    run = Propagation(
        Stack("relu", ZEROS, len(activations) - 1, 512),
        seeds=1,
        seed=17,
        mean_magnitude=Profile(activations, activations, activations, None),
        activations=Signal(activations, activations, activations, None, 0),
        spread=Signal(activations, activations, activations, None, 0),
        correlation=Profile(nothing, nothing, nothing, None),
        gradients=Signal(gradients, gradients, gradients, None, len(gradients) - 1),
        distinct_units=512,
    )
    return lambda *_, **__: run


# What is changed; the one verdict that must turn: a verdict that no figure can turn is an opinion.
TURNED = [
    ("standardized pixels", "digits", lambda digits: (digits.images - digits.images.mean()) / digits.images.std(),
     "[0, 1] have variance 1"),
    ("weights of variance 1/4", "initialize", lambda shape, rng, _: initialize(shape, 17, Normal(std=0.5)),
     "output variance of 784"),
    ("nine hidden units", "HIDDEN", 9, "7,940 in all"),
    ("a variance that shrinks as is said", "lesson_run", signals([0.00013 ** (layer / 20) for layer in range(51)]),
     "0.512^10"),
    ("an activation that halves", "lesson_run", signals([0.5**layer for layer in range(51)]), "halves the signal"),
    ("a sigmoid at 1", "lesson_run", signals([1.0] * 51, [0.5, 1.0]), "about 1.0 at layer 50"),
    ("a saturating layer", "_first_pass", lambda _, __, name: module._First(0.95, 0.05, 0.1 * (name[0] == "X")),
     "saturate the ReLU"),
    ("a silent layer", "_first_pass", lambda *_: module._First(0.05, 0.95, 0.0), "gradients are zero"),
    ("units that part", "_apart", lambda _: 0.1, "1 effective one"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "words"), [row[1:] for row in TURNED], ids=[row[0] for row in TURNED])
def test_other_figures_turn_the_verdict(digits, monkeypatch, name, change, words):
    if name == "digits":
        digits = replace(digits, images=change(digits))
    else:
        monkeypatch.setattr(module, name, change)
    assert about(check_claims(digits), words).holds is not VERDICTS[words]


def test_a_gradient_of_zero_turns_the_verdict_on_zero_weights(digits, monkeypatch):
    monkeypatch.setattr(module, "_gradient", lambda parameter: np.zeros(parameter.tensor.shape))
    assert module._one_zero_weight(digits, 17).holds


def test_smaller_weights_turn_the_verdict_on_their_spread(monkeypatch):
    monkeypatch.setattr(module, "initialize", lambda shape, rng, _: initialize(shape, rng, Normal(std=0.05)))
    assert not module._within(17).holds


def test_the_spread_is_judged_by_more_than_one_network_of_luck():
    """At seed 356 the network itself has no weight beyond 0.6, as one in 400 has."""
    networks = [start(seed, initializers.xavier("normal")) for seed in range(356, 366)]
    assert np.abs(networks[0][1]).max() < 0.6
    claim = module._within(356)
    inside = np.mean([np.abs(first) < 0.1 for first, _ in networks])
    beyond = np.mean([np.abs(second) > 0.6 for _, second in networks])
    assert claim.measured.startswith(f"{inside:.1%} and {beyond:.1%}, of 10 networks")
    assert claim.holds


def test_zeros_that_move_symmetrically_would_fail_by_symmetry(digits, monkeypatch):
    original = module._trained
    monkeypatch.setattr(module, "_trained", lambda *given: original(*given[:3], "sigmoid"))
    assert about(check_claims(digits), "fail because of symmetry").holds


def test_equal_units_part_by_rounding_at_most(digits):
    for initializer, activation in ((ZEROS, "sigmoid"), (initializers.Constant(0.05), "relu")):
        assert module._apart(module._trained(digits, 17, initializer, activation)) < 1e-13


def test_the_fans_and_scales_are_the_published_figures():
    """Glorot and Bengio, eq. 12; He et al., eq. 10; figures to four digits, worked out by hand."""
    network, kernel = fan_tables()
    first, second = (dict(zip(network.columns, row, strict=True)) for row in network.rows)
    assert (first["weights"], first["fan_in"], first["fan_out"]) == (7840, 784, 10)
    assert (second["weights"], second["fan_in"], second["fan_out"]) == (100, 10, 10)
    assert [round(row["Xavier sd"], 4) for row in (first, second)] == [0.0502, 0.3162]
    assert [round(row["He sd"], 4) for row in (first, second)] == [0.0505, 0.4472]
    assert [round(row["Xavier variance"], 6) for row in (first, second)] == [0.002519, 0.1]
    assert [row[1:3] for row in kernel.rows] == [(9, 288), (9, 32)]
    assert [round(row[4], 4) for row in kernel.rows] == [0.0821, 0.2209]
    assert fans((32, 1, 3, 3), "oihw") == (9, 288)


def test_the_command_prints_every_statement_and_writes_the_page(capsys, monkeypatch, tmp_path, found):
    monkeypatch.setattr(module, "check_claims", lambda digits, seed, progress: replace(found, seed=seed))
    path = tmp_path / "claims.html"
    assert cli.main(["claims", "--seed", "5", "--html", str(path)]) == 0
    out = capsys.readouterr().out
    for claim in found.claims:
        assert f"said:     {claim.said}\nmeasured: {claim.measured}\n" in out
    assert path.read_text() == replace(found, seed=5).page()
    assert cli.main(["claims", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["seed"], len(facts["claims"]), len(facts["fans"])) == (17, 12, 4)
    assert facts["claims"][0]["holds"] is False
