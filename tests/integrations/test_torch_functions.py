"""fastinit.torch beside torch.nn.init: signatures, formulas, bits in every dtype and memory order, generators.

torch is asked what it draws from by looking at the operations that its own function runs, so its formulas judge
ours to the last digits. What is written to, and what autograd is told, stands in test_torch_targets.py.
"""

import inspect
import itertools
import math
import warnings

import numpy as np
import pytest
import reference
import reference_quantile
from bits import NUMPY, patterns
from conftest import unmoved

import fastinit
from fastinit.errors import DistributionError

torch = pytest.importorskip("torch")
ft = pytest.importorskip("fastinit.torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

init = torch.nn.init
NAMES = [name for name in init.__all__ if name.endswith("_") or name == "calculate_gain"]
DTYPES = {name: getattr(torch, name) for name in NUMPY}
NARROW = [name for name in DTYPES if NUMPY[name].itemsize < 4]
DRAWN = {
    "uniform_": {"a": -0.5, "b": 2.0},
    "normal_": {"mean": 0.25, "std": 2.0},
    "trunc_normal_": {"std": 0.5, "a": -0.25, "b": 1.5},
    "xavier_uniform_": {"gain": 1.5},
    "xavier_normal_": {},
    "kaiming_uniform_": {"a": math.sqrt(5)},
    "kaiming_normal_": {"mode": "fan_out", "nonlinearity": "relu"},
    "orthogonal_": {"gain": 0.5},
    "sparse_": {"sparsity": 0.25},
}


def bits_of(tensor):
    """The stored bits of a tensor in logical order, read by torch and not by the code under test."""
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    array = tensor.detach().clone(memory_format=torch.contiguous_format).view(width).numpy()
    return array.view(f"u{tensor.element_size()}")


def numpy_twin(name, options, shape, seed, dtype):
    """The same weights by fastinit's numpy functions, as bits."""
    layout = "oi" + "dhw"[: len(shape) - 2]
    plain = {
        "uniform_": lambda a, b: ("uniform", {"low": a, "high": b}),
        "normal_": lambda mean, std: ("normal", {"mean": mean, "std": std}),
        "trunc_normal_": lambda std, a, b: ("truncated_normal", {"std": std, "lower": a / std, "upper": b / std}),
        "sparse_": lambda sparsity: ("sparse", {"fraction": sparsity}),
    }
    if name in plain:
        called, mine = plain[name](**options)
    else:
        called, mine = name.removesuffix("_"), {"layout": layout, **options}
        if "nonlinearity" in mine:
            mine["activation"] = mine.pop("nonlinearity")
        elif "kaiming" in name:
            mine["activation"] = "leaky_relu"
    width = NUMPY[dtype].itemsize
    array = np.empty(shape, f"u{width}" if dtype in NARROW else dtype)
    getattr(fastinit, called)(shape, seed, out=array, dtype=dtype, **mine)
    return array.view(f"u{width}")


# ---- signatures and formulas -------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_torchs(name):
    """A drop-in that takes its arguments in another order fills something else in silence."""

    def parts(function):
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]

    assert parts(getattr(ft, name)) == parts(getattr(init, name))


class Operations(TorchDispatchMode):
    """Remembers each operation and its numbers."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append((func.overloadpacket.__name__, [x for x in args if isinstance(x, (int, float))]))
        return func(*args, **(kwargs or {}))


def asked(name, shape, options):
    """(operation, its numbers): what torch's own function draws from."""
    with Operations() as operations:
        getattr(init, name)(torch.empty(shape), **options)
    name, numbers = next(seen for seen in operations.seen if seen[0] in {"uniform_", "normal_"})
    return name, numbers + [0.0, 1.0][len(numbers) :]  # the operation is given no argument that is its default


@pytest.mark.parametrize("shape", [(6, 4), (4, 6, 5), (4, 6, 3, 2), (2, 3, 2, 3, 2)])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("xavier_uniform_", {"gain": gain}) for gain in (1.0, 1.5, math.sqrt(2))),
        *(("xavier_normal_", {"gain": gain}) for gain in (1.0, 0.1)),
        *(
            (f"kaiming_{distribution}_", {"a": a, "mode": mode, "nonlinearity": nonlinearity})
            for distribution, a, mode, nonlinearity in itertools.product(
                ("uniform", "normal"), (0, 0.2, math.sqrt(5), None), ("fan_in", "FAN_OUT"),
                ("leaky_relu", "relu", "tanh", "selu", "linear", "conv2d", "sigmoid"),
            )
        ),
    ],
)  # fmt: skip
def test_limits_and_stds_are_torchs(name, options, shape):
    """fan_in of a convolution, the gain of a slope, sqrt(3): each is easily wrong by a constant."""
    operation, numbers = asked(name, shape, options)
    weights = getattr(ft, name)(torch.empty(shape, dtype=torch.float64), **options, generator=17).numpy()
    draws = [reference.draw(17, i) for i in range(weights.size)]
    if operation == "uniform_":
        standard = [2 * reference.unit(draw) - 1 for draw in draws]
        assert numbers[0] == -numbers[1]
    else:
        standard = [reference_quantile.normal(draw >> 11, 0.0, 1.0) for draw in draws]
        assert numbers[0] == 0
    np.testing.assert_allclose(weights.ravel() / standard, numbers[1], rtol=2e-15)


