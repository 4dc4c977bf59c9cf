"""`fast_init` and `init_module`: copies, ties, several models, plans, files, and a torch that is as it was.

The dangers: equal tensors that become different and different ones equal, a plan that says other bytes than the
model holds, and a mode or a hook that outlives its block.
"""

import copy
import gc
import threading

import pytest
from conftest import peer

import fastinit
from fastinit.errors import PlanError

torch = peer("torch")

from integrations.test_recording import Holder, recorded, started  # noqa: E402

import fastinit.torch as ft  # noqa: E402

nn = torch.nn


# ---- copies, ties and several models -----------------------------------------------------------------


def test_a_deep_copy_is_equal_and_a_second_layer_is_not():
    def build():
        first = nn.Embedding(5, 3, padding_idx=0)
        return nn.ModuleList([first, copy.deepcopy(first), nn.Embedding(5, 3, padding_idx=0)])

    model, plan = started(build), recorded(build)
    assert torch.equal(model[0].weight, model[1].weight)
    assert not torch.equal(model[0].weight, model[2].weight)
    assert plan["1.weight"].copy_of == "0.weight"


def test_a_copy_that_no_module_holds_is_equal_too():
    """The shadow of an average is a list of tensors, not a module."""

    def build():
        model = nn.Linear(3, 2)
        model.shadow = [parameter.detach().clone() for parameter in model.parameters()]
        return model

    model = started(build)
    assert torch.equal(model.weight, model.shadow[0])


def test_a_transposed_copy_is_transposed():
    def build():
        first = nn.Linear(3, 3)
        second = nn.Linear(3, 3)
        second.weight.data.copy_(first.weight.data.t())
        return nn.ModuleList([first, second])

    model = started(build)
    assert torch.equal(model[0].weight, model[1].weight.t())
    assert not torch.equal(model[0].weight, model[1].weight)


def test_tied_weights_stay_one_tensor():
    def build():
        model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
        model[1].weight = model[0].weight
        return model

    model = started(build)
    assert model[1].weight is model[0].weight
    assert list(recorded(build)) == ["0.weight"]


def test_a_transposed_view_of_a_weight_stays_one():
    def build():
        model = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        model[1].weight.data = model[0].weight.data.t()
        return model

    with ft.fast_init(17) as recording:
        model = build()
    assert torch.equal(model[0].weight, model[1].weight.t())
    plan = recording.plan(17)
    for name in ("0.weight", "1.weight"):
        assert (plan.array(name) == dict(model.named_parameters())[name].detach().numpy()).all(), name


def test_two_models_of_one_block_do_not_share_numbers():
    with ft.fast_init(17) as recording:
        generator, discriminator = nn.Linear(3, 3), nn.Linear(3, 3)
    assert not torch.equal(generator.weight, discriminator.weight)
    second = recording.plan(17, discriminator)
    assert (second.array("weight") == discriminator.weight.detach().numpy()).all()
    with pytest.raises(PlanError, match="Linear, Linear; say which with model="):
        recording.plan(17)


def test_adding_removing_and_reordering_layers_changes_no_other_tensor():
    def build(*names):
        return lambda: nn.ModuleDict({name: nn.Linear(4, 4) for name in names})

    first, second = started(build("a", "b", "c")), started(build("c", "new", "a"))
    for name in ("a", "c"):
        assert torch.equal(first[name].weight, second[name].weight)
    assert not torch.equal(first["a"].weight, first["c"].weight)


# ---- torch is as it was ------------------------------------------------------------------------------


def test_torchs_generator_is_not_moved():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    started(lambda: Holder(w=lambda: torch.empty(64).bernoulli_(0.5), n=lambda: torch.randn(4)))
    assert torch.equal(torch.get_rng_state(), before)


