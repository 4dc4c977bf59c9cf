"""`Plan`: for a whole model, name -> (shape, dtype, content, stream state).

A plan is pure data: it draws and allocates nothing, any process can run any part of it, and making one proves
that no two of its tensors share a draw.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, SupportsIndex

import numpy.typing as npt

from . import _core
from ._engine import distributions
from ._engine.checks import MAX_AXES, as_u64, size_of
from ._engine.constructions import Construction
from ._engine.distributions import Content
from ._engine.dtypes import BY_NAME, DType, as_dtype
from ._engine.fill import fill, prepare
from ._engine.names import check_tensor_name, refuse_duplicates
from ._engine.parts import Array, Index
from ._engine.streams import prove_disjoint, stream_state
from ._files.json_text import parse_object
from ._files.safetensors import METADATA
from ._files.sources import read_specs
from ._files.specs import TensorSpec
from .errors import CheckpointError, InitializationError, InvalidTensorName, PlanError
from .policies import policy as rules_of
from .policies import rule_for
from .views.table import Table, counted

VERSION = 1
ORDERS = ("named", "sequential")


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """What one tensor will be.

    Attributes
    ----------
    name : str
        Its name, which also names its stream.
    shape : tuple of int
        Logical shape.
    dtype : DType
        Storage format.
    scheme : str
        The initializer's name.
    content : Distribution or Construction
        What it is filled with.
    state : int
        Raw state of its stream: draw i is ``mix64(state + (i + 1) * gamma)``.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    scheme: str
    content: Content
    state: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return size_of(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its data."""
        return self.size * self.dtype.itemsize

    @property
    def draws(self) -> int:
        """Draws it consumes."""
        return self.size * self.content.draws_per_weight


class Plan(Mapping[str, PlannedTensor]):
    """A whole model's starting weights, as data.

    Make one with `from_layout` or `from_json`. It maps each name to its `PlannedTensor`, in the layout's order.

    Attributes
    ----------
    seed : int
        The model's seed.
    policy : str
        The rules that chose the initializers.
    order : str
        ``"named"``: every tensor has the stream of its name, so adding or reordering tensors changes no other.
        ``"sequential"``: all share the stream of the seed, one after the other, in the layout's order.

    Examples
    --------
    >>> import fastinit
    >>> plan = fastinit.Plan.from_layout("all-minilm-l6-v2", seed=17)
    >>> len(plan), plan["embeddings.word_embeddings.weight"].shape
    (104, (30522, 384))
    >>> plan.array("pooler.dense.weight").dtype
    dtype('float32')
    """

    def __init__(self, seed: int, policy: str, order: str, tensors: list[PlannedTensor]) -> None:
        if order not in ORDERS:
            raise PlanError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
        refuse_duplicates(tensor.name for tensor in tensors)
        for tensor in tensors:
            check_tensor_name(tensor.name)
            if tensor.name == METADATA:
                raise InvalidTensorName(tensor.name, "is the key of a safetensors header's metadata")
            try:
                prepare(tensor.content, tensor.dtype)
                if isinstance(tensor.content, Construction):
                    tensor.content.check(tensor.shape)
            except (InitializationError, ValueError) as error:
                raise PlanError(f"tensor {tensor.name!r}: {error}") from error
        prove_disjoint((tensor.name, tensor.state, tensor.draws) for tensor in tensors)
        self.seed = seed
        self.policy = policy
        self.order = order
        self._tensors = {tensor.name: tensor for tensor in tensors}

    @classmethod
    def from_layout(
        cls,
        layout: str | os.PathLike[str] | Mapping[str, Any],
        seed: SupportsIndex,
        policy: str = "xavier",
        *,
        order: str = "named",
        dtype: npt.DTypeLike | None = None,
    ) -> Self:
        """Plan a model.

        Parameters
        ----------
        layout : str, path or mapping
            A ``.safetensors`` file (its header is enough), a layout JSON file, a bundled layout's name, or
            ``{name: {"dtype": "F32", "shape": [2, 3]}}``.
        seed : int
            0 to 2**64 - 1.
        policy : str, default "xavier"
            Matrices, embeddings and convolutions Xavier uniform, norm gains one, biases zero.
        order : {"named", "sequential"}
            A stream per name, or the seed's one stream in the layout's order.
        dtype : dtype, optional
            Store floating tensors so, instead of in the layout's dtypes. Integer buffers keep theirs.

        Raises
        ------
        PlanError
            For an unknown policy or order, and for a tensor that no rule matches, by name.
        StreamOverlap
            If two tensors would share draws.
        CheckpointError
            If the layout file is malformed.
        """
        checked_seed = as_u64(seed, "seed")
        rules = rules_of(policy)
        if order not in ORDERS:
            raise PlanError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")
        stored_as = None if dtype is None else as_dtype(dtype)[0]
        tensors: list[PlannedTensor] = []
        shared = checked_seed
        for name, entry in read_specs(layout).items():
            tensor = _planned(name, entry, rules, stored_as)
            state = stream_state(checked_seed, name) if order == "named" else shared
            tensors.append(dataclasses.replace(tensor, state=state))
            shared = _core.advance(shared, tensor.draws)
        return cls(checked_seed, policy, order, tensors)

    def __getitem__(self, name: str) -> PlannedTensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    @property
    def draws(self) -> int:
        """Draws the whole model consumes."""
        return sum(tensor.draws for tensor in self.values())

    @property
    def nbytes(self) -> int:
        """Bytes of the whole model's data."""
        return sum(tensor.nbytes for tensor in self.values())

    def array(self, name: str, *, out: object = None, index: Index | None = None) -> Array:
        """Return (a part of) the tensor called `name`, in `out` where given.

        Parameters
        ----------
        name : str
            A tensor of this plan.
        out : array or writable buffer, optional
            Memory of the part's shape and the tensor's dtype (or of its bit patterns).
        index : int, slice, Ellipsis or a tuple of them, optional
            The part ``whole[index]``.
        """
        tensor = self[name]
        return fill(tensor.shape, tensor.content, tensor.state, dtype=tensor.dtype, out=out, index=index)

    def to_json(self) -> str:
        """Return the plan as JSON text, from which `from_json` makes an equal plan on any machine."""
        tensors = {
            tensor.name: {
                "dtype": tensor.dtype.name,
                "shape": list(tensor.shape),
                "scheme": tensor.scheme,
                "content": distributions.to_json(tensor.content),
                "state": tensor.state,
            }
            for tensor in self.values()
        }
        head = {"version": VERSION, "seed": self.seed, "policy": self.policy, "order": self.order}
        return json.dumps({**head, "tensors": tensors})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the plan that `to_json` wrote; PlanError for anything else."""
        try:
            data = parse_object(text, "the plan")
            if data["version"] != VERSION:
                raise PlanError(f"plan version {data['version']!r} is not {VERSION}, the one this fastinit reads")
            tensors = [
                PlannedTensor(
                    name,
                    tuple(as_u64(length, "a shape entry") for length in _listed(entry["shape"])),
                    BY_NAME[entry["dtype"]],
                    str(entry["scheme"]),
                    distributions.from_json(entry["content"]),
                    as_u64(entry["state"], "state"),
                )
                for name, entry in data["tensors"].items()
            ]
            return cls(as_u64(data["seed"], "seed"), str(data["policy"]), data["order"], tensors)
        except (CheckpointError, KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, PlanError):
                raise
            raise PlanError(f"this is not a plan written by Plan.to_json: {error!r}") from error

    def table(self) -> Table:
        """Return what every tensor will be, a row each."""
        return Table(
            str(self),
            ("name", "shape", "dtype", "scheme", "parameters", "draws"),
            tuple(
                (
                    tensor.name,
                    "x".join(map(str, tensor.shape)) or "scalar",
                    tensor.dtype.name,
                    tensor.scheme,
                    distributions.describe(tensor.content),
                    tensor.draws,
                )
                for tensor in self.values()
            ),
        )

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def __str__(self) -> str:
        return (
            f"{counted(len(self), 'tensor')}, {self.nbytes:,} bytes, {self.draws:,} draws; "
            f"seed {self.seed}, policy {self.policy}, order {self.order}"
        )

    def __repr__(self) -> str:
        return (
            f"<Plan of {counted(len(self), 'tensor')}, {self.nbytes:,} bytes: seed {self.seed}, "
            f"policy {self.policy!r}, order {self.order!r}>"
        )


def _listed(shape: object) -> list[Any]:
    if not isinstance(shape, list) or len(shape) > MAX_AXES:
        raise ValueError(f"a shape must be a list of at most {MAX_AXES} integers")
    return shape


def _planned(name: str, entry: TensorSpec, rules: tuple[Any, ...], stored_as: DType | None) -> PlannedTensor:
    initializer, layout = rule_for(rules, name, entry.shape, entry.dtype)
    dtype = stored_as if stored_as is not None and entry.dtype.is_float else entry.dtype
    try:
        content = initializer.content(entry.shape, layout)
    except ValueError as error:
        raise PlanError(f"tensor {name!r} {list(entry.shape)}: {error}") from error
    return PlannedTensor(name, entry.shape, dtype, initializer.scheme, content, state=0)
