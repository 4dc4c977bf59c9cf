"""What the torch functions write to: autograd's knowledge of it, torch's refusals, modules of every kind.

A write that torch does not notice gives a wrong gradient in silence; so each test holds ours beside what torch's
own in-place function does to a twin.
"""

import copy
import warnings

import numpy as np
import pytest
from conftest import unmoved

import fastinit

torch = pytest.importorskip("torch")
ft = pytest.importorskip("fastinit.torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn.utils import parametrizations, parametrize  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

nn, init = torch.nn, torch.nn.init
Z = fastinit.normal(4, 17, dtype="float32")
"""What every fill of four normal weights below must give."""


def refusal(write):
    """torch's own error for an in-place operation."""
    with pytest.raises(RuntimeError) as error:
        write()
    return str(error.value)


# ---- autograd ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float8_e5m2])
@pytest.mark.parametrize("name", ["uniform_", "kaiming_normal_", "constant_"])
def test_the_version_counter_moves_as_for_torch(name, dtype):
    arguments = (0.5,) if name == "constant_" else ()
    tensor = torch.empty(3, 3, dtype=dtype)
    view = tensor.t()
    getattr(ft, name)(view, *arguments)
    assert tensor._version == view._version == 1


def test_a_saved_tensor_that_was_filled_is_noticed():
    """The gradient would be that of the new weights at the old ones."""
    weight = nn.Parameter(torch.ones(4))
    loss = (weight * weight).sum()
    ft.normal_(weight, generator=17)
    assert "modified by an inplace operation" in refusal(loss.backward)


def test_the_gradient_right_after_a_fill_is_that_of_the_filled_weights():
    weight = nn.Parameter(torch.ones(4))
    (weight**2).sum().backward()
    assert weight.grad.tolist() == [2] * 4
    ft.normal_(weight, generator=17)
    assert weight.grad.tolist() == [2] * 4, "a fill leaves the gradient alone, as torch's does"
    weight.grad = None
    (weight**2).sum().backward()
    assert np.array_equal(weight.grad.numpy(), 2 * Z)
    assert weight.is_leaf
    assert weight.requires_grad


def test_a_leaf_is_filled_where_torch_fills_it_and_refused_where_torch_refuses_it():
    """torch.nn.init works under no_grad; a bare in-place operation on a leaf does not."""
    weight = nn.Parameter(torch.ones(4))
    expected = refusal(weight.normal_)
    with pytest.raises(RuntimeError) as error, ft.writing(weight):
        raise AssertionError("the memory was handed out")
    assert str(error.value) == expected
    assert weight.tolist() == [1] * 4
    assert ft.normal_(weight, generator=17) is weight
    assert np.array_equal(weight.detach().numpy(), Z)


def test_a_write_in_grad_mode_has_its_place_in_the_graph():
    """As copy_ has: what was computed before no longer reaches the loss."""
    weight = nn.Parameter(torch.ones(4))
    hidden = weight * 2
    with ft.writing(hidden) as (array, dtype):
        fastinit.normal(4, 17, out=array, dtype=dtype)
    assert np.array_equal(hidden.detach().numpy(), Z)
    hidden.sum().backward()
    assert weight.grad.tolist() == [0] * 4


def test_rows_of_a_parameter_are_filled_without_a_warning():
    """A padding row, the forget gate: views of a leaf."""
    weight = nn.Parameter(torch.ones(3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ft.normal_(weight[1], generator=17)
        ft.constant_(weight[2, 1:3], 0.5)
    assert np.array_equal(weight.detach().numpy(), [[1] * 4, Z, [1, 0.5, 0.5, 1]])
    assert weight._version == 2


def test_an_interrupted_write_is_a_write():
    tensor = torch.ones(4)

    def write():
        with ft.writing(tensor) as (array, _):
            array[:2] = 7
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert tensor.tolist() == [7, 7, 1, 1]
    assert tensor._version == 1


# ---- what torch refuses to change in place -----------------------------------------------------------


def test_elements_that_share_memory_are_refused_as_torch_refuses_them():
    rng = fastinit.SplitMix64(17)
    for tensor in (torch.ones(1).expand(4), torch.ones(3, 1).expand(3, 10**12)):
        expected = refusal(torch.ones(1).expand(4).normal_)
        with unmoved(rng):
            assert refusal(lambda tensor=tensor: ft.normal_(tensor, generator=rng)) == expected
    windows = torch.ones(5).as_strided((4, 2), (1, 1))  # torch lets these pass, and draws the last of each
    with unmoved(rng), pytest.raises(ValueError, match="share memory"):
        ft.normal_(windows, generator=rng)
    assert ft.normal_(torch.ones(4, 1).expand(4, 1), generator=17).shape == (4, 1)


def test_an_inference_tensor_is_refused_outside_of_inference_mode_only():
    with torch.inference_mode():
        tensor = torch.ones(4)
    rng = fastinit.SplitMix64(17)
    with unmoved(rng):
        message = refusal(lambda: ft.normal_(tensor, generator=rng))
    assert tensor.tolist() == [1] * 4
    assert message == refusal(lambda: init.normal_(tensor))
    ordinary = torch.ones(4)
    with torch.inference_mode():
        assert np.array_equal(ft.normal_(tensor, generator=17).numpy(), Z)
        assert np.array_equal(ft.normal_(ordinary, generator=17).numpy(), Z)
    assert ordinary._version == 1


class Elsewhere(torch.Tensor):
    """As DTensor and quantized weights are: the values lie in another tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} was called")


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch's own, of quantized tensors
def test_what_is_no_dense_tensor_of_weights_is_refused_by_what_it_is():
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    for tensor, message in (
        (torch.eye(3).to_sparse(), "sparse_coo; fill a dense one, then convert it"),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "dense"),
        (quantized, "got torch.qint8"),
        (torch.ones(3, dtype=torch.int32), "got torch.int32"),
        (torch.ones(3, dtype=torch.complex64), "got torch.complex64"),
        (Elsewhere(torch.ones(3)), "the values of this Elsewhere lie in other tensors; fill those"),
    ):
        rng = fastinit.SplitMix64(17)
        with unmoved(rng), pytest.raises(TypeError, match=message):
            ft.normal_(tensor, generator=rng)


# ---- tensors that are not ordinary memory ------------------------------------------------------------


def test_meta_and_fake_tensors_are_returned_as_they_are():
    meta = torch.empty(3, 4, device="meta")
    with FakeTensorMode():
        fake = torch.empty(3, 4)
    for name in (
        "uniform_",
        "normal_",
        "trunc_normal_",
        "xavier_uniform_",
        "kaiming_normal_",
        "orthogonal_",
        "ones_",
    ):
        assert getattr(ft, name)(meta) is meta
        assert getattr(ft, name)(fake) is fake
    assert ft.sparse_(meta, 0.5) is meta
    assert ft.constant_(meta, 0.5) is meta
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        ft.xavier_uniform_(torch.empty(3, device="meta"))
    with pytest.raises(TypeError, match=r"to_empty\(device='cpu'\)"), ft.writing(meta):
        pass


def test_a_module_from_the_meta_device_is_filled_once_it_has_memory():
    with torch.device("meta"):
        layer = nn.Linear(4, 3)
        ft.xavier_uniform_(layer.weight, generator=17)
    layer = layer.to_empty(device="cpu")
    ft.xavier_uniform_(layer.weight, generator=17)
    assert np.array_equal(layer.weight.detach(), fastinit.xavier_uniform((3, 4), 17, dtype="float32", layout="oi"))


def test_a_view_with_the_sign_bit_shows_the_weights():
    """The imaginary part of a conjugate: torch changes the sign as it reads."""
    whole = torch.zeros(4, dtype=torch.complex64)
    part = whole.conj().imag
    assert part.is_neg()
    ft.normal_(part, generator=17)
    assert np.array_equal(part.resolve_neg().numpy(), Z)
    assert np.array_equal(whole.imag.numpy(), -Z)


class Seen(TorchDispatchMode):
    """Remembers the operations."""

    def __enter__(self):
        self.names = []
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_dispatch_mode_sees_the_write(dtype):
    """A recorder or a tracer that missed it would take the tensor for untouched."""
    tensor, twin = torch.empty(4, dtype=dtype), ft.normal_(torch.empty(4, dtype=dtype), generator=17)
    with Seen() as seen:
        ft.normal_(tensor, generator=17)
    assert seen.names[-1] == "copy_"
    assert torch.equal(tensor, twin)


@pytest.mark.filterwarnings("ignore")  # a trace is of torch's past
def test_transforms_and_traces_see_the_write():
    """Their tensors have no memory, or one that is read once: a write behind them is lost."""

    def loss(weight):
        return (weight * ft.normal_(torch.empty(4), generator=17)).sum()

    assert np.array_equal(torch.func.grad(loss)(torch.ones(4)).numpy(), Z)
    batch = torch.vmap(lambda row: ft.normal_(row, generator=17))(torch.zeros(2, 4))
    assert np.array_equal(batch.numpy(), [Z, Z])
    for dtype in (torch.float32, torch.bfloat16):
        traced = torch.jit.trace(
            lambda x: ft.normal_(x + 1, generator=17) * 2, torch.zeros(4, dtype=dtype), check_trace=False
        )
        assert torch.equal(
            traced(torch.ones(4, dtype=dtype)), ft.normal_(torch.ones(4, dtype=dtype), generator=17) * 2
        )


def test_a_freed_storage_is_refused():
    """FSDP frees it between uses; numpy and torch would both write to address 0."""
    tensor, rng = torch.ones(4), fastinit.SplitMix64(17)
    tensor.untyped_storage().resize_(0)
    with unmoved(rng), pytest.raises(RuntimeError, match="storage of this tensor was freed"):
        ft.normal_(tensor, generator=rng)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2])
def test_a_storage_that_was_filled_may_be_resized(dtype):
    """numpy's view of a tensor forbids that for good, and FSDP frees storages between uses."""
    tensor = torch.empty(3, 4, dtype=dtype)
    ft.normal_(tensor.t(), generator=17)
    with ft.writing(tensor) as (array, _):
        assert array.shape == (3, 4)
        assert array.flags.writeable
    tensor.untyped_storage().resize_(0)
    tensor.resize_(8, 8)
    with ft.fast_init(17):
        layer = nn.Linear(4, 4)
        drawn = torch.randn(4)
        drawn.resize_(8)
    layer.weight.data.resize_(8, 8)


def test_an_empty_tensor_may_be_written_to_in_any_mode():
    tensor = torch.empty(0, 3, dtype=torch.bfloat16)
    with ft.writing(tensor) as (array, dtype):
        assert (array.shape, dtype) == ((0, 3), "bfloat16")
    with Seen() as seen, ft.writing(tensor) as (array, _):
        assert array.shape == (0, 3)
    assert seen.names[-1] == "copy_"


def test_a_subclass_and_a_function_mode_have_the_call_first():
    called = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            called.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            called.append(func)
            return func(*args, **(kwargs or {}))

    tensor = torch.empty(4).as_subclass(Own)
    assert ft.normal_(tensor, generator=17) is tensor
    assert called.pop(0) is ft.normal_
    assert np.array_equal(tensor.as_subclass(torch.Tensor), Z)
    called.clear()
    with Mode():
        ft.normal_(torch.empty(4), generator=17)
    assert ft.normal_ in called


def test_an_uninitialized_parameter_is_refused_by_torchs_own_words():
    layer = nn.LazyLinear(3)
    for name in ("normal_", "xavier_uniform_", "kaiming_uniform_", "orthogonal_", "ones_"):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            getattr(ft, name)(layer.weight)
    layer(torch.ones(2, 4))
    ft.xavier_uniform_(layer.weight, generator=17)
    assert np.array_equal(layer.weight.detach(), fastinit.xavier_uniform((3, 4), 17, dtype="float32", layout="oi"))


# ---- modules of every kind ---------------------------------------------------------------------------


def fill(module):
    for parameter in module.parameters():
        (ft.xavier_uniform_ if parameter.dim() > 1 else ft.zeros_)(parameter)


def test_copied_compiled_and_scripted_modules_are_filled():
    layer = nn.Linear(4, 3)
    inputs = torch.ones(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own age
        scripted = torch.jit.script(nn.Linear(4, 3))
    compiled = torch.compile(nn.Linear(4, 3), backend="eager")
    compiled(inputs)
    for module in (layer, copy.deepcopy(layer), scripted, compiled):
        torch.manual_seed(5)
        fill(module)
    assert torch.equal(layer(inputs), scripted(inputs))
    assert torch.equal(layer(inputs), compiled(inputs)), "the compiled module runs with the new weights"
    twin = copy.deepcopy(layer)
    ft.normal_(layer.weight, generator=17)
    assert not torch.equal(twin.weight, layer.weight), "a copy has memory of its own"


@pytest.mark.filterwarnings("error")
def test_a_compiled_function_may_call_them():
    """A compiler that reads numpy as torch would draw something else."""

    @torch.compile(backend="eager")
    def start(tensor):
        ft.constant_(tensor[:1], 0.5)
        return ft.normal_(tensor, generator=17) * 2 + 1

    assert np.array_equal(start(torch.zeros(4)).numpy(), Z * 2 + 1)


def test_a_parametrized_weight_is_assigned_and_filling_it_warns():
    """torch's own functions fill the computed tensor, which the next call computes again, and say nothing."""
    layer = parametrizations.weight_norm(nn.Linear(4, 3))
    before = layer.weight.detach().clone()
    with pytest.warns(UserWarning, match=r"layer\.weight = normal_") as caught:
        ft.normal_(layer.weight)
    assert caught[0].filename == __file__
    assert torch.equal(layer.weight, before)
    layer.weight = ft.xavier_uniform_(torch.empty(3, 4), generator=17)
    expected = fastinit.xavier_uniform((3, 4), 17, dtype="float32", layout="oi")
    np.testing.assert_allclose(layer.weight.detach().numpy(), expected, rtol=1e-6)
    ft.xavier_uniform_(layer.parametrizations.weight.original1, generator=17)
    assert parametrize.is_parametrized(layer)


NETWORKS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)), (64, 8), lambda out: out),
    "cnn": (
        lambda: nn.Sequential(nn.Conv1d(2, 8, 3), nn.ReLU(), nn.Conv1d(8, 3, 2)),
        (64, 2, 4),
        lambda out: out[..., 0],
    ),
    "rnn": (lambda: nn.LSTM(4, 3), (2, 64, 4), lambda out: out[0][-1]),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_started_here_learns(kind):
    """The fill, the gradients and the optimizer agree about the memory of a weight."""
    make, shape, head = NETWORKS[kind]
    torch.manual_seed(17)
    network = make()
    fill(network)
    inputs = ft.normal_(torch.empty(shape))
    wanted = inputs.flatten(1).sum(-1).sign().long() + 1 if kind != "rnn" else inputs[-1].sum(-1).sign().long() + 1
    optimizer = torch.optim.SGD(network.parameters(), 0.5)
    losses = []
    for _ in range(20):
        loss = nn.functional.cross_entropy(head(network(inputs)), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]


# ---- numpy's functions and a tensor ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fn"])
def test_a_part_of_a_larger_weight_is_written_to_a_tensor(dtype):
    """A shard: its elements are those of the whole."""
    whole = ft.kaiming_uniform_(torch.empty(6, 5, dtype=getattr(torch, dtype)), generator=17)
    shard = torch.empty(5, 3, dtype=getattr(torch, dtype)).t()
    with ft.writing(shard) as (array, name):
        fastinit.kaiming_uniform(
            (6, 5), 17, "leaky_relu", 0.0, out=array, dtype=name, index=slice(2, 5), layout="oi"
        )
    assert name == dtype
    assert torch.equal(shard.double(), whole[2:5].double())
    assert shard._version == 1


@pytest.mark.parametrize("kind", [torch.empty, lambda *shape: nn.Parameter(torch.empty(*shape))])
def test_a_tensor_as_out_is_refused_with_what_to_type(kind):
    """Through numpy autograd would not notice; the words a user reads must lead to the functions that tell it."""
    tensor, rng = kind(2, 2), fastinit.SplitMix64(17)
    for call in (
        lambda: fastinit.xavier_uniform(None, rng, out=tensor),
        lambda: fastinit.zeros((2, 2), out=tensor),
    ):
        with unmoved(rng), pytest.raises(TypeError, match="out must be a numpy array") as error:
            call()
        assert "fastinit.torch.xavier_uniform_(tensor, generator=17)" in str(error.value)
        assert "numpy()" not in str(error.value)
    ft.xavier_uniform_(tensor, generator=17)
    with torch.no_grad(), ft.writing(tensor) as (out, dtype):
        fastinit.xavier_uniform(None, rng, out=out, dtype=dtype)
    assert rng.state != 17


def test_a_state_dict_is_a_model_to_plan():
    """Its tensors state their shapes and dtypes, on the meta device too; nothing is saved first."""
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).to(torch.bfloat16)
    plan = fastinit.Plan.from_specs(model.state_dict(), 17)
    facts = {name: (tensor.shape, tensor.dtype.name) for name, tensor in plan.items()}
    assert facts["0.weight"] == ((4, 6), "bfloat16")
    assert facts["1.running_var"] == ((4,), "bfloat16")
    assert facts["1.num_batches_tracked"] == ((), "int64")
    assert list(plan) == list(model.state_dict())