def test_defaults_draw_from_what_torchs_defaults_do():
    assert asked("uniform_", (2,), {}) == ("uniform_", [0.0, 1.0])
    assert asked("normal_", (2,), {}) == ("normal_", [0.0, 1.0])
    uniform, normal = torch.empty(1000, dtype=torch.float64), torch.empty(1000, dtype=torch.float64)
    assert [float(x) for x in ft.uniform_(uniform, generator=17)[:50]] == [
        reference.unit(reference.draw(17, i)) for i in range(50)
    ]
    assert [float(x) for x in ft.normal_(normal, generator=17)[:50]] == [
        reference_quantile.normal(reference.draw(17, i) >> 11, 0.0, 1.0) for i in range(50)
    ]
    truncated = ft.trunc_normal_(torch.empty(100_000, dtype=torch.float64))
    assert 1.99 < truncated.abs().max() <= 2
    assert truncated.std() == pytest.approx(0.87962566103423978, abs=0.01)


@pytest.mark.parametrize("nonlinearity", ["linear", "conv3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"])
@pytest.mark.parametrize("param", [None, 0, 0.3])
def test_gains_are_torchs(nonlinearity, param):
    assert ft.calculate_gain(nonlinearity, param) == init.calculate_gain(nonlinearity, param)


# ---- bits in every dtype and memory order ------------------------------------------------------------


def strided(shape, dtype, order):
    """A tensor of threes in some memory order, and the memory around it."""
    block = torch.full((4 * math.prod(shape) + 40,), 3.0, dtype=dtype)
    axes = len(shape)
    places = {"contiguous": range(axes), "transposed": range(axes)[::-1], "spread": range(axes)}[order]
    strides, extent = [0] * axes, 1
    for axis in reversed(places):
        strides[axis] = extent * (2 if order == "spread" and axis == axes - 1 else 1)
        extent = strides[axis] * shape[axis]
    return block.as_strided(shape, strides, 7), block


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["contiguous", "transposed", "spread"])
@pytest.mark.parametrize(
    ("name", "shape"),
    [*((name, (5, 8)) for name in DRAWN), *((name, (4, 3, 3, 2)) for name in DRAWN if name != "sparse_")],
)
def test_the_bits_are_those_of_the_numpy_function(name, shape, order, dtype):
    """pytorch#80041, #79703: memory order or dtype decided who got which draw; or a byte beside was hit."""
    tensor, block = strided(shape, DTYPES[dtype], order)
    before = bits_of(block)
    assert getattr(ft, name)(tensor, **DRAWN[name], generator=17) is tensor
    expected = numpy_twin(name, DRAWN[name], shape, 17, dtype)
    assert np.array_equal(bits_of(tensor), expected)
    tensor.fill_(3.0)
    assert np.array_equal(bits_of(block), before), "it wrote beside the tensor"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_the_float64_weight_rounded_once(dtype):
    """The reference in plain Python, and no code of the package, says what is stored."""
    form = reference.FORMATS[dtype]
    limit = reference.xavier_scale(12, 8)[2]
    weights = [reference.centered_weight(reference.draw(17, i), limit, form) for i in range(96)]
    tensor = ft.xavier_uniform_(torch.empty(8, 12, dtype=DTYPES[dtype]), generator=17)
    assert np.array_equal(bits_of(tensor), patterns(weights, dtype, (8, 12)))


