"""`fastinit.torch.record`, `fast_init` and `init_module`: what is noted, what must run for real, what is filled.

The dangers: a write that is missed or read too early, equal tensors that become different and different ones
equal, and a torch that is not as it was when the block ends. The zoo (test_zoo.py) tries the same on real models.
"""

import numpy as np
import pytest
import reference
from bits import patterns
from conftest import peer

import fastinit
from fastinit.errors import PlanError
from fastinit.initializers import CenteredUniform, Constant, Normal, TruncatedNormal

torch = peer("torch")

import fastinit.torch as ft  # noqa: E402

nn, init = torch.nn, torch.nn.init
captured_trunc_normal_ = init.trunc_normal_


class Holder(nn.Module):
    """Parameters made by functions, one each, under their names."""

    def __init__(self, **makers):
        super().__init__()
        for name, make in makers.items():
            self.register_parameter(name, nn.Parameter(make()))


def recorded(build, seed=17):
    with ft.record(seed) as recording:
        model = build()
    return recording.plan(seed, model)


def started(build, seed=17, **options):
    with ft.fast_init(seed, **options):
        return build()


def is_of(build, name="w"):
    return recorded(lambda: Holder(**{name: build}))[name].distribution


def in_place(function, *given, shape=(4, 6), **options):
    def make():
        tensor = torch.empty(*shape)
        with torch.no_grad():
            function(tensor, *given, **options)
        return tensor

    return make


# ---- what a tensor is --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (in_place(init.normal_, 0.5, 2.0), Normal(0.5, 2.0)),
        (in_place(init.uniform_, -0.25, 0.25), CenteredUniform(0.25)),
        (in_place(captured_trunc_normal_, std=0.5, a=-1.0, b=1.0), TruncatedNormal(0.0, 0.5, -2.0, 2.0)),
        (in_place(init.trunc_normal_, std=1.0, a=2.0, b=3.0), TruncatedNormal(0.0, 1.0, 2.0, 3.0)),
        (in_place(init.trunc_normal_, std=0.02), TruncatedNormal(0.0, 0.02, -100.0, 100.0)),
        (lambda: torch.randn(4, 6) * 0.02, Normal(0.0, 0.02)),
        (lambda: 1 - 2 * torch.rand(4, 6), CenteredUniform(1.0)),
        (lambda: torch.randn(4, 6).div_(4).add_(1), Normal(1.0, 0.25)),
        (lambda: torch.normal(1.0, 3.0, (4, 6)), Normal(1.0, 3.0)),
        (lambda: 0.1 * torch.ones(4, 6), Constant(float(np.float32(0.1)))),
        (lambda: torch.full((4, 6), 1e-5), Constant(float(np.float32(1e-5)))),
        (lambda: torch.randn(4, 6).zero_(), Constant(0.0)),
        (lambda: torch.zeros(4, 6).normal_(), Normal(0.0, 1.0)),
        (lambda: torch.empty(6, 4).normal_(0, 3).t(), Normal(0.0, 3.0)),
        (lambda: torch.randn(6, 4).view(4, 6), Normal(0.0, 1.0)),
    ],
)
def test_a_tensor_is_what_the_last_write_says(build, expected):
    assert is_of(build) == expected


def test_a_tensor_drawn_three_times_is_drawn_once_as_the_last_says():
    """GPT-2's projections: two draws of three are thrown away by the library itself."""

    def build():
        linear = nn.Linear(6, 4)
        for std in (0.02, 0.02, 0.00408):
            init.normal_(linear.weight, std=std)
        return linear

    plan = recorded(build)
    assert plan["weight"].distribution == Normal(0.0, 0.00408)
    expected = fastinit.normal((4, 6), fastinit.stream_for(17, "weight"), std=0.00408, dtype="float32")
    assert (started(build).weight.detach().numpy() == expected).all()


def test_the_erfinv_chain_of_older_libraries_is_a_truncated_normal():
    def build():
        tensor = torch.empty(4, 6)
        tensor.uniform_(-0.9544997361036416, 0.9544997361036416)  # 2 * Phi(2) - 1
        tensor.erfinv_().mul_(0.5 * 2**0.5).add_(0.25).clamp_(-0.75, 1.25)
        return tensor

    found = is_of(build)
    assert found.kind == "truncated_normal"
    assert (found.mean, found.lower, found.upper) == (0.25, pytest.approx(-2.0), pytest.approx(2.0))
    assert found.std == pytest.approx(0.5, rel=1e-15)


def test_a_clamp_that_cuts_real_mass_off_is_computed():
    """Half of the weights become equal there: no distribution here says so."""
    with ft.record(17) as recording:
        model = Holder(w=lambda: torch.randn(64).clamp_(min=0))
    assert recording.computed == {"w": ("clamp_",)}
    assert (model.w == 0).sum() > 16


