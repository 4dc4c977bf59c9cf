"""Training from different starts: a difference in the report must come from the start alone."""

import json

import numpy as np
import pytest
import safetensors.numpy

from fastinit import NamedParameter, NamedParameters, Tensor, initialize, initializers, stream_for
from fastinit.cli import main as cli
from fastinit.errors import CheckpointError
from fastinit.lessons import network, training
from fastinit.lessons.digits import Digits, load_digits
from fastinit.lessons.network import measure, read_parameters
from fastinit.lessons.training import STARTS, compare_starts, train_digits
from fastinit.views import figure as figures

SIZES = (784, 10, 10)


@pytest.fixture(scope="module")
def few():
    """150 images to train with, and 50 held out: two batches and a short one."""
    digits = load_digits()
    return Digits(
        "a few digits",
        digits.images[:150],
        digits.labels[:150],
        digits.held_out_images[:50],
        digits.held_out_labels[:50],
    )


@pytest.fixture(scope="module")
def compared(few):
    return compare_starts(few, seeds=2, epochs=2)


def start_of(comparison, name):
    (found,) = [start for start in comparison.starts if start.name == name]
    return found


def trained(digits, initializer, seed=0, epochs=1, optimizer="sgd"):
    parameters = network.initial(SIZES, initializer, seed)
    run = network.epochs_of(
        parameters, digits.images, digits.labels, training.OPTIMIZERS[optimizer](parameters), seed
    )
    for _ in range(epochs):
        next(run)
    return parameters


def plain(digits, weight, out_weight, seed, epochs, rate=0.03):
    """The same training written out in numpy."""
    bias, out_bias = np.zeros(weight.shape[1]), np.zeros(10)
    rng = stream_for(seed, "order")
    for _ in range(epochs):
        order = np.argsort(rng.random(len(digits.labels)))
        for first in range(0, len(order), 64):
            batch = order[first : first + 64]
            images = digits.images[batch]
            hidden = np.maximum(images @ weight + bias, 0)
            logits = hidden @ out_weight + out_bias
            errors = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
            errors[np.arange(len(batch)), digits.labels[batch]] -= 1
            errors /= len(batch)
            below = errors @ out_weight.T * (hidden > 0)
            out_weight = out_weight - rate * hidden.T @ errors
            out_bias = out_bias - rate * errors.sum(axis=0)
            weight = weight - rate * images.T @ below
            bias = bias - rate * below.sum(axis=0)
    return weight, bias, out_weight, out_bias


@pytest.mark.parametrize("name", ["Xavier normal", "uniform(-0.5, 0.5)"])
def test_training_is_gradient_descent_from_the_named_streams(few, name):
    """A batch left out, a stale gradient or another stream would still train."""
    start = [
        initialize(shape, stream_for(3, f"layer.{layer}.weight"), STARTS[name])
        for layer, shape in enumerate(((784, 10), (10, 10)))
    ]
    expected = plain(few, *start, seed=3, epochs=2)
    for found, values in zip(trained(few, STARTS[name], 3, 2), expected, strict=True):
        np.testing.assert_allclose(found.tensor.value.values, values, rtol=0, atol=1e-13)


def test_the_starts_are_the_named_distributions():
    """Standard deviations from the formulas, of 7,840 weights: the standard error is 0.8 %."""
    expected = {
        "zero": 0.0,
        "constant 0.05": 0.0,
        "uniform(-0.5, 0.5)": 12**-0.5,
        "N(0, 1)": 1.0,
        "N(0, variance 1e-5)": 1e-5**0.5,
        "Xavier normal": (2 / 794) ** 0.5,
        "He normal": (2 / 784) ** 0.5,
        "orthogonal": 784**-0.5,
    }
    assert list(STARTS) == list(expected)
    for name, spread in expected.items():
        weight, bias, out_weight, out_bias = network.initial(SIZES, STARTS[name], 5)
        assert weight.tensor.value.values.std() == pytest.approx(spread, rel=0.03)
        assert weight.tensor.value.values.mean() == pytest.approx(0.05 * (name == "constant 0.05"), abs=0.04)
        assert not bias.tensor.value.values.any()
        assert not out_bias.tensor.value.values.any()
        assert out_weight.tensor.shape == (10, 10)


@pytest.mark.parametrize("optimizer", training.OPTIMIZERS)
def test_from_zero_behind_relu_no_bit_of_a_weight_moves(few, optimizer):
    weight, bias, out_weight, out_bias = trained(few, STARTS["zero"], epochs=3, optimizer=optimizer)
    for parameter in (weight, bias, out_weight):
        assert not parameter.tensor.value.values.view(np.uint64).any()
    assert out_bias.tensor.value.values.all()