def test_an_exception_ends_the_block_and_goes_on():
    def build():
        nn.Linear(3, 2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        started(build)
    torch.manual_seed(3)
    expected = torch.randn(4)
    torch.manual_seed(3)
    assert torch.equal(torch.randn(4), expected)
    gc.collect()
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    assert not nn.modules.module._global_parameter_registration_hooks


def test_another_thread_is_not_watched():
    torch.manual_seed(3)
    expected, found = nn.Linear(3, 2), []

    def build():
        torch.manual_seed(3)
        found.append(nn.Linear(3, 2))

    with ft.fast_init(17) as recording:
        mine = nn.Linear(3, 2)
        other = threading.Thread(target=build)
        other.start()
        other.join()
    assert torch.equal(found[0].weight, expected.weight)
    assert recording.models == [mine]


def test_a_block_inside_a_block_fills_its_own_model():
    with ft.fast_init(1):
        outer = nn.Linear(3, 2)
        with ft.fast_init(2):
            inner = nn.Linear(3, 2)
    assert torch.equal(outer.weight, started(lambda: nn.Linear(3, 2), seed=1).weight)
    assert torch.equal(inner.weight, started(lambda: nn.Linear(3, 2), seed=2).weight)


def test_by_call_fills_in_the_order_of_the_calls():
    model = started(lambda: nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2)), by="call")
    again = started(lambda: nn.Sequential(nn.Linear(3, 2), nn.Linear(3, 2)), by="call")
    assert torch.equal(model[0].weight, again[0].weight)
    assert not torch.equal(model[0].weight, model[1].weight)
    with pytest.raises(ValueError, match="by"):
        started(nn.Linear, by="layer")


# ---- the same bytes everywhere -----------------------------------------------------------------------


def network():
    return nn.Sequential(nn.Embedding(9, 6, padding_idx=2), nn.Linear(6, 5), nn.LayerNorm(5), nn.BatchNorm1d(5))


def test_block_plan_file_and_meta_hold_the_same_bytes(tmp_path):
    model = started(network)
    with ft.record() as recording:
        network()
    plan, path = recording.plan(17), tmp_path / "model.safetensors"
    fastinit.write_checkpoint(plan, path)
    assert fastinit.verify_checkpoint(path)
    with torch.device("meta"):
        empty = network()
    filled = ft.init_module(empty, recording, seed=17)
    stored = peer("safetensors.torch").load_file(path)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, stored[name]), name
        assert torch.equal(tensor, filled.state_dict()[name]), name
    assert all(parameter.requires_grad for parameter in filled.parameters())


def test_a_model_starts_a_training_step():
    model = started(network)
    before = model[1].weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.tensor([0, 1, 2, 3])).square().sum().backward()
    optimizer.step()
    assert not torch.equal(before, model[1].weight)
    assert model[0].weight.grad is not None


def test_init_module_keeps_ties_hooks_and_buffers():
    with torch.device("meta"):
        model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
        model[1].weight = model[0].weight
    model[0].weight.note = "kept"
    model.register_buffer("table", torch.arange(3.0))
    ft.init_module(model, fastinit.Plan.from_specs({"0.weight": {"dtype": "F32", "shape": [5, 3]}}, 17))
    assert model[1].weight is model[0].weight
    assert model[0].weight.note == "kept"
    assert torch.equal(model.table, torch.arange(3.0))


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ({"weight": [2, 3]}, "the plan lacks 'bias' of the model"),
        ({"weight": [2, 3], "bias": [2], "other.weight": [2]}, "the model has no 'other.weight', which"),
        ({"weight": [3, 2], "bias": [2]}, r"'weight' has shape \(2, 3\) in the model and \(3, 2\) in the plan"),
    ],
)
def test_a_plan_of_another_model_is_refused_before_anything_is_written(specs, message):
    plan = fastinit.Plan.from_specs({name: {"dtype": "F32", "shape": shape} for name, shape in specs.items()}, 17)
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    with pytest.raises(PlanError, match=message):
        ft.init_module(model, plan)
    assert torch.equal(model.weight, before)


def halves():
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)).half()


def large_in_the_middle(dtype="F32"):
    specs = {
        f"{layer}.{name}": {"dtype": dtype, "shape": [2, 2][: 1 + (name == "weight")]}
        for layer in range(3)
        for name in ("weight", "bias")
    }
    rule = fastinit.policies.UserRule("1.weight", "normal(0, 1e6)")
    return fastinit.Plan.from_specs(specs, 1, fastinit.policies.customized("llama", [rule]))


def expanded_in_the_middle():
    model = halves()
    model[1].weight.data = torch.zeros(2, 1, dtype=torch.float16).expand(2, 2)
    return model


def whole_numbers_in_the_middle():
    model = halves()
    model[1].weight = nn.Parameter(torch.zeros(2, 2, dtype=torch.int32), requires_grad=False)
    return model


