"""Memory that leaves torch inside a block: addresses, numpy, loops in Python, threads, other classes of tensors.

The dangers: others read memory that was never filled, or write what a fill overwrites when the block ends. Each
case compares with what the same code does without a block.
"""

import concurrent.futures
import contextlib
import ctypes
import multiprocessing.reduction
import pickle
import random
import warnings

import numpy as np
import pytest
from conftest import peer

from fastinit.errors import InitializationError, PlanError

torch = peer("torch")

from integrations.test_recording import Holder, started  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402

import fastinit.torch as ft  # noqa: E402

nn, init = torch.nn, torch.nn.init
both_orders = pytest.mark.parametrize("by", ["name", "call"])


def floats_at(address, count):
    return list((ctypes.c_float * count).from_address(address))


# ---- addresses and files -----------------------------------------------------------------------------


@both_orders
@pytest.mark.parametrize(
    "address",
    [
        lambda tensor: tensor.data_ptr(),
        lambda tensor: tensor.untyped_storage().data_ptr(),
        lambda tensor: tensor.storage().data_ptr(),
    ],
)
@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_what_is_read_and_written_through_an_address_is_kept(address, by):
    def build():
        layer = nn.Linear(4, 8)
        init.constant_(layer.bias, 3.0)
        memory = (ctypes.c_float * 8).from_address(address(layer.bias.data))
        layer.read = list(memory)
        memory[1] = 5.0
        layer.bias.data.mul_(2)
        memory[2] = 7.0
        return layer

    layer = started(build, by=by)
    assert layer.read == [3.0] * 8
    assert layer.bias.tolist() == [6.0, 10.0, 7.0] + [6.0] * 5


@both_orders
def test_a_file_that_is_saved_inside_holds_the_weights(tmp_path, by):
    safetensors = peer("safetensors.torch")
    with ft.fast_init(17, by=by):
        model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64))
        safetensors.save_file(model.state_dict(), tmp_path / "model.safetensors")
        stored = safetensors.load(safetensors.save(model.state_dict()))
    for name, tensor in safetensors.load_file(tmp_path / "model.safetensors").items():
        assert torch.equal(tensor, model.state_dict()[name]), name
        assert torch.equal(stored[name], tensor), name


def test_a_tensor_that_goes_to_another_process_holds_its_values():
    def build():
        layer = nn.Linear(4, 8)
        init.constant_(layer.bias, 3.0)
        layer.sent = pickle.loads(multiprocessing.reduction.ForkingPickler.dumps(layer.bias.data)).clone()
        return layer

    assert started(build).sent.tolist() == [3.0] * 8


def test_addresses_that_are_compared_pin_nothing():
    """transformers, accelerate and safetensors look for tied weights by their addresses."""
    storage_ptr = peer("safetensors.torch").storage_ptr
    with ft.fast_init(17) as recording:
        layer = nn.Linear(8, 8)
        storage_ptr(layer.weight)
    assert recording.computed == {}


# ---- numpy -------------------------------------------------------------------------------------------


@both_orders
@pytest.mark.parametrize("alias", [lambda w: w.numpy(), np.asarray, np.from_dlpack])
def test_an_array_of_a_tensor_sees_every_later_write_and_keeps_its_own(alias, by):
    def build():
        weight = torch.empty(16, 32)
        array = alias(weight)
        init.ones_(weight)
        if array.flags.writeable:
            array *= 2
        else:
            weight.mul_(2)
        weight[:2].add_(1)
        return weight, array.copy(), weight.clone()

    with ft.fast_init(17, by=by):
        weight, array, copied = build()
        model = Holder(w=lambda: weight)
    for found in (torch.from_numpy(array), copied, model.w.detach()):
        assert torch.equal(found[:2], torch.full((2, 32), 3.0))
        assert torch.equal(found[2:], torch.full((14, 32), 2.0))


@both_orders
@pytest.mark.parametrize("view", [torch.from_numpy, torch.as_tensor, torch.from_dlpack, torch.asarray])
def test_a_tensor_of_an_array_is_filled_at_once(view, by):
    def make():
        array = np.empty((64, 32), np.float32)
        init.normal_(view(array))
        make.mean = float(array.mean())
        return torch.from_numpy(array * 2 + 5)

    model = started(lambda: Holder(w=make), by=by)
    assert abs(make.mean) < 0.1
    weight = model.w.detach()
    assert abs(float(weight.mean()) - 5 - 2 * make.mean) < 1e-5
    assert 1.9 < float(weight.std()) < 2.1


