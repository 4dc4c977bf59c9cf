"""Three optimizers, as small as the lessons need: `SGD`, `Momentum`, `Adam`.

A step reads every gradient, computes every new value, and only then assigns them: a refused step changes nothing.
An optimizer's state is kept by the name of the parameter it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, SupportsFloat

import numpy as np

from .._engine.checks import as_nonnegative, as_number
from .._engine.names import refuse_duplicates
from ..errors import TensorAutodiffError, TensorError
from .operations import Array
from .tape import TensorValue
from .tensor import Tensor

Slots = dict[str, Array]
"""The state of one parameter: quantity to array."""


class Named(Protocol):
    """A parameter, as far as an optimizer uses it; `NamedParameter` is one."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def tensor(self) -> TensorValue:
        """Its trainable leaf."""


class _Optimizer:
    """The step all share; a subclass says how one value moves."""

    def __init__(self, parameters: Iterable[Named], learning_rate: SupportsFloat) -> None:
        self._leaves = _leaves_of(parameters)
        self._state: dict[str, Slots] = {name: {} for name in self._leaves}
        self.learning_rate: float = as_nonnegative(learning_rate, "learning_rate")

    @property
    def state(self) -> Mapping[str, Mapping[str, Tensor]]:
        """The state as it is now: parameter name to quantity to tensor."""
        return {
            name: {quantity: Tensor(values) for quantity, values in slots.items()}
            for name, slots in self._state.items()
        }

    def zero_gradient(self) -> None:
        """Forget the accumulated gradient of every parameter."""
        for leaf in self._leaves.values():
            leaf.zero_gradient()

    def step(self) -> None:
        """Move every parameter that has a gradient.

        Raises
        ------
        TensorAutodiffError
            If a new value would not be finite, naming the parameter; nothing is changed then.
        """
        moves = {}
        for name, leaf in self._leaves.items():
            gradient = leaf.gradient_snapshot()
            if leaf.has_gradient and gradient is not None:
                with np.errstate(all="ignore"):  # a value that is not finite is refused by name below
                    change, slots = self._change(gradient.values, self._state[name])
                    moves[name] = _moved(name, leaf.value.values, change), slots
        for name, (tensor, slots) in moves.items():
            self._leaves[name].assign(tensor)
            self._state[name] = slots

    def _change(self, gradient: Array, slots: Slots) -> tuple[Array, Slots]:
        raise NotImplementedError


def _leaves_of(parameters: Iterable[Named]) -> dict[str, TensorValue]:
    """Return the trainable leaves by name, in their order."""
    if not isinstance(parameters, Iterable):
        raise TypeError(
            f"an optimizer takes a list of parameters, got one {type(parameters).__name__}; write [parameter]"
        )
    given = tuple(parameters)
    for parameter in given:
        _check_named(parameter)
    refuse_duplicates(parameter.name for parameter in given)
    for parameter in given:
        if not parameter.tensor.is_trainable:
            raise TensorAutodiffError(
                f"parameter {parameter.name!r} is no trainable leaf, and gets no gradient; make it with "
                "TensorValue.parameter"
            )
    return {parameter.name: parameter.tensor for parameter in given}


def _check_named(parameter: object) -> None:
    named = isinstance(getattr(parameter, "name", None), str)
    if not named or not isinstance(getattr(parameter, "tensor", None), TensorValue):
        raise TypeError(
            f"a parameter has a .name and a trainable leaf, its .tensor, and got {type(parameter).__name__}; make "
            "one with NamedParameter.from_tensor(name, tensor)"
        )


def _moved(name: str, values: Array, change: Array) -> Tensor:
    """Return the new value: the old one minus `change`, whose memory it takes."""
    change = np.asarray(change)
    try:
        return Tensor.adopt(np.subtract(values, change, out=change))
    except TensorError as error:
        raise TensorAutodiffError(f"the step leaves the finite numbers: {error}, of parameter {name!r}") from error