def test_a_large_tensor_is_filled_to_its_end():
    tensor = ft.uniform_(torch.full((1 << 21,), -1.0), generator=5)
    assert np.array_equal(tensor.numpy(), fastinit.random(1 << 21, 5, dtype="float32"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_are_rounded_once(dtype):
    """torch goes by way of float32: 1 + 2**-8 + 2**-30 becomes 1 in bfloat16, and the right half is above."""
    for value in (0.1, -0.0, 1 + 2**-8 + 2**-30, 3.0):
        tensor = ft.constant_(torch.empty(3, dtype=DTYPES[dtype]), value)
        weight = reference.narrowed(value, reference.FORMATS[dtype])
        assert np.array_equal(bits_of(tensor), patterns([weight] * 3, dtype))


def test_what_draws_nothing_works_as_torchs_does():
    for value in (-math.inf, True, torch.tensor(0.5)):  # a mask, and what fill_ takes
        assert ft.constant_(torch.empty(2), value).tolist() == [float(value)] * 2
    assert ft.constant_(torch.empty(2, dtype=torch.int32), 7).tolist() == [7, 7]
    assert ft.ones_(torch.empty(2, dtype=torch.bool)).all()
    assert not ft.zeros_(torch.ones(2, dtype=torch.float8_e5m2)).float().any()
    for dtype in DTYPES.values():
        assert torch.equal(ft.eye_(torch.empty(2, 3, dtype=dtype)).float(), torch.eye(2, 3))
        tap = ft.dirac_(torch.empty(4, 2, 3, 3, dtype=dtype), 2).float()
        assert torch.equal(tap, init.dirac_(torch.empty(4, 2, 3, 3), 2))
    with pytest.raises(DistributionError, match="leaves the finite range of float16"):
        ft.constant_(torch.empty(2, dtype=torch.float16), 1e6)


# ---- where others went wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "shape", "std", "a", "b"),
    [
        ("bfloat16", (10, 500), 0.02, -2.0, 2.0),  # torchtitan#2269: -2.0 appeared, and the mean was -0.0084
        ("float32", (4000, 500), 0.001, -2.0, 2.0),  # pytorch#155588: 2.0, two thousand standard deviations out
        ("float32", (10_000, 32), 1.0, -100.0, 100.0),  # jax#4559: -inf
        ("float16", (64, 64), 0.02, -0.04, 0.04),  # fms#289
        ("bfloat16", (64, 64), 0.3, -0.3, 0.7),
        ("float8_e4m3fn", (64, 64), 0.3, -0.3, 0.7),
    ],
)
def test_truncated_weights_lie_where_the_bounds_and_the_spread_let_them(dtype, shape, std, a, b):
    tensor = ft.trunc_normal_(torch.empty(shape, dtype=DTYPES[dtype]), std=std, a=a, b=b, generator=17)
    weights = tensor.double()
    assert weights.isfinite().all()
    assert weights.min() >= a
    assert weights.max() <= b
    assert weights.abs().max() < 6 * std
    if a == -b:
        assert abs(weights.mean()) < 5 * std / math.sqrt(weights.numel())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("mean", "std", "a", "b"), [(0.1, 0.3, -0.7, 0.9), (-3.0, 0.7, 0.1, 0.3), (5.0, 1.0, -9, 2)]
)
def test_bounds_hold_in_weight_units_wherever_the_mean_is(mean, std, a, b, dtype):
    """The bounds in standard deviations are rounded: no weight may slip out by that."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns of a mean far outside; there is nothing to warn of
        tensor = ft.trunc_normal_(torch.empty(50, 50, dtype=DTYPES[dtype]), mean, std, a, b, generator=17)
    weights = tensor.double()
    assert a <= weights.min()
    assert weights.max() <= b
    assert weights.unique().numel() > (2 if "float8" in dtype else 8)


def test_a_mean_far_outside_the_bounds_is_drawn_right():
    """tensorflow-probability#1844: nan. The exponential tail beyond 5.25 has its mean near 5.43."""
    tensor = ft.trunc_normal_(torch.empty(100_000, dtype=torch.float64), a=5.25, b=1e6, generator=17)
    assert tensor.mean() == pytest.approx(5.4310, abs=0.005)
    inside = ft.trunc_normal_(torch.empty(1000), 0.5382424, 0.05, 0.80921564, 0.86921564, generator=2)
    assert inside.min() >= 0.80921564
    assert inside.max() <= 0.86921564


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (0.0, 4.0), (-0.25, 0.3)])
def test_the_upper_bound_of_uniform_is_never_drawn(a, b, dtype):
    """pytorch#2740, #197079, mxnet#20651."""
    tensor = ft.uniform_(torch.empty(200_000, dtype=DTYPES[dtype]), a, b, generator=0)
    high = torch.tensor(b, dtype=torch.float64).to(tensor.dtype).double()
    assert tensor.double().max() < high
    assert a <= tensor.double().min()