@both_orders
def test_loops_that_python_makes_are_kept(by):
    def build():
        model = nn.Module()
        model.a, model.b = nn.Linear(16, 16), nn.Linear(16, 16)
        model.a.weight.data.apply_(lambda value: abs(value) + 1)
        model.b.weight.data.map_(model.a.weight.data, lambda own, other: other + 1)
        return model

    with ft.fast_init(17, by=by) as recording:
        model = build()
    assert float(model.a.weight.detach().min()) > 1
    assert float(model.a.weight.detach().max()) < 1.5
    assert torch.equal(model.b.weight, model.a.weight + 1)
    assert {"a.weight", "b.weight"} <= set(recording.computed)


@pytest.mark.parametrize("read", [lambda w: w.tolist(), lambda w: w.numpy(), lambda w: [w[0, 0].item()]])
def test_a_plan_of_another_seed_is_refused_once_code_read_draws(read):
    """What it made of the numbers shows no trace of them."""
    with ft.record(17) as recording:
        model = Holder(w=lambda: torch.tensor(np.asarray(read(torch.randn(4, 4)))))
    assert (recording.plan(17).array("w") == model.w.detach().numpy()).all()
    with pytest.raises(PlanError, match=r"use record\(seed=18\)"):
        recording.plan(18)


def test_a_read_list_says_of_its_weights_that_they_depend_on_the_seed():
    with ft.fast_init(17) as recording:
        model = Holder(w=lambda: torch.empty(64).apply_(lambda _: float(torch.randn(()))))
    assert recording.computed == {"w": ("apply_",)}
    assert 0.7 < float(model.w.detach().std()) < 1.4


# ---- draws of others ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "remedy"),
    [(lambda: np.random.randn(4), r"numpy\.random\.seed"), (lambda: [random.gauss(0, 1)], r"random\.seed")],
)
def test_a_draw_of_another_generator_is_said(draw, remedy):
    with pytest.warns(UserWarning, match=remedy):
        started(lambda: Holder(w=lambda: torch.tensor(draw())))
    with pytest.warns(UserWarning, match=remedy), ft.record():
        Holder(w=lambda: torch.tensor(draw()))


# ---- threads -----------------------------------------------------------------------------------------


def in_a_thread(function, *given):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *given).result()


@pytest.mark.parametrize("write", [lambda p: init.constant_(p, 7.0), init.zeros_, init.normal_])
def test_what_another_thread_writes_into_a_weight_is_not_overwritten(write):
    def build():
        model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
        in_a_thread(write, model[1].weight)
        return model

    if write is init.zeros_:
        assert not started(build, by="call")[1].weight.any()
    with pytest.raises(InitializationError, match=r"another thread wrote into '1\.weight'.*by=\"call\""):
        started(build)


def test_what_another_thread_writes_after_a_fill_is_computed():
    with ft.fast_init(17, by="call") as recording:
        layer = nn.Linear(32, 32)
        in_a_thread(init.constant_, layer.weight, 7.0)
    assert torch.equal(layer.weight, torch.full((32, 32), 7.0))
    assert recording.computed == {"weight": ("another thread",)}


def test_by_call_another_thread_reads_weights():
    def build():
        layer = nn.Linear(64, 64)
        layer.spread = in_a_thread(lambda: float(layer.weight.detach().std()))
        return layer

    layer = started(build, by="call")
    assert layer.spread == float(layer.weight.detach().std())


def test_a_layer_that_another_thread_made_is_listed_and_said():
    said = r"2 tensors \('1\.weight' the first\) were made in another thread"
    with pytest.warns(UserWarning, match=said), ft.fast_init(17) as recording:
        model = nn.Sequential(nn.Linear(4, 4), in_a_thread(nn.Linear, 4, 4))
    assert set(recording.computed) == {"1.weight", "1.bias"}
    assert float(model[1].weight.detach().std()) < 1


def test_threads_with_blocks_of_their_own_are_right():
    def build(seed):
        return started(lambda: nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)), seed)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(build, range(8)))
    for seed, model in enumerate(found):
        assert torch.equal(model[0].weight, build(seed)[0].weight)