def _kept(value: SupportsFloat, what: str) -> float:
    """Return the share of a running average that a step keeps."""
    share = as_number(value, what)
    if not 0 <= share < 1:
        raise ValueError(f"{what} must be at least 0 and below 1, got {share}")
    return share


class SGD(_Optimizer):
    """Gradient descent: ``w -= learning_rate * gradient``.

    Parameters
    ----------
    parameters : iterable of NamedParameter
        Parameters to move; their names must differ.
    learning_rate : float
        The step's length over the gradient's; finite and >= 0, as for every optimizer.

    Raises
    ------
    TypeError
        If a parameter has no name and leaf, or `parameters` is a single one; as for every optimizer.
    DuplicateName, TensorAutodiffError
        If a name occurs twice; if a leaf is not trainable.

    Examples
    --------
    >>> import fastinit
    >>> w = fastinit.NamedParameter.from_tensor("w", fastinit.Tensor([3.0]))
    >>> optimizer = fastinit.autodiff.SGD([w], learning_rate=0.25)
    >>> (w.tensor * w.tensor).sum().backward()
    >>> optimizer.step()
    >>> w.tensor.value
    Tensor([1.5])
    """

    def _change(self, gradient: Array, slots: Slots) -> tuple[Array, Slots]:
        return self.learning_rate * gradient, slots


class Momentum(_Optimizer):
    """Heavy-ball descent: ``v = momentum * v + gradient; w -= learning_rate * v``, v from 0.

    Parameters
    ----------
    parameters : iterable of NamedParameter
        Parameters to move; their names must differ.
    learning_rate : float
        The step's length over the velocity's.
    momentum : float, default 0.9
        The share of the velocity that a step keeps; at least 0, below 1.
    """

    def __init__(
        self, parameters: Iterable[Named], learning_rate: SupportsFloat, momentum: SupportsFloat = 0.9
    ) -> None:
        super().__init__(parameters, learning_rate)
        self.momentum: float = _kept(momentum, "momentum")

    def _change(self, gradient: Array, slots: Slots) -> tuple[Array, Slots]:
        velocity = self.momentum * slots["velocity"] + gradient if slots else gradient
        return self.learning_rate * velocity, {"velocity": velocity}


class Adam(_Optimizer):
    """Adam: steps of the mean gradient over its root mean square, both corrected for starting at 0.

    Parameters
    ----------
    parameters : iterable of NamedParameter
        Parameters to move; their names must differ.
    learning_rate : float, default 0.001
        About the length of a step, for each element.
    betas : pair of float, default (0.9, 0.999)
        The shares of the mean and of the mean square that a step keeps; each at least 0, below 1.
    epsilon : float, default 1e-8
        Added to the root; finite and >= 0.

    Notes
    -----
    Kingma and Ba, "Adam: A Method for Stochastic Optimization" (2015), Algorithm 1. Each parameter counts its own
    steps: the averages of one that had no gradient in some step are still corrected rightly in the next.
    """

    def __init__(
        self,
        parameters: Iterable[Named],
        learning_rate: SupportsFloat = 0.001,
        betas: tuple[SupportsFloat, SupportsFloat] = (0.9, 0.999),
        epsilon: SupportsFloat = 1e-8,
    ) -> None:
        super().__init__(parameters, learning_rate)
        self.betas: tuple[float, float] = _kept(betas[0], "betas[0]"), _kept(betas[1], "betas[1]")
        self.epsilon: float = as_nonnegative(epsilon, "epsilon")

    def _change(self, gradient: Array, slots: Slots) -> tuple[Array, Slots]:
        old = slots or {"mean": np.zeros_like(gradient), "square": np.zeros_like(gradient), "steps": np.zeros(())}
        first, second = self.betas
        steps = old["steps"] + 1.0
        mean = first * old["mean"] + (1.0 - first) * gradient
        square = second * old["square"] + (1.0 - second) * (gradient * gradient)
        root = np.sqrt(square / (1.0 - second**steps))
        change = self.learning_rate * (mean / (1.0 - first**steps)) / (root + self.epsilon)
        return change, {"mean": mean, "square": square, "steps": np.asarray(steps)}
