"""One training step on the tape against HIPS autograd and torch eager: float64 in all three, in turn, one process.

Forward, backward and the whole step (with plain gradient descent) are timed apart. HIPS autograd and fastinit
multiply with numpy's BLAS, torch with its own; each uses the threads it finds (on a busy machine, compare with
OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1). A ratio is the peer's time over fastinit's.
"""

import contextlib
from itertools import pairwise

import numpy as np
import pytest

from fastinit import GraphRetention, NamedParameter, Tensor, TensorValue
from fastinit._engine.cpus import default_threads
from fastinit.autodiff import SGD

BATCH, RATE = 64, 0.01
NETS = {"784-10-10": (784, 10, 10), "512-512-512-512": (512, 512, 512, 512)}


def problem(widths):
    """Weights, inputs and targets; the same numbers for all."""
    rng = np.random.default_rng(17)
    weights = [rng.standard_normal(pair) * (2 / pair[0]) ** 0.5 for pair in pairwise(widths)]
    biases = [np.zeros(width) for width in widths[1:]]
    return weights, biases, rng.standard_normal((BATCH, widths[0])), rng.integers(0, widths[-1], BATCH)


class Own:
    """fastinit."""

    def __init__(self, widths):
        weights, biases, inputs, self.targets = problem(widths)
        self.inputs = TensorValue.constant(Tensor(inputs))
        self.weights = [NamedParameter.from_tensor(f"layer.{i}.weight", Tensor(w)) for i, w in enumerate(weights)]
        self.biases = [NamedParameter.from_tensor(f"layer.{i}.bias", Tensor(b)) for i, b in enumerate(biases)]
        self.optimizer = SGD([*self.weights, *self.biases], RATE)
        self.recorded = self.forward()

    def forward(self):
        x = self.inputs
        for weight, bias in zip(self.weights, self.biases, strict=True):
            last = weight is self.weights[-1]
            x = x @ weight.tensor + bias.tensor
            x = x if last else x.relu()
        return x.cross_entropy(self.targets)

    def backward(self):
        self.optimizer.zero_gradient()
        self.recorded.backward(GraphRetention.RETAIN)

    def step(self):
        self.optimizer.zero_gradient()
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Autograd:
    """HIPS autograd."""

    def __init__(self, widths):
        import autograd.numpy as anp  # noqa: PLC0415
        from autograd.core import make_vjp  # noqa: PLC0415

        self.numpy, self.make_vjp = anp, make_vjp
        weights, biases, self.inputs, self.targets = problem(widths)
        self.parameters = [*weights, *biases]
        self.rows = np.arange(BATCH)
        self.recorded = self.forward()

    def loss(self, parameters):
        anp, x, layers = self.numpy, self.inputs, len(parameters) // 2
        for i in range(layers):
            x = anp.dot(x, parameters[i]) + parameters[layers + i]
            x = x if i == layers - 1 else anp.maximum(x, 0.0)
        shifted = x - anp.max(x, axis=1, keepdims=True)
        logarithms = shifted - anp.log(anp.sum(anp.exp(shifted), axis=1, keepdims=True))
        return -anp.mean(logarithms[self.rows, self.targets])

    def forward(self):
        return self.make_vjp(self.loss, self.parameters)

    def backward(self):
        return self.recorded[0](1.0)

    def step(self):
        pull, loss = self.make_vjp(self.loss, self.parameters)
        gradients = pull(1.0)
        self.parameters = [w - RATE * g for w, g in zip(self.parameters, gradients, strict=True)]
        return float(loss)


class Torch:
    """torch, eager."""

    def __init__(self, widths):
        import torch  # noqa: PLC0415

        torch.set_num_threads(default_threads())  # other cases want one
        self.torch = torch
        weights, biases, inputs, targets = problem(widths)
        self.weights = [torch.tensor(w, requires_grad=True) for w in weights]
        self.biases = [torch.tensor(b, requires_grad=True) for b in biases]
        self.inputs, self.targets = torch.tensor(inputs), torch.tensor(targets)
        self.optimizer = torch.optim.SGD([*self.weights, *self.biases], RATE)
        self.recorded = self.forward()

    def forward(self):
        x = self.inputs
        for weight, bias in zip(self.weights, self.biases, strict=True):
            last = weight is self.weights[-1]
            x = x @ weight + bias
            x = x if last else x.relu()
        return self.torch.nn.functional.cross_entropy(x, self.targets)

    def backward(self):
        self.optimizer.zero_grad()
        self.recorded.backward(retain_graph=True)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        return loss.item()


CONTESTANTS = {"fastinit": Own, "autograd": Autograd, "torch": Torch}
LEAST = {"autograd": 1.0, "torch": 0.33}
CALLS = {"784-10-10": 100, "512-512-512-512": 5}


def contestants(net, part):
    """Calls of one part of a step, of all that are installed, after three steps in which they must agree."""
    tapes = {}
    for name, tape in CONTESTANTS.items():
        with contextlib.suppress(ImportError):
            tapes[name] = tape(NETS[net])
    for _ in range(3):
        own, *others = (tape.step() for tape in tapes.values())
        assert others == pytest.approx([own] * len(others), rel=1e-9), "the contestants do not do the same work"
    for tape in tapes.values():
        tape.recorded = tape.forward()  # a step spoils what was recorded
    return {name: repeated(getattr(tape, part), CALLS[net]) for name, tape in tapes.items()}


def repeated(run, times):
    def many():
        for _ in range(times):
            run()

    return many


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("part", ["forward", "backward", "step"])
@pytest.mark.parametrize("contestant", CONTESTANTS)
def bench_step(race, net, part, contestant):
    """Forward, backward, step."""
    race(
        f"tape {net}, {part}",
        contestant,
        lambda: contestants(net, part),
        least=LEAST,
        calls=CALLS[net],
        bound="Python's calls" if net == "784-10-10" else "BLAS",
    )