def test_no_write_of_this_thread_is_taken_for_another_threads():
    """A version counts every write; a weight that gets other memory brings the count of its old one along."""

    def build():
        layer, other = nn.Linear(8, 8), nn.Linear(8, 8)
        for _ in range(3):
            init.trunc_normal_(layer.weight)
            init.orthogonal_(layer.weight[:4])
            layer.weight.data.mul_(2)
        layer.weight.data = torch.randn(8, 8)
        with torch.no_grad():
            layer.bias.set_(torch.randn(8))
            torch._foreach_mul_([other.weight, other.bias], 2)
            torch.add(other.weight, 1, out=other.weight)
        layer.half().float().requires_grad_(False)
        return nn.ModuleList([layer, other])

    assert len(started(build)) == 2


# ---- tensors of other classes ------------------------------------------------------------------------


class Two(torch.Tensor):
    """Two tensors as one: the smallest wrapper there is."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, strides=a.stride())

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def of(name):
            return pytree.tree_map(lambda x: getattr(x, name) if isinstance(x, Two) else x, (args, kwargs or {}))

        (a, a_named), (b, b_named) = of("a"), of("b")
        first, second = func(*a, **a_named), func(*b, **b_named)
        if isinstance(first, torch.Tensor):
            return args[0] if func._schema.is_mutable else Two(first, second)
        return first


@both_orders
def test_a_tensor_that_holds_others_is_what_its_operations_make_of_them(by):
    with ft.fast_init(17, by=by):
        tripled = Two(torch.ones(8), torch.ones(8)) * 3
        added = Two(torch.zeros(4), torch.ones(4)).add_(1)
        drawn = Two(torch.randn(64), torch.randn(64))
        doubled = drawn * 2
    assert tripled.a.tolist() == tripled.b.tolist() == [3.0] * 8
    assert (added.a.tolist(), added.b.tolist()) == ([1.0] * 4, [2.0] * 4)
    assert torch.equal(doubled.b, drawn.b * 2)


@both_orders
def test_a_parameter_that_holds_others_is_listed(by):
    with ft.fast_init(17, by=by) as recording:
        model = Holder(w=lambda: Two(torch.randn(64), torch.ones(64)))
    assert 0.7 < float(model.w.a.detach().std()) < 1.4
    assert model.w.b.tolist() == [1.0] * 64
    assert list(recording.computed) == ["w"]
    with pytest.raises(PlanError, match="'w' is a Two"):
        recording.plan(17)


@pytest.fixture
def mesh():
    dist = torch.distributed
    if not dist.is_available():
        pytest.skip("this torch has no torch.distributed")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    yield dist.device_mesh.init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


@both_orders
@pytest.mark.filterwarnings("ignore")
def test_a_model_that_is_sharded_inside_holds_what_its_code_wrote(mesh, by):
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415  # it needs torch.distributed

    with ft.fast_init(17, by=by):
        zeros = torch.distributed.tensor.zeros(8, 8, device_mesh=mesh)
        zeros.add_(1)
        layer = nn.Linear(16, 16)
        drawn = nn.Linear(64, 64)
        fully_shard(layer, mesh=mesh)
        fully_shard(drawn, mesh=mesh)
        init.constant_(layer.weight, 3.0)
        layer.weight.data.mul_(2)
    assert torch.equal(zeros.full_tensor(), torch.ones(8, 8))
    assert torch.equal(layer.weight.full_tensor(), torch.full((16, 16), 6.0))
    assert float(drawn.weight.full_tensor().detach().abs().max()) <= 1 / 8
    assert float(drawn.weight.full_tensor().detach().std()) == pytest.approx(1 / 8 / 3**0.5, rel=0.1)


@pytest.mark.filterwarnings("ignore")
def test_shards_that_are_drawn_on_each_rank_are_refused():
    """A rank's block would give its shard the numbers of every other rank's."""
    fake_pg = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    dist = torch.distributed
    dist.init_process_group("fake", rank=0, world_size=2, store=fake_pg.FakeStore())
    try:
        mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
        layer = nn.Linear(8, 8)
        for placement, is_refused in ((dist.tensor.Shard(0), True), (dist.tensor.Replicate(), False)):
            weight = dist.tensor.DTensor.from_local(torch.zeros(4, 8), mesh, [placement], run_check=False)
            layer.weight = nn.Parameter(weight)
            said = pytest.raises(InitializationError, match=r"'weight' is sharded.*init_module\(model, recording")
            with said if is_refused else contextlib.nullcontext(), ft.fast_init(17, model=layer):
                init.normal_(layer.weight)
    finally:
        dist.destroy_process_group()


# ---- tensors without plain memory, and torch's other ways of running ---------------------------------


@both_orders
@pytest.mark.parametrize(
    "convert",
    [
        lambda dense: dense.to_sparse(),
        lambda dense: dense.to_sparse_csr(),
        lambda dense: dense.to_sparse_bsr(4),
        lambda dense: dense.to_mkldnn(),
        lambda dense: torch.nested.nested_tensor([dense, dense]),
        lambda dense: torch.nested.nested_tensor([dense, dense], layout=torch.jagged),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_of_another_layout_holds_the_weights(convert, by):
    def build():
        model = nn.Linear(8, 8)
        model.other = convert(model.weight.detach())
        return model

    model = started(build, by=by)
    found = model.other.unbind()[1] if model.other.is_nested else model.other.to_dense()
    assert torch.equal(found, model.weight.detach())


@pytest.mark.filterwarnings("ignore")
def test_a_sparse_buffer_is_listed_and_refused_by_a_plan():
    def build():
        layer = nn.Linear(8, 8)
        layer.register_buffer("sparse", torch.randn(8, 8).to_sparse())
        return layer

    with ft.fast_init(17) as recording:
        layer = build()
    assert 0.7 < float(layer.sparse.to_dense().std()) < 1.4
    assert list(recording.computed) == ["sparse"]
    assert "8x8" in str(recording.table().rows)
    with pytest.raises(PlanError, match="'sparse' has the layout"):
        recording.plan(17)


@both_orders
def test_inference_tensors_are_filled(by):
    def build():
        model = nn.Linear(4, 4)
        with torch.inference_mode():
            model.register_buffer("drawn", torch.randn(30, 30))
            model.register_buffer("zero", torch.zeros(30))
        return model

    model = started(build, by=by)
    assert model.drawn.is_inference()
    assert 0.9 < float(model.drawn.std()) < 1.1
    assert not model.zero.any()


@both_orders
@pytest.mark.filterwarnings("ignore")
def test_a_branch_of_torch_cond_sees_values(by):
    def build():
        model = nn.Linear(8, 8)
        is_small = model.weight.abs().max() < 1
        chosen = torch.cond(is_small, lambda w: w * 2, lambda w: w * 3, (model.weight.detach(),))
        model.register_buffer("twice", chosen)
        return model

    with ft.fast_init(17, by=by) as recording:
        model = build()
    assert torch.equal(model.twice, model.weight.detach() * 2)
    assert "twice" in recording.computed


# ---- loops over elements -----------------------------------------------------------------------------


def test_a_table_written_element_by_element_is_given():
    expected = torch.tensor([[np.sin(row + column) for column in range(64)] for row in range(300)]).float()

    def build():
        table = torch.zeros(300, 64)
        for row in range(300):
            for column in range(64):
                table[row, column] = np.sin(row + column)
        model = nn.Linear(2, 2)
        model.register_buffer("table", table)
        return model

    with ft.fast_init(17) as recording:
        model = build()
    assert torch.equal(model.table, expected)
    assert recording.computed == {}
    assert recording.plan(18)["table"].initializer == "given"


def test_a_mask_written_row_by_row_costs_no_seconds():
    calls = []

    def build():
        model = nn.Linear(2, 2)
        mask = torch.zeros(2048, 64)
        for row in range(2048):
            mask[row, : row % 64 + 1] = -1.0
        model.register_buffer("mask", mask)
        return model

    from fastinit.torch import histories  # noqa: PLC0415  # to count its work, which no clock disturbs

    real = histories.painted_over
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histories, "painted_over", lambda layers: calls.append(len(layers)) or real(layers))
        model = started(build)
    assert torch.equal(model.mask.sum(1), -(torch.arange(2048) % 64 + 1.0))
    assert max(calls) <= 66


def test_experts_that_are_drawn_one_by_one_stay_parts():
    def build():
        weight = torch.empty(128, 4, 4)
        for expert in weight:
            init.normal_(expert, std=0.5)
        return weight

    with ft.record() as recording:
        Holder(w=build)
    assert recording.computed == {}
    assert recording.plan(3)["w"].distribution.kind in ("normal", "parts")


def test_no_warning_where_nothing_is_left_out():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        started(lambda: nn.Sequential(nn.LSTM(8, 8), nn.MultiheadAttention(16, 2), nn.Embedding(9, 8, 3)))