def test_the_zero_start_is_reported_as_it_is(compared):
    zero = start_of(compared, "zero")
    assert zero.moved == ("layer.1.bias",)
    for run in zero.states:
        assert [(state.dead, state.rank, state.cosine) for state in run] == [(1.0, 0, None)] * 3
        assert run[0].loss == pytest.approx(np.log(10), abs=1e-12)


def test_equal_weights_train_as_one_unit(few, compared):
    """Ten units of 0.05 equal one unit whose output counts ten times; each keeps the gradient of one."""
    weight, bias = np.full((784, 1), 0.05), np.zeros(1)
    out_weight, out_bias = np.full((1, 10), 0.05), np.zeros(10)
    order = np.argsort(stream_for(0, "order").random(150))
    for first in range(0, 150, 64):
        batch = order[first : first + 64]
        images = few.images[batch]
        hidden = np.maximum(images @ weight + bias, 0)
        logits = 10 * hidden @ out_weight + out_bias
        errors = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        errors[np.arange(len(batch)), few.labels[batch]] -= 1
        errors /= len(batch)
        below = errors @ out_weight.T * (hidden > 0)
        out_weight = out_weight - 0.03 * hidden.T @ errors
        out_bias = out_bias - 0.03 * errors.sum(axis=0)
        weight = weight - 0.03 * images.T @ below
        bias = bias - 0.03 * below.sum(axis=0)
    found = [parameter.tensor.value.values for parameter in trained(few, STARTS["constant 0.05"])]
    np.testing.assert_allclose(found[0], np.repeat(weight, 10, axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[2], np.repeat(out_weight, 10, axis=0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[3], out_bias, rtol=0, atol=1e-12)
    for run in start_of(compared, "constant 0.05").states:
        assert {state.rank for state in run} == {1}
        assert min(state.cosine for state in run) == pytest.approx(1.0, abs=1e-12)


def made_by_hand(weight, bias, out_weight):
    values = {
        "layer.0.weight": weight,
        "layer.0.bias": bias,
        "layer.1.weight": out_weight,
        "layer.1.bias": np.zeros(10),
    }
    return NamedParameters(NamedParameter.from_tensor(name, Tensor(array)) for name, array in values.items())


def test_dead_units_rank_cosine_and_accuracy_of_a_network_made_by_hand():
    """Unit 0 is dead, unit 1 silent for one image, unit 2 a copy of it, unit 3 its mirror image with a bias."""
    images = np.array([[1.0, 0.0], [0.0, 1.0]])
    weight = np.array([[-1.0, 1.0, 1.0, -1.0], [-1.0, -1.0, -1.0, 1.0]])
    parameters = made_by_hand(weight, np.array([0.0, 0.0, 0.0, 9.0]), np.eye(4, 10))
    state = measure(parameters, Digits("by hand", images, np.array([3, 3]), images, np.array([3, 0])))
    assert (state.dead, state.rank, state.accuracy) == (0.25, 3, 0.5)
    assert state.cosine == pytest.approx(1.0)
    logits = np.array([[0, 1, 1, 8.0, *[0] * 6], [0, 0, 0, 10.0, *[0] * 6]])
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[:, 3]
    assert state.loss == pytest.approx(losses.mean(), rel=1e-12)


def test_a_cosine_needs_two_weights_that_are_not_zero():
    assert network.largest_cosine(np.zeros((3, 4))) is None
    assert network.largest_cosine(np.array([[1.0, 0.0], [2.0, 0.0]])) is None
    assert network.largest_cosine(np.array([[1.0, -3.0], [0.0, 4.0]])) == pytest.approx(0.6)


def test_a_run_of_the_comparison_is_that_run_alone(few, compared):
    """No run may depend on the seeds or starts before it."""
    alone = measure(trained(few, STARTS["He normal"], seed=1, epochs=2), few)
    assert start_of(compared, "He normal").states[1][2] == alone
    assert compared.starts == compare_starts(few, seeds=2, epochs=2).starts


def test_the_callers_images_stay_writable(few):
    images = few.images.copy()
    network.forward(network.initial(SIZES, STARTS["zero"], 0), images)
    assert images.flags.writeable


def test_every_seed_of_the_pretrained_start_begins_with_the_same_weights(compared):
    pretrained = start_of(compared, "pretrained")
    before = [run[0] for run in pretrained.states]
    assert before[0] == before[1]
    assert pretrained.states[0][2] != pretrained.states[1][2]
    assert before[0].loss < min(start.curve("loss")[:, 0].min() for start in compared.starts[:-1])


def test_the_earlier_run_saw_the_first_half_of_the_images(few, compared):
    half = Digits(few.source, few.images[:75], few.labels[:75], few.held_out_images, few.held_out_labels)
    earlier = trained(half, STARTS["He normal"], seed=17, epochs=2)
    assert start_of(compared, "pretrained").states[0][0] == measure(earlier, few)


def test_the_table_has_means_and_ranges_over_the_seeds(compared):
    zero, he = {}, {}
    for table in compared.tables():
        assert [row[0] for row in table.rows] == [*STARTS, "pretrained"]
        zero |= zip(table.columns, table.rows[0], strict=True)
        he |= zip(table.columns, table.rows[6], strict=True)
    runs = start_of(compared, "He normal").states
    last = [run[-1] for run in runs]
    assert he["loss before"] == pytest.approx((runs[0][0].loss + runs[1][0].loss) / 2)
    assert he["loss after"] == pytest.approx((last[0].loss + last[1].loss) / 2)
    accuracies = sorted(state.accuracy for state in last)
    assert (he["lowest"], he["highest"]) == tuple(accuracies)
    assert he["accuracy"] == pytest.approx(sum(accuracies) / 2)
    assert he["cosine"] == pytest.approx((runs[0][0].cosine + runs[1][0].cosine) / 2)
    assert he["cosine after"] == pytest.approx((last[0].cosine + last[1].cosine) / 2)
    assert (he["units"], he["moved"]) == (10, "all")
    assert (zero["cosine"], zero["cosine after"], zero["moved"]) == (None, None, "layer.1.bias")
    assert (zero["dead"], zero["dead after"], zero["units after"]) == (1, 1, 0)


def test_facts_are_json_and_complete(compared):
    facts = json.loads(json.dumps(compared.facts(), allow_nan=False))
    assert list(facts["starts"]) == [*STARTS, "pretrained"]
    for found in facts["starts"].values():
        assert np.shape(found["loss"]) == np.shape(found["accuracy"]) == (2, 3)
    assert facts["starts"]["zero"]["cosine"] == [[None] * 3] * 2


def test_the_figure_has_the_difference_of_every_seed(compared):
    """Nine overlapping bands hid that seeds differ more than the good starts do."""
    drawing = compared.figure()
    differences, dead, cosines, losses = drawing.axes
    accuracy = {start.name: start.curve("accuracy")[:, -1] for start in compared.starts}
    rows = [line for line in differences.lines if line.get_linestyle() == "None"]
    for place, (row, (name, reached)) in enumerate(zip(rows, accuracy.items(), strict=True)):
        np.testing.assert_allclose(row.get_xdata(), 100 * (reached - accuracy["He normal"]), err_msg=name)
        assert set(row.get_ydata()) == {place}
    assert [text.get_text() for text in differences.get_yticklabels()] == [*STARTS, "pretrained"]
    for axes, quantity in ((dead, "dead"), (cosines, "cosine")):
        for line, start in zip(axes.lines[::3], compared.starts, strict=True):
            np.testing.assert_allclose(line.get_xdata(), start.curve(quantity)[:, [0, -1]].mean(axis=0))
    for line, start in zip(losses.lines, compared.starts, strict=True):
        np.testing.assert_allclose(line.get_ydata(), start.curve("loss").mean(axis=0))
    assert {text.get_text() for text in losses.texts} == {*STARTS, "pretrained"}


def test_the_figure_says_which_starts_are_worse_whatever_the_seed(compared):
    drawing = compared.figure()
    title = drawing.get_suptitle().replace("\n", " ")
    accuracy = {start.name: start.curve("accuracy")[:, -1] for start in compared.starts}
    worse = [name for name, reached in accuracy.items() if (reached < accuracy["He normal"]).all()]
    assert "zero" in worse
    assert f"Always worse: {', '.join(worse)}." in title
    rows = [line for line in drawing.axes[0].lines if line.get_linestyle() == "None"]
    assert [name for name, row in zip(accuracy, rows, strict=True) if row.get_color() == figures.MUTED] == worse


def test_the_page_has_the_figure_and_the_table(compared):
    text = compared.page()
    assert "<svg" in text
    assert all(table.html() in text for table in compared.tables())
    assert "Measured" in text


# ---- pretrained files --------------------------------------------------------------------------------


def stored(tmp_path, **changes):
    """A file of Xavier weights, in float32, with some tensors changed or (None) left out."""
    tensors = {
        parameter.name: parameter.tensor.value.values.astype(np.float32)
        for parameter in network.initial(SIZES, STARTS["Xavier normal"], 9)
    }
    tensors |= changes
    path = tmp_path / "weights.safetensors"
    safetensors.numpy.save_file({name: array for name, array in tensors.items() if array is not None}, path)
    return path


def test_weights_are_read_from_a_file(tmp_path, few):
    path = stored(tmp_path, **{"another.tensor": np.zeros(3)})
    expected = safetensors.numpy.load_file(path)
    parameters = read_parameters(path, SIZES)
    for parameter in parameters:
        assert np.array_equal(parameter.tensor.value.values, expected[parameter.name])
    comparison = compare_starts(few, seeds=1, epochs=1, pretrained=path)
    assert start_of(comparison, "pretrained").states[0][0] == measure(parameters, few)


def test_narrow_weights_are_read_by_value_not_by_bits(tmp_path):
    narrow = initialize((784, 10), 4, initializers.xavier("normal"), dtype="bfloat16")
    path = stored(tmp_path, **{"layer.0.weight": narrow})
    assert np.array_equal(read_parameters(path, SIZES)[0].tensor.value.values, narrow.astype(np.float64))


REFUSED = [
    ("transposed", {"layer.0.weight": np.zeros((10, 784), np.float32)}, r"\[784, 10\].*\[10, 784\].*transpose"),
    ("absent", {"layer.1.bias": None}, "layer.1.bias.*is not there"),
    ("integers", {"layer.0.bias": np.zeros(10, np.int32)}, "layer.0.bias.*int32"),
]


@pytest.mark.parametrize(("changes", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_weights_that_do_not_fit_are_refused_by_name(tmp_path, changes, said):
    with pytest.raises(ValueError, match=said):
        read_parameters(stored(tmp_path, **changes), SIZES)


def test_weights_that_are_not_finite_or_no_checkpoint_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"layer\.0\.bias.*nan"):
        read_parameters(stored(tmp_path, **{"layer.0.bias": np.full(10, np.nan)}), SIZES)
    path = tmp_path / "weights.npz"
    np.savez(path, weights=np.zeros(3))
    with pytest.raises(CheckpointError, match=r"weights\.npz"):
        read_parameters(path, SIZES)
    with pytest.raises(ValueError, match="Is a directory"):
        read_parameters(tmp_path, SIZES)


@pytest.mark.parametrize("wrong", [{"seeds": 0}, {"epochs": 0}, {"optimizer": "adma"}])
def test_a_request_for_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match=r"at least 1, got 0|did you mean 'adam'"):
        compare_starts(**wrong)


# ---- the digits run, and the commands ----------------------------------------------------------------


@pytest.fixture(scope="module")
def digits_run():
    return train_digits(17)


@pytest.mark.parametrize("seed", [0, 17, 2**64 - 1])
def test_the_digits_are_read_at_95_percent_within_10_seconds(seed, digits_run):
    run = digits_run if seed == 17 else train_digits(seed)
    assert run.sizes == (64, 32, 10)
    assert run.states[-1].accuracy >= 0.95
    assert run.seconds < 10
    assert run.passed


def test_the_digits_commands_status_is_whether_the_goal_was_reached(capsys, monkeypatch, tmp_path, digits_run):
    monkeypatch.setattr(training, "train_digits", lambda seed, progress: {17: digits_run}[seed])
    assert (
        cli.main(["digits", "--json", "--figure", str(tmp_path / "d.png"), "--html", str(tmp_path / "d.html")])
        == 0
    )
    facts = json.loads(capsys.readouterr().out)
    assert facts["reached"] is True
    assert len(facts["loss"]) == len(facts["accuracy"]) == 31
    assert (tmp_path / "d.png").stat().st_size > 1000
    assert "<svg" in (tmp_path / "d.html").read_text()
    monkeypatch.setattr(training, "GOAL", 0.999)
    assert cli.main(["digits"]) == 1
    assert "missed" in capsys.readouterr().out


def test_train_hands_its_options_on(capsys, tmp_path, few):
    images, labels = tmp_path / "images", tmp_path / "labels"
    pixels = np.rint(few.images[:40] * 255).astype(np.uint8)
    images.write_bytes(bytes((0, 0, 8, 3, 0, 0, 0, 40, 0, 0, 0, 28, 0, 0, 0, 28)) + pixels.tobytes())
    labels.write_bytes(bytes((0, 0, 8, 1, 0, 0, 0, 40)) + few.labels[:40].astype(np.uint8).tobytes())
    words = [
        "train",
        "--seeds",
        "1",
        "--epochs",
        "1",
        "--optimizer",
        "adam",
        "--pretrained",
        str(stored(tmp_path)),
    ]
    files = ["--images", str(images), "--labels", str(labels)]
    held_out = ["--test-images", str(images), "--test-labels", str(labels)]
    assert cli.main([*words, *files, *held_out, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["optimizer"], facts["seeds"], facts["epochs"]) == ("adam", 1, 1)
    assert facts["source"] == str(images)
    assert cli.main([*words, *files]) == 0
    assert capsys.readouterr().out.startswith(f"a 784-10-10 ReLU network on {images}: adam, epochs 1, seeds 1")
    assert cli.main([*words, *files[:2]]) == 2
    assert "both --images FILE and --labels FILE" in capsys.readouterr().err
    assert cli.main([*words, *files, *held_out[:2]]) == 2
    assert "together" in capsys.readouterr().err
