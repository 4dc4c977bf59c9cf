"""The zero-symmetry probe: the gradient of two hidden units that start equal."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..autodiff import GraphRetention, Tensor, TensorValue
from ..views.result import Result
from ..views.table import Table

_INPUT = (1.0, -1.0)
_UNITS = 2
_SLOPE = 0.5  # of SiLU at zero


@dataclass(frozen=True, slots=True)
class SymmetryProbe(Result):
    """One backward pass through zero weights.

    Attributes
    ----------
    output : float
        The network's output.
    gradient : tuple of float
        The output's gradient for the [2, 2] input weights, row-major: a row an input, a column a hidden unit.
    columns_equal : bool
        Whether both hidden units got the same gradient, so that equal updates keep them equal.
    """

    output: float
    gradient: tuple[float, ...]
    columns_equal: bool

    @property
    def passed(self) -> bool:
        """Whether the gradient is that of the chain rule by hand: input times slope, the same for each unit."""
        by_hand = tuple(_SLOPE * x for x in _INPUT for _ in range(_UNITS))
        return self.output == 0 and self.gradient == by_hand and self.columns_equal

    def lines(self) -> list[str]:
        """Return the probe as one line of the learner report; numbers have 12 decimals."""
        equal = "true" if self.columns_equal else "false"
        slopes = ",".join(f"{slope:z.12f}" for slope in self.gradient)  # z: no -0.000000000000
        return [f"zero symmetry: output={self.output:z.12f} columns-equal={equal} gradient={slopes}"]

    def facts(self) -> dict[str, Any]:
        """Return everything as plain JSON data."""
        return {**dataclasses.asdict(self), "holds": self.passed}

    def tables(self) -> tuple[Table, ...]:
        """Return the gradient as a table, a row an input."""
        starts = range(0, len(self.gradient), _UNITS)
        rows = tuple((x, *self.gradient[at : at + _UNITS]) for x, at in zip(_INPUT, starts, strict=True))
        columns = ("input", *(f"hidden unit {unit}" for unit in range(_UNITS)))
        return (Table("Measured: the gradient of zero input weights", columns, rows),)


def zero_symmetry_probe() -> SymmetryProbe:
    """Differentiate ``silu(x @ W) @ [1, 1]`` for x = [1, -1] and a [2, 2] matrix W of zeros.

    Returns
    -------
    SymmetryProbe
        Output, gradient and their comparison. The gradient is not zero, yet it cannot tell the units apart: both
        have the same output weight, SiLU has slope 1/2 at zero, and only the input coordinate is left to differ.

    Notes
    -----
    Equal *treatment* keeps the units equal, not the zeros as such: unequal output weights would end it.

    Examples
    --------
    >>> from fastinit.lessons.symmetry import zero_symmetry_probe
    >>> zero_symmetry_probe()
    SymmetryProbe(output=0.0, gradient=(0.5, 0.5, -0.5, -0.5), columns_equal=True)
    """
    x = TensorValue.constant(Tensor([_INPUT]))
    weights = TensorValue.parameter(Tensor([[0.0] * _UNITS] * len(_INPUT)))
    output_weights = TensorValue.constant(Tensor([[1.0]] * _UNITS))
    output = (x @ weights).silu() @ output_weights
    output.backward_with_seed(Tensor([[1.0]]), GraphRetention.RETAIN)
    found = weights.gradient_snapshot()
    assert found is not None, "the weights are a trainable leaf"
    gradient = found.values
    return SymmetryProbe(
        output=output.item(),
        gradient=tuple(gradient.ravel().tolist()),
        columns_equal=bool((gradient == gradient[:, :1]).all()),
    )
