"""Every operation against torch in float64: values and gradients, on every shape the tape is tried on."""

import numpy as np
import pytest
from conftest import peer

torch = peer("torch")

from tape_cases import CASES, IDS, MASK, drawn  # noqa: E402

from fastinit import NamedParameter, Tensor, TensorValue  # noqa: E402
from fastinit import autodiff as ad  # noqa: E402

F = torch.nn.functional


def over(x, axis):
    return tuple(range(x.ndim)) if axis is None else axis


THEIRS = {
    "negative": torch.neg, "exp": torch.exp, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "relu": torch.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01), "gelu": F.gelu, "silu": F.silu, "abs": torch.abs,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "log": torch.log, "sqrt": torch.sqrt,
    "softplus": lambda x: F.softplus(x, threshold=1e9),
}  # fmt: skip


def split(label):
    """A label of AXES or ROWS, back as (shape, axis, ...)."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(label):
        depth += (letter == "(") - (letter == ")")
        if letter == " " and not depth:
            parts.append(label[start:at])
            start = at + 1
    return [eval(part) for part in [*parts, label[start:]]]


def theirs(name, label, x):
    """The same operation in torch."""
    if name in THEIRS:
        return THEIRS[name](*x)
    if name in ("add", "subtract", "multiply", "divide", "power", "matmul"):
        return getattr(torch, {"power": "pow"}.get(name, name))(*x)
    return SPECIAL[name](label, *x)


def reduced(name):
    def run(label, x):
        axis, *rest = split(label)[1:]
        keepdims = bool(rest and rest[0])
        axes = over(x, axis)
        if axes == ():
            return x.abs() if name == "norm" else x + 0
        if name == "max":
            return torch.amax(x, axes, keepdim=keepdims)
        if name == "norm":
            return torch.linalg.vector_norm(x, dim=axes, keepdim=keepdims)
        return getattr(torch, name)(x, axes, keepdim=keepdims)

    return run


def normalized(x, axes, centre, epsilon):
    x = x - x.mean(axes, keepdim=True) if centre else x
    return x / torch.sqrt((x * x).mean(axes, keepdim=True) + epsilon)


def norm_rows(centre):
    def run(label, x):
        if label == "two axes":
            return F.layer_norm(x, x.shape[-2:], eps=0.1) if centre else F.rms_norm(x, x.shape[-2:], eps=0.1)
        return normalized(x, split(label)[1], centre, 1e-5)

    return run


def softmax(label, x):
    if label == "masked":
        return x.masked_fill(torch.tensor(MASK), -torch.inf).softmax(-1)
    return x.softmax(split(label)[1])


def where(label, x, y):
    shape = np.broadcast_shapes(x.shape, y.shape)
    return torch.where(torch.tensor(np.indices(shape).sum(0) % 2 == 0), x, y)


def sliced(label, x):
    if label == "ints and steps":
        return x[1].flip(0)[::2][:, None, 1:]  # torch has no negative steps
    return x[2:2] if label == "empty" else x[..., None]


SPECIAL = {
    **{name: reduced(name) for name in ("sum", "mean", "max", "norm")},
    "reshape": lambda label, x: x.reshape(4, -1) if label == "-1" else x.reshape(tuple(x.shape)[::-1]),
    "transpose": lambda label, x: x.permute(2, 0, 1) if "axes" in label else x.permute(tuple(range(x.ndim)[::-1])),
    "slice": sliced,
    "gather": lambda label, x: x[torch.tensor({"repeated": [[2, 0], [2, 2]], "one": 1, "none": []}[label]).long()],
    "concatenate": lambda label, x, y: torch.cat([x, y, x]) if label == "axis 0" else torch.cat([x, y], -1),
    "where": where,
    "softmax": softmax,
    "log_softmax": lambda label, x: x.log_softmax(split(label)[1]),
    "layer_norm": norm_rows(True),
    "rms_norm": norm_rows(False),
    "cross_entropy": lambda label, x: F.cross_entropy(
        x, torch.tensor({"rows": [0, 3, 3], "axis 1": [[0, 2], [1, 1]], "one": 2}[label])
    ),
}  # fmt: skip


def close(found, expected):
    """Agreement to 1e-12; where terms of size 1 cancel, to a part of the largest element, or of 1."""
    assert found.shape == tuple(expected.shape)
    largest = float(np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13 * largest + 1e-16)


@pytest.mark.parametrize(("name", "label", "function", "draws"), CASES, ids=IDS)
@pytest.mark.parametrize("seed", [17, 18, 19])
def test_values_and_gradients_are_torchs(name, label, function, draws, seed):
    inputs = drawn(draws, seed)
    own = [TensorValue.parameter(Tensor(values)) for values in inputs]
    twins = [torch.tensor(values, requires_grad=True) for values in inputs]
    result, expected = function(*own), theirs(name, label, twins)
    close(result.value.values, expected.detach().numpy())
    weight = np.random.default_rng(seed).standard_normal(result.shape)
    result.backward_with_seed(Tensor(weight))
    expected.backward(torch.tensor(weight))
    for leaf, twin in zip(own, twins, strict=True):
        gradient = np.zeros(twin.shape) if twin.grad is None else twin.grad.numpy()
        close(leaf.gradient_snapshot().values, gradient)


@pytest.mark.parametrize("seed", range(20))
def test_random_broadcast_shapes(seed):
    rng = np.random.default_rng(seed)
    whole = tuple(rng.integers(0, 4, rng.integers(0, 5)).tolist())
    shapes = [
        tuple(1 if rng.random() < 0.4 else n for n in whole[rng.integers(0, len(whole) + 1) :]) for _ in range(3)
    ]
    inputs = [np.asarray(rng.uniform(0.5, 2.0, shape)) for shape in shapes]
    own = [TensorValue.parameter(Tensor(values)) for values in inputs]
    twins = [torch.tensor(values, requires_grad=True) for values in inputs]

    def function(x, y, z):
        return (x * y - z / x) ** 2 + (y - z) * x

    result, expected = function(*own), function(*twins)
    close(result.value.values, expected.detach().numpy())
    result.sum().backward()
    expected.sum().backward()
    for leaf, twin in zip(own, twins, strict=True):
        close(leaf.gradient_snapshot().values, twin.grad.numpy())


def test_equal_maxima_share_as_in_amax():
    values = [[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]]
    leaf, twin = (
        TensorValue.parameter(Tensor(values)),
        torch.tensor(values, dtype=torch.float64, requires_grad=True),
    )
    leaf.max(axis=1).sum().backward()
    torch.amax(twin, 1).sum().backward()
    close(leaf.gradient_snapshot().values, twin.grad.numpy())


@pytest.mark.parametrize(
    ("ours", "others"),
    [
        (lambda p: ad.SGD(p, 0.05), lambda p: torch.optim.SGD(p, 0.05)),
        (lambda p: ad.Momentum(p, 0.05, 0.8), lambda p: torch.optim.SGD(p, 0.05, momentum=0.8)),
        (lambda p: ad.Adam(p, 0.05), lambda p: torch.optim.Adam(p, 0.05)),
    ],
)
def test_twenty_steps_of_training_are_torchs(ours, others):
    rng = np.random.default_rng(3)
    start, inputs, wanted = rng.standard_normal((4, 3)), rng.standard_normal((5, 4)), rng.standard_normal((5, 3))
    parameter = NamedParameter.from_tensor("w", Tensor(start))
    twin = torch.tensor(start, requires_grad=True)
    own, other = ours([parameter]), others([twin])
    for _ in range(20):
        own.zero_gradient()
        other.zero_grad()
        ((Tensor(inputs) @ parameter.tensor).tanh() - Tensor(wanted)).power(2).mean().backward()
        ((torch.tensor(inputs) @ twin).tanh() - torch.tensor(wanted)).pow(2).mean().backward()
        own.step()
        other.step()
    np.testing.assert_allclose(parameter.tensor.value.values, twin.detach().numpy(), rtol=1e-12)