@pytest.mark.parametrize(
    ("shape", "sparsity", "zeros"), [((5, 7), 0.25, 2), ((10, 3), 0.1, 1), ((4, 4), 1.0, 4), ((4, 4), 0, 0)]
)
def test_sparse_has_its_zeros_in_every_column(shape, sparsity, zeros):
    """mlx PR#3725, pytorch PR#2130: along the wrong axis, or a wrong count."""
    weights = ft.sparse_(torch.empty(shape), sparsity, generator=17)
    assert (weights == 0).sum(0).tolist() == [zeros] * shape[1]
    assert (init.sparse_(torch.empty(shape), sparsity) == 0).sum(0).tolist() == [zeros] * shape[1], "torch agrees"


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5), (3, 4, 5, 6), (1, 7), (7, 1)])
def test_orthogonal_is_orthonormal_on_the_small_side(shape, dtype):
    """pytorch PR#18915: 4 columns instead of 120; and torch itself knows no bfloat16 here."""
    weights = ft.orthogonal_(torch.empty(shape, dtype=DTYPES[dtype]), 2.0, generator=17).double().flatten(1)
    product = weights @ weights.T if weights.shape[0] <= weights.shape[1] else weights.T @ weights
    tolerance = {"float64": 1e-14, "bfloat16": 0.03, "float8_e4m3fn": 0.5}[dtype]
    torch.testing.assert_close(product, 4 * torch.eye(len(product)).double(), atol=tolerance, rtol=0)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 0), (0, 0), (2, 0, 3, 3)])
def test_empty_tensors_are_left_alone(shape):
    """pytorch PR#56505, DeepCTR-Torch#36: a division by a zero fan. Where torch warns, so is it here."""
    for name in ("xavier_uniform_", "xavier_normal_", "orthogonal_", "uniform_", "trunc_normal_"):
        tensor = torch.empty(shape)
        assert getattr(ft, name)(tensor) is tensor
    for name in ("kaiming_uniform_", "kaiming_normal_"):
        tensor = torch.empty(shape)
        with pytest.warns(UserWarning, match="zero-element tensors is a no-op") as caught:
            assert getattr(ft, name)(tensor) is tensor
        assert caught[0].filename == __file__, "the warning names the line of the caller"


def test_bounds_that_meet_give_their_value_and_no_spread_the_mean():
    rng = fastinit.SplitMix64(17)
    assert ft.uniform_(torch.empty(3), 0.5, 0.5, generator=rng).tolist() == [0.5] * 3
    assert ft.trunc_normal_(torch.empty(3), a=0.5, b=0.5, generator=rng).tolist() == [0.5] * 3
    assert ft.trunc_normal_(torch.empty(3), mean=0.5, std=0.0, generator=rng).tolist() == [0.5] * 3
    assert ft.normal_(torch.empty(3), 0.5, 0.0, generator=rng).tolist() == [0.5] * 3
    assert rng.state == reference.advanced(17, 12), "as many draws as any other weights"


# ---- refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("xavier_uniform_", (3,), {}),
        ("xavier_normal_", (), {}),
        ("kaiming_uniform_", (3,), {}),
        ("kaiming_normal_", (3, 3), {"mode": "fan_avg"}),
        ("kaiming_normal_", (3, 3), {"nonlinearity": "gelu"}),
        ("kaiming_normal_", (3, 3), {"a": True}),
        ("kaiming_uniform_", (3, 3), {"a": "x"}),
        ("orthogonal_", (3,), {}),
        ("sparse_", (3, 3, 3), {"sparsity": 0.5}),
        ("eye_", (3,), {}),
        ("dirac_", (3, 3), {}),
        ("dirac_", (3, 3, 3), {"groups": 2}),
    ],
)
def test_shapes_and_choices_are_refused_as_torch_refuses_them(name, shape, options):
    with pytest.raises(ValueError, match=r"\w") as theirs:
        getattr(init, name)(torch.empty(shape), **options)
    tensor = torch.full(shape, 7.0)
    with pytest.raises(ValueError, match=r"\w") as ours:
        getattr(ft, name)(tensor, **options)
    assert str(ours.value).split()[0].lower() in {str(theirs.value).split()[0].lower(), "unknown"}
    assert (tensor == 7).all()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("uniform_", {"a": 2.0, "b": 1.0}, "needs low < high"),
        ("uniform_", {"b": math.inf}, "high must be finite"),
        ("normal_", {"std": -1.0}, "std must be finite and >= 0"),
        ("normal_", {"mean": math.nan}, "mean must be finite"),
        ("trunc_normal_", {"a": 2.0, "b": -2.0}, "a <= b, in the units of the weights"),
        ("trunc_normal_", {"std": 0.0, "mean": 3.0}, "outside"),
        ("trunc_normal_", {"std": -1.0}, "std"),
        ("xavier_uniform_", {"gain": -1.0}, "gain must be finite and >= 0"),
        ("sparse_", {"sparsity": 1.5}, r"fraction must lie in \[0, 1\]"),
        ("normal_", {"std": 1e6}, "leaves the finite range of float16"),
    ],
)
def test_a_refused_request_changes_nothing(name, options, message):
    """Neither the tensor nor any generator; the request can be corrected and keeps its draws."""
    tensor = torch.full((3, 3), 7.0, dtype=torch.float16)
    rng, theirs = fastinit.SplitMix64(17), torch.Generator().manual_seed(17)
    before, default = theirs.get_state(), torch.get_rng_state()
    for generator in (theirs, None):
        with pytest.raises(ValueError, match=message):
            getattr(ft, name)(tensor, **options, generator=generator)
    with unmoved(rng), pytest.raises(ValueError, match=message):
        getattr(ft, name)(tensor, **options, generator=rng)
    assert torch.equal(theirs.get_state(), before)
    assert torch.equal(torch.get_rng_state(), default)
    assert (tensor == 7).all()


