"""Which models a block knows, and what each is called: numbers must not depend on bystanders or on the collector.

The dangers: a model that gets other weights because something stood beside it or was not collected yet, and draws
into a model that existed before, which have the numbers of calls for names in silence.
"""

import copy
import gc

import pytest
from conftest import peer

import fastinit
from fastinit.errors import PlanError

torch = peer("torch")

import fastinit.torch as ft  # noqa: E402

nn, init = torch.nn, torch.nn.init


def named(model, seed=17, prefix=""):
    """Check that each drawn weight of linear layers is that of its own name."""
    for name, weight in model.named_parameters():
        bound = weight.shape[-1] ** -0.5
        stream = fastinit.stream_for(seed, prefix + name)
        if weight.dim() == 2:
            expected = fastinit.uniform(tuple(weight.shape), stream, low=-bound, high=bound, dtype="float32")
            assert abs(weight.detach().numpy() - expected).max() < 1e-6, name


class Cyclic(nn.Module):
    """Lies in memory until a collection of garbage, once nobody holds it."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.__dict__["itself"] = self


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = Cyclic().a, nn.Linear(8, 2)


@pytest.mark.parametrize("is_collected", [False, True])
def test_garbage_is_no_model(is_collected):
    def build():
        dropped = Cyclic()
        del dropped
        model = Net()
        if is_collected:
            gc.collect()
        return model

    gc.disable()
    try:
        with ft.fast_init(17) as recording:
            model = build()
    finally:
        gc.enable()
    assert recording.models == [model]
    named(model)


@pytest.mark.parametrize(
    "beside",
    [
        lambda: nn.CrossEntropyLoss(weight=torch.ones(3)),
        lambda: nn.LayerNorm(4),
        lambda: nn.BatchNorm1d(4),
    ],
)
def test_what_stands_beside_a_model_changes_nothing(beside):
    with ft.fast_init(17) as recording:
        before, model, after = beside(), nn.Sequential(nn.Linear(8, 8)), beside()
    named(model)
    assert recording.models[0] is model
    assert len(recording.models) == 3
    plan = recording.plan(17)
    assert (plan.array("0.weight") == model[0].weight.detach().numpy()).all()
    assert before is not after


def test_a_part_of_a_model_is_called_as_the_model_calls_it():
    class Whole(nn.Module):
        def __init__(self, part):
            super().__init__()
            self.stem, self.head = part.layer, nn.Linear(8, 2)

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

    with ft.fast_init(17) as recording:
        part = Part()
        model = Whole(part)
    named(model)
    assert recording.models == [model, part]
    assert "stem.weight" in recording.plan(17)
    assert recording.plan(17, part)["layer.weight"].state == recording.plan(17)["stem.weight"].state


def test_a_model_that_gave_a_part_away_and_is_gone_is_not_counted():
    """The last initializer's frame leads to those of its callers, and they hold what they made."""

    class Donor(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.unused = nn.Linear(8, 8), nn.Linear(8, 8)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            donor = Donor()
            self.stem, self.head = donor.layer, nn.Linear(8, 8)
            init.orthogonal_(self.head.weight)

    with ft.fast_init(17) as recording:
        model = Whole()
    named(model.stem, prefix="stem.")
    assert recording.models == [model]


def test_two_names_of_one_model_are_one():
    with ft.fast_init(17) as recording:
        model = nn.Sequential(nn.Linear(8, 8))
        traced = torch.fx.symbolic_trace(model)
    named(model)
    named(traced)
    assert recording.models[0] is model
    assert "0.weight" in recording.plan(17)


# ---- models that were built before -------------------------------------------------------------------


def reset(module):
    if isinstance(module, nn.Linear):
        init.kaiming_uniform_(module.weight, a=5**0.5)
        init.zeros_(module.bias)


def old_reset(module):
    if isinstance(module, nn.Linear):
        module.weight.data.uniform_(-(module.in_features**-0.5), module.in_features**-0.5)
        module.bias.data.zero_()


@pytest.mark.parametrize("again", [reset, old_reset])
def test_a_model_that_is_named_is_drawn_by_its_names(again):
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    kept = model[1].weight
    with torch.no_grad():
        kept.mul_(3)
        model[0].weight.mul_(2)  # a version that the block did not see grow
    with ft.fast_init(17, model=model) as recording:
        model.apply(again)
    named(model)
    assert recording.models == [model]
    assert torch.equal(kept, torch.full((8,), 3.0))
    assert not model[0].bias.any()
    first = model[2].weight.detach().clone()
    with ft.record(model=model) as recording:
        model.apply(again)
    assert torch.equal(torch.from_numpy(recording.plan(17).array("2.weight")), first)
    assert recording.computed == {}


@pytest.mark.parametrize("is_inside", [False, True])
def test_a_loaded_model_is_drawn_by_its_names_too(is_inside, tmp_path):
    """Torch may not resize memory that it loaded, as it may not resize numpy's: it must not be taken for that."""
    safetensors = peer("safetensors.torch")
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors")

    def load():
        model.load_state_dict(safetensors.load_file(tmp_path / "model.safetensors"), assign=True)

    if is_inside:
        with ft.fast_init(17, model=model) as recording:
            load()
            model[1].apply(reset)
    else:
        load()
        with ft.fast_init(17, model=model) as recording:
            model[1].apply(reset)
    assert recording.computed == {}
    named(nn.ModuleDict({"1": model[1]}))
    assert torch.equal(model[0].weight, safetensors.load_file(tmp_path / "model.safetensors")["0.weight"])


def test_a_head_in_a_model_that_is_named_is_called_as_the_model_calls_it():
    model = nn.Sequential(nn.Linear(8, 8))
    before = model[0].weight.detach().clone()
    with ft.fast_init(17, model=model):
        model.append(nn.Linear(8, 2))
    assert torch.equal(model[0].weight, before)
    named(nn.ModuleDict({"1": model[1]}))


def test_a_model_that_nobody_named_is_said():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    said = r"2 tensors drawn here were made before the block.*model=model"
    with pytest.warns(UserWarning, match=said), ft.fast_init(17):
        model.apply(reset)
    assert float(model[0].weight.detach().abs().max()) <= 8**-0.5
    with ft.fast_init(17, by="call"):  # its streams are numbers of calls, as was asked
        model.apply(reset)
    with pytest.warns(UserWarning, match=said), ft.record() as recording:
        model.apply(reset)
    with pytest.raises(
        PlanError, match=r"recorded: none; build it in the block, or name it: record\(model=model\)"
    ):
        recording.plan(17)


def test_copies_of_a_model_are_no_strays():
    """A deep copy is registered nowhere, and holds the draws of what it copies."""
    with ft.fast_init(17):
        model = nn.Sequential(nn.Linear(8, 8))
        average = copy.deepcopy(model)
        shadow = [weight.detach().clone() for weight in model.parameters()]
        noise = torch.randn(4)
    assert torch.equal(average[0].weight, model[0].weight)
    assert torch.equal(shadow[0], model[0].weight)
    assert noise.any()


def test_what_is_no_model_is_refused_before_the_block():
    said = r"model must be a torch\.nn\.Module, got str"
    with pytest.raises(TypeError, match=said), ft.fast_init(17, model="gpt2"):
        pytest.fail("the block ran")
