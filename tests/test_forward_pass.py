"""The first forward pass of one image: a figure shown step by step must be the step's."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from fastinit import initialize, stream_for
from fastinit.initializers import Normal, xavier
from fastinit.lessons import first_pass, load_digits


@pytest.fixture(scope="module")
def digits():
    return load_digits()


@pytest.fixture(scope="module")
def found(digits):
    return first_pass(digits)


def test_every_step_is_that_of_plain_numpy(digits, found):
    image = digits.images[found.image]
    assert digits.labels[found.image] == 7 == found.label
    assert 7 not in digits.labels[: found.image]
    assert found.energy == pytest.approx(math.fsum(value * value for value in image))
    starts = (xavier("normal"), Normal(), Normal(std=math.sqrt(1e-5)))
    for shown, start in zip(found.passes, starts, strict=True):
        first, second = (
            initialize(shape, stream_for(17, f"layer.{layer}.weight"), start)
            for layer, shape in enumerate(((784, 10), (10, 10)))
        )
        before = [math.fsum(image[pixel] * first[pixel, unit] for pixel in range(784)) for unit in range(10)]
        after = [max(value, 0.0) for value in before]
        logits = [math.fsum(after[unit] * second[unit, digit] for unit in range(10)) for digit in range(10)]
        masses = [math.exp(logit - max(logits)) for logit in logits]
        probabilities = [mass / math.fsum(masses) for mass in masses]
        for measured, exact in (
            (shown.before, before),
            (shown.after, after),
            (shown.logits, logits),
            (shown.probabilities, probabilities),
        ):
            assert measured == pytest.approx(exact, rel=1e-9, abs=1e-12)
        assert shown.cut == sum(value <= 0 for value in before)
        assert shown.loss == pytest.approx(-math.log(probabilities[7]), rel=1e-9)
        moment = np.square(digits.images @ first).mean() / np.square(digits.images).mean()
        assert shown.factor == pytest.approx(moment, rel=1e-9)


def test_weights_of_variance_1_multiply_by_784_and_lose_more_than_even_guesses(found):
    """The scale alone differs: the same units are cut, and the same digit is preferred."""
    good, unit, small = found.passes
    assert (good.expected_factor, unit.expected_factor) == pytest.approx((784 * 2 / 794, 784))
    assert unit.factor == pytest.approx(784, rel=0.2)
    assert unit.mean_loss > 10 * math.log(10) > 10 * small.mean_loss / 1.001
    assert {each.cut for each in found.passes} == {good.cut}
    assert small.mean_loss == pytest.approx(math.log(10), rel=1e-3)


def test_the_pass_as_text_and_as_json(found):
    steps, starts = found.tables()
    assert len(steps.rows) == 10
    assert starts.rows[1][-1] == 784.0
    text = "\n".join(found.lines())
    assert "image 6, a 7, from Xavier normal, seed 17" in text
    assert json.loads(json.dumps(found.facts()))["label"] == 7


def test_data_without_a_seven_is_refused(digits):
    few = digits.labels != 7
    with pytest.raises(ValueError, match="no training image is a 7"):
        first_pass(replace(digits, images=digits.images[few], labels=digits.labels[few]))