def test_a_row_and_a_gate_are_parts():
    def build():
        model = nn.ModuleList([nn.Embedding(5, 3, padding_idx=1), nn.LSTM(2, 3)])
        with torch.no_grad():
            model[1].bias_ih_l0[3:6].fill_(1.0)
        return model

    plan, model = recorded(build), started(build)
    assert plan["0.weight"].distribution.describe() == "normal std=1, zeros in [1:2, 0:3]"
    whole = fastinit.normal((5, 3), fastinit.stream_for(17, "0.weight"), dtype="float32")
    whole[1] = 0  # its row's draws are left out, not given to the next
    assert (model[0].weight.detach().numpy() == whole).all()
    bias = model[1].bias_ih_l0.detach().numpy()
    assert (bias[3:6] == 1).all()
    assert not (bias[[0, 1, 2, 6, 7, 8, 9, 10, 11]] == 1).any()


def test_an_orthogonal_gate_is_a_part_unless_a_row_of_it_is_lost():
    def build(lost):
        def make():
            weight = torch.empty(6, 3)
            for start in (0, 3):
                init.orthogonal_(weight[start : start + 3])
            weight[:lost].zero_()
            return weight

        return lambda: Holder(w=make)

    assert recorded(build(0))["w"].distribution.kind == "parts"
    gates = started(build(0)).w.detach()
    for gate in (gates[:3], gates[3:]):
        assert torch.allclose(gate @ gate.t(), torch.eye(3), atol=1e-6)
    with ft.record(17) as recording:
        build(1)()
    assert recording.computed == {"w": ("orthogonal",)}


def test_a_table_a_mask_and_indices_are_given_bit_by_bit():
    def build():
        model = nn.Module()
        model.register_buffer("mask", torch.tril(torch.ones(5, 5)).view(1, 5, 5))
        model.register_buffer("hidden", torch.full((5, 5), float("-inf")).triu(1))
        model.register_buffer("flags", torch.arange(4) > 1)
        model.register_buffer("table", torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.5])).sin())
        model.register_buffer("phases", torch.exp(1j * torch.arange(3.0)))
        model.register_buffer("twos", torch.full((3,), 2))
        padded = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.5])).cos()
        padded[0] = 0  # written down upon what memory held before
        model.register_buffer("padded", torch.zeros(5, 2).copy_(padded))
        return model

    own, plan, model = build(), recorded(build), started(build)
    for name, buffer in own.named_buffers():
        assert buffer.dtype == getattr(model, name).dtype, name
        assert torch.equal(buffer, getattr(model, name)), name
        assert (plan.array(name) == buffer.numpy()).all(), name


@pytest.mark.parametrize("function", [init.orthogonal_, init.eye_, init.dirac_, init.sparse_])
def test_whole_tensor_constructions_are_those_of_fastinit(function):
    shape = (4, 2, 3) if function is init.dirac_ else (4, 6)
    options = {"sparsity": 0.5} if function is init.sparse_ else {}
    build = in_place(function, shape=shape, **options)
    with ft.record() as recording:
        model = Holder(w=build)
    assert not recording.computed
    weights = started(lambda: Holder(w=build)).w.detach()
    if function is init.orthogonal_:
        assert torch.allclose(weights @ weights.t(), torch.eye(4), atol=1e-6)
    elif function is init.sparse_:
        assert ((weights == 0).sum(0) == 2).all()
    else:
        assert torch.equal(weights, build())
    assert model.w.shape == shape


def test_dtypes_are_rounded_once():
    """A model that is made in float32 and cast would round twice, as torch does from float64 to bfloat16."""

    def build(dtype):
        return lambda: nn.Embedding(64, 64).to(dtype)  # unbounded: nothing is clamped

    wide = started(build(torch.float64)).weight.detach().numpy()
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        narrow = started(build(dtype)).weight.detach()
        bits = narrow.view({2: torch.uint16, 4: torch.uint32}[dtype.itemsize]).numpy()
        name = str(dtype).removeprefix("torch.")
        once = [reference.narrowed(float(weight), reference.FORMATS[name]) for weight in wide.ravel()]
        assert (bits.ravel() == patterns(once, name)).all(), dtype


# ---- what reads, and what must run for real ----------------------------------------------------------