def test_what_is_no_tensor_and_what_is_no_generator_is_named():
    with pytest.raises(TypeError, match=r"must be a torch.Tensor, got ndarray; the functions of fastinit itself"):
        ft.xavier_uniform_(np.empty((2, 2)))
    with pytest.raises(
        TypeError, match=r"generator must be None, a torch.Generator, a fastinit.SplitMix64 or an int"
    ):
        ft.normal_(torch.empty(2), generator=np.random.default_rng(17))
    with pytest.raises(TypeError, match=r"normal_\(\) missing 1 required positional argument: 'tensor'"):
        ft.normal_()
    with pytest.raises(ValueError, match="between 0 and"):
        ft.normal_(torch.empty(2), generator=-1)


# ---- generators --------------------------------------------------------------------------------------


def test_manual_seed_governs_the_weights():
    torch.manual_seed(3)
    first, second = ft.normal_(torch.empty(4)), ft.normal_(torch.empty(4))
    torch.manual_seed(3)
    assert torch.equal(ft.normal_(torch.empty(4)), first)
    assert torch.equal(ft.normal_(torch.empty(4)), second)
    assert not torch.equal(first, second)
    torch.manual_seed(4)
    assert not torch.equal(ft.normal_(torch.empty(4)), first)


def test_a_torch_generator_gives_one_key_of_64_bits():
    """However large the tensor: so its weights can be made in any order, and the next ones do not depend on it."""
    generator, twin = torch.Generator().manual_seed(17), torch.Generator().manual_seed(17)
    tensor = ft.uniform_(torch.empty(1000), generator=generator)
    key = torch.empty((), dtype=torch.int64).random_(-(2**63), None, generator=twin).item() % 2**64
    assert torch.equal(generator.get_state(), twin.get_state())
    assert np.array_equal(tensor.numpy(), fastinit.random(1000, key, dtype="float32"))
    keys = [key] + [torch.empty((), dtype=torch.int64).random_(-(2**63), None).item() % 2**64 for _ in range(200)]
    assert sum(key >> 63 for key in keys) in range(60, 141), "the highest bit is drawn too"


def test_the_key_is_drawn_on_the_cpu_whatever_the_default_device():
    torch.manual_seed(3)
    expected = ft.normal_(torch.empty(4))
    torch.manual_seed(3)
    tensor = torch.empty(4)
    with torch.device("meta"):
        assert ft.normal_(tensor) is tensor
    assert torch.equal(tensor, expected)


def test_a_splitmix64_moves_on_by_one_draw_a_weight():
    rng = fastinit.SplitMix64(17)
    ft.xavier_uniform_(torch.empty(3, 4), generator=rng)
    ft.kaiming_normal_(torch.empty(5, 4), generator=rng)
    second = ft.orthogonal_(torch.empty(2, 2, dtype=torch.float64), generator=rng)
    assert rng.state == reference.advanced(17, 36)
    assert np.array_equal(second.numpy(), fastinit.orthogonal((2, 2), reference.advanced(17, 32), layout="oi"))


def test_nothing_to_draw_takes_no_key():
    before = torch.get_rng_state()
    ft.uniform_(torch.empty(0))
    ft.normal_(torch.empty(3, device="meta"))
    ft.orthogonal_(torch.empty(3, 3, device="meta"))
    ft.zeros_(torch.empty(3))
    assert torch.equal(torch.get_rng_state(), before)
