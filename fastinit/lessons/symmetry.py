"""The zero-symmetry probe: what a gradient does to two hidden units that start equal."""

from __future__ import annotations

from dataclasses import dataclass

from ..autodiff import GraphRetention, Tensor, TensorValue

INPUT = (1.0, -1.0)
UNITS = 2
SLOPE = 0.5  # of SiLU at zero


@dataclass(frozen=True, slots=True)
class SymmetryProbe:
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
    def holds(self) -> bool:
        """Whether the tape found what the chain rule gives by hand: input times slope, the same for each unit."""
        by_hand = tuple(SLOPE * x for x in INPUT for _ in range(UNITS))
        return self.output == 0 and self.gradient == by_hand and self.columns_equal


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
    x = TensorValue.constant(Tensor([INPUT]))
    weights = TensorValue.parameter(Tensor([[0.0] * UNITS] * len(INPUT)))
    output_weights = TensorValue.constant(Tensor([[1.0]] * UNITS))
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