def test_what_is_read_has_the_values_that_stay():
    """A weight norm's magnitude is computed from the weights: they must be the ones that the model keeps."""

    def build():
        return nn.utils.parametrizations.weight_norm(nn.Linear(6, 4))

    model = started(build)
    original = model.parametrizations.weight
    assert torch.allclose(original.original0, original.original1.norm(dim=1, keepdim=True))
    with ft.record(17) as recording:
        build()
    assert recording.computed == {
        "parametrizations.weight.original0": ("norm",),
        "parametrizations.weight.original1": ("norm",),
    }
    assert (
        recording.plan(17).array("parametrizations.weight.original1") == original.original1.detach().numpy()
    ).all()
    with pytest.raises(PlanError, match=r"computed from draws of seed 17.*record\(seed=18\)"):
        recording.plan(18)


def test_a_forward_pass_inside_the_block_leaves_the_weights_to_their_names():
    """Code that measures an output's shape reads every weight; nothing of it stays in the model."""

    def build():
        model = nn.Linear(3, 2)
        model.width = model(torch.zeros(1, 3)).shape[-1]
        return model

    assert torch.equal(started(build).weight, started(lambda: nn.Linear(3, 2)).weight)


def test_a_number_that_was_read_keeps_the_weights_it_came_from():
    def build():
        model = nn.Linear(6, 4)
        with torch.no_grad():
            model.weight.mul_(1 / model.weight.norm().item())
        return model

    assert float(started(build).weight.detach().norm()) == pytest.approx(1.0)


def test_a_partial_write_of_data_keeps_the_rest():
    table = torch.arange(3.0)

    def build():
        model = nn.Embedding(5, 3)
        model.weight.data[2].copy_(table)
        return model

    weights = started(build).weight.detach()
    assert torch.equal(weights[2], table)
    assert weights[[0, 1, 3, 4]].std() > 0.3


def test_a_generator_of_the_codes_own_is_obeyed():
    """A projection that is never saved is made again from its own seed."""

    def build():
        return Holder(w=in_place(init.normal_, generator=torch.Generator().manual_seed(5)))

    assert torch.equal(started(build).w, build().w)


def test_a_generator_of_its_own_is_obeyed_inside_torchs_functions():
    def build():
        return Holder(
            t=in_place(init.trunc_normal_, std=0.5, generator=torch.Generator().manual_seed(5)),
            o=in_place(init.orthogonal_, generator=torch.Generator().manual_seed(5)),
        )

    for name, weight in build().named_parameters():
        assert torch.equal(getattr(started(build), name), weight), name


def test_a_copy_of_an_expanded_draw_repeats_it():
    def drawn():
        return torch.randn(1, 8).expand(4, 8)

    model = started(lambda: Holder(copied=lambda: drawn().clone(), doubled=lambda: drawn() * 2))
    for weights in model.parameters():
        assert torch.equal(weights[0], weights[3])
        assert len(weights[0].unique()) == 8


def test_unknown_draws_are_made_and_listed_and_follow_the_seed():
    def build():
        return Holder(
            b=lambda: torch.empty(64).bernoulli_(0.5),
            e=lambda: torch.empty(64).exponential_(),
            t=lambda: torch.exp(torch.rand(64)),
        )

    with ft.record() as recording:
        build()
    assert recording.computed == {"b": ("bernoulli_",), "e": ("exponential_",), "t": ("exp",)}
    first, again, other = started(build), started(build), started(build, seed=18)
    for name in "bet":
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert not torch.equal(getattr(first, name), getattr(other, name))


def test_a_dtype_that_cannot_hold_the_draws_is_drawn_as_torch_does():
    with ft.record(17) as recording:
        Holder(w=lambda: torch.empty(8, dtype=torch.float16).normal_(0, 60000.0))
    assert recording.computed == {"w": ("normal_",)}


def test_memory_that_no_code_writes_is_zero_and_said():
    with ft.record() as recording:
        Holder(w=lambda: torch.empty(4))
    assert recording.plan(17)["w"].distribution == Constant(0.0)
    assert not started(lambda: Holder(w=lambda: torch.empty(4))).w.any()


def test_the_table_says_where_in_whose_code():
    with ft.record() as recording:
        nn.Linear(3, 2)
    rows = {row[0]: row for row in recording.table().rows}
    assert rows["weight"][3:5] == ("centered_uniform", "limit=0.57735")
    assert rows["weight"][5].startswith("torch.nn.modules.linear:")
    assert rows["weight"][5].endswith("Linear.reset_parameters")


def test_recording_touches_no_memory():
    """2 GiB of weights: had they been filled, or their pages touched, the peak would show it."""
    with open("/proc/self/status") as status:
        before = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    with ft.record():
        model = nn.Linear(1 << 14, 1 << 15)
    with open("/proc/self/status") as status:
        after = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    assert model.weight.numel() == 1 << 29
    assert after - before < 100_000  # kB