def freed_in_the_middle():
    model = halves()
    model[1].weight.untyped_storage().resize_(0)
    return model


def sparse_in_the_middle():
    model = halves()
    model[1].weight = nn.Parameter(torch.eye(2).to_sparse())
    return model


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (halves, fastinit.errors.DistributionError, r"tensor '1\.weight': .*float16"),
        (expanded_in_the_middle, RuntimeError, "single memory location"),
        (whole_numbers_in_the_middle, TypeError, r"tensor '1\.weight'.*torch\.int32"),
        (freed_in_the_middle, RuntimeError, "was freed"),
        (sparse_in_the_middle, TypeError, "layout torch.sparse_coo"),
    ],
)
def test_one_tensor_that_cannot_be_written_leaves_all_as_they_were(build, error, message):
    model = build()
    before, version = model[0].weight.detach().clone(), model[0].weight._version
    with pytest.raises(error, match=message):
        ft.init_module(model, large_in_the_middle())
    assert torch.equal(model[0].weight, before)
    assert model[0].weight._version == version


def test_a_meta_model_that_cannot_be_written_stays_on_the_meta_device():
    with torch.device("meta"):
        model = halves()
    with pytest.raises(fastinit.errors.DistributionError, match=r"tensor '1\.weight'"):
        ft.init_module(model, large_in_the_middle())
    assert all(parameter.is_meta for parameter in model.parameters())


def test_given_data_that_is_not_at_hand_is_missed_before_anything_is_written():
    def build():
        model = nn.Linear(3, 2)
        model.register_buffer("table", torch.arange(3.0))
        return model

    plan = fastinit.Plan.from_json(recorded(build).to_json())
    model = build()
    before = model.weight.detach().clone()
    with pytest.raises(PlanError, match="table"):
        ft.init_module(model, plan)
    assert torch.equal(model.weight, before)


def test_a_seed_that_contradicts_the_plan_is_refused():
    plan = recorded(lambda: nn.Linear(3, 2))
    with pytest.raises(PlanError, match="the plan has seed 17, and seed=18 was given"):
        ft.init_module(nn.Linear(3, 2), plan, seed=18)
    with pytest.raises(TypeError, match="seed must be given"):
        ft.init_module(nn.Linear(3, 2), "xavier")


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_compiled_scripted_lazy_and_parametrized_modules():
    model = started(lambda: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)))
    assert torch.allclose(model.weight @ model.weight.t(), torch.eye(4), atol=1e-5)
    scripted = started(lambda: torch.jit.script(nn.Linear(3, 2)))
    assert torch.equal(scripted.weight, started(lambda: nn.Linear(3, 2)).weight)
    lazy = started(lambda: nn.Sequential(nn.LazyLinear(2), nn.Linear(2, 2)))
    assert torch.nn.parameter.is_lazy(lazy[0].weight)
    assert torch.equal(lazy[1].weight, started(lambda: nn.ModuleDict({"1": nn.Linear(2, 2)}))["1"].weight)
    compiled = started(lambda: torch.compile(nn.Linear(3, 2)))
    assert compiled._orig_mod.weight.shape == (2, 3)


def test_a_model_on_the_meta_device_says_where_its_data_went():
    with ft.record() as recording, torch.device("meta"):
        model = nn.Linear(3, 2)
        model.register_buffer("mask", torch.tril(torch.ones(3, 3)))
    with pytest.raises(PlanError, match="'mask' lies on the meta device"):
        recording.plan(17)


def flags_of(address):
    """The kernel's flags of the mapping that an address lies in."""
    inside = False
    with open("/proc/self/smaps") as maps:
        for line in maps:
            first = line.split()[0]
            if first == "VmFlags:" and inside:
                return line.split()[1:]
            if "-" in first and not first.endswith(":"):
                begin, end = (int(bound, 16) for bound in first.split("-"))
                inside = begin <= address < end
    return []


def test_a_model_is_advised_to_huge_pages_from_end_to_end():
    """No single tensor of 1 MiB holds a huge page; side by side they do, and touching is most of the cost."""
    model = started(lambda: nn.Sequential(*(nn.Linear(512, 512) for _ in range(8))))
    assert all("hg" in flags_of(layer.weight.data_ptr() + (1 << 19)) for layer in model)
