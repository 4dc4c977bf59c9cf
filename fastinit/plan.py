"""`Plan`: for a whole model, name -> (spec, distribution, stream state).

A plan is pure data: it draws and allocates nothing, any process can run any part of it, and making one proves
that no two of its tensors share a draw.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, SupportsIndex

import numpy.typing as npt

from . import _core
from ._engine.checks import MAX_AXES, as_shape, as_u64, size_of
from ._engine.dtypes import BY_NAME, DType
from ._engine.fill import fill
from ._engine.initializer import Distribution
from ._engine.names import check_tensor_name, refuse_duplicates
from ._engine.parts import Array, Index
from ._engine.streams import prove_disjoint, stream_state
from ._engine.targets import as_dtype
from ._escaping import escaped
from ._files.json_text import JsonText, cut_short, quoted
from ._files.safetensors import METADATA
from ._files.sources import Source, read_specs
from ._files.specs import TensorSpec, too_long_though_empty
from .errors import CheckpointError, InitializationError, InvalidTensorName, PlanError, StreamOverlap
from .policies import Choice, as_policy, decided
from .policies.deciding import PolicyLike
from .views.table import Table, counted, notebook

VERSION = 1
"""Of the JSON text that a plan travels as."""

ORDERS = ("named", "sequential")
"""Where a tensor's stream starts: at its name, or after the tensor before it."""


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
        Storage format; its name is taken too.
    initializer : str
        The initializer's name.
    distribution : Distribution
        What it is filled with.
    state : int
        Raw state of its stream: draw i is ``mix64(state + (i + 1) * gamma)``.

    Examples
    --------
    >>> from fastinit import PlannedTensor
    >>> from fastinit.initializers import Normal
    >>> PlannedTensor("w", (3, 3), "float32", "normal", Normal(), state=17).nbytes
    36
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    initializer: str
    distribution: Distribution
    state: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", as_shape(self.shape))
        object.__setattr__(self, "dtype", _stored_dtype(self.dtype))
        object.__setattr__(self, "state", as_u64(self.state, "state"))
        if not hasattr(type(self.distribution), "draws_per_weight"):  # an initializer, say, that needs a shape
            raise TypeError(
                f"distribution must say what tensor {self.name!r} is filled with, got {self.distribution!r}; "
                "an initializer gives one: initializer.for_shape(shape)"
            )

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
        return self.size * self.distribution.draws_per_weight


class Plan(Mapping[str, PlannedTensor]):
    """A whole model's starting weights, as data.

    Make one with `from_specs` or `from_json`. It maps each name to its `PlannedTensor`, in the order of the specs.

    Attributes
    ----------
    seed : int
        The model's seed.
    policy : str
        The rules that chose the initializers.
    order : str
        ``"named"``: every tensor has the stream of its name, so adding or reordering tensors changes no other.
        ``"sequential"``: all share the stream of the seed, one after the other, in the order of the specs.

    Examples
    --------
    >>> import fastinit
    >>> plan = fastinit.Plan.from_specs("all-minilm-l6-v2", seed=17)
    >>> len(plan), plan["embeddings.word_embeddings.weight"].shape
    (104, (30522, 384))
    >>> plan.array("pooler.dense.weight").dtype
    dtype('float32')
    """

    def __init__(self, seed: int, policy: str, order: str, tensors: list[PlannedTensor]) -> None:
        _check_order(order)
        refuse_duplicates(tensor.name for tensor in tensors)
        for tensor in tensors:
            _check(tensor)
        prove_disjoint((tensor.name, tensor.state, tensor.draws) for tensor in tensors)
        self.seed = seed
        self.policy = policy
        self.order = order
        self._tensors = {tensor.name: tensor for tensor in tensors}
        self._draws = sum(tensor.draws for tensor in tensors)
        self._nbytes = sum(tensor.nbytes for tensor in tensors)

    @classmethod
    def from_specs(
        cls,
        specs: Source,
        seed: SupportsIndex,
        policy: PolicyLike = "xavier",
        *,
        order: str = "named",
        dtype: npt.DTypeLike | None = None,
    ) -> Self:
        """Plan a model.

        Parameters
        ----------
        specs : str, path or mapping
            The model's tensors: a ``.safetensors`` file (its header is enough), a JSON file, a bundled model's
            name (`fastinit.bundled_models`), or ``{name: {"dtype": "F32", "shape": [2, 3]}}``.
        seed : int
            0 to 2**64 - 1.
        policy : str, path, rules or callable, default "xavier"
            A name in `fastinit.policies.POLICIES` ("xavier": matrices, embeddings, convolutions Xavier uniform,
            norm gains one, biases zero); a `pathlib.Path` of a TOML file; `fastinit.policies.Rule` objects, tried
            in their order; or a callable that gets the specs of the whole model and returns ``{name: Choice}``,
            where None leaves a tensor out.
        order : {"named", "sequential"}
            A stream per name, or the seed's one stream in the order of the specs.
        dtype : dtype, optional
            Store floating tensors so, instead of in the dtypes of the specs. Integer buffers keep theirs.

        Raises
        ------
        PlanError
            For an unknown policy or order, and for tensors that the policy refuses: all at once, as `refusals`.
        StreamOverlap
            If two tensors would share draws.
        CheckpointError
            If the file is malformed.
        """
        checked_seed = as_u64(seed, "seed")
        chosen_by = as_policy(policy)
        _check_order(order)
        stored_as = None if dtype is None else as_dtype(dtype)[0]
        tensors: list[PlannedTensor] = []
        shared = checked_seed
        described = read_specs(specs)
        for name, choice in decided(chosen_by, described).items():
            tensor = _planned(name, described[name], choice, stored_as)
            state = stream_state(checked_seed, name) if order == "named" else shared
            tensors.append(dataclasses.replace(tensor, state=state))
            shared = _core.advance(shared, tensor.draws)
        return cls(checked_seed, chosen_by.text, order, tensors)

    @classmethod
    def from_layout(
        cls, layout: Source, seed: SupportsIndex, policy: PolicyLike = "xavier", **options: Any
    ) -> Self:
        """Return `from_specs` of the same arguments: this is its older name."""
        return cls.from_specs(layout, seed, policy, **options)

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
        return self._draws

    @property
    def nbytes(self) -> int:
        """Bytes of the whole model's data."""
        return self._nbytes

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
        return fill(tensor.state, tensor.shape, tensor.distribution, dtype=tensor.dtype, out=out, index=index)

    def to_json(self) -> str:
        """Return the plan as JSON text, from which `from_json` makes an equal plan on any machine."""
        tensors = {
            tensor.name: {
                "dtype": tensor.dtype.name,
                "shape": list(tensor.shape),
                "scheme": tensor.initializer,
                "content": tensor.distribution.to_json(),
                "state": tensor.state,
            }
            for tensor in self.values()
        }
        head = {"version": VERSION, "seed": self.seed, "policy": self.policy, "order": self.order}
        return json.dumps({**head, "tensors": tensors})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the plan that `to_json` wrote; PlanError for anything else, in one sentence."""
        try:
            head, tensors = _walked(text)
            if _part(head, "version") != VERSION:
                raise PlanError(f"its version is {quoted(head['version'])}; this fastinit reads {VERSION}")
            seed, order, _ = (_part(head, key) for key in ("seed", "order", "tensors"))
            return cls(as_u64(seed, "seed"), _text(head, "policy"), order, tensors)
        except StreamOverlap:  # it names the two tensors
            raise
        except (CheckpointError, InitializationError, TypeError, ValueError) as error:
            raise PlanError(
                f"this is not a plan: {cut_short(str(error))}; Plan.to_json and `fastinit show --json` write one"
            ) from error

    def table(self) -> Table:
        """Return what every tensor will be, a row each."""
        return Table(
            str(self),
            ("name", "shape", "dtype", "initializer", "parameters", "draws"),
            tuple(
                (
                    tensor.name,
                    "x".join(map(str, tensor.shape)) or "scalar",
                    tensor.dtype.name,
                    tensor.initializer,
                    tensor.distribution.describe(),
                    tensor.draws,
                )
                for tensor in self.values()
            ),
        )

    def _repr_html_(self) -> str:
        return notebook([self.table()])

    def __str__(self) -> str:
        return (
            f"{counted(len(self), 'tensor')}, {self.nbytes:,} bytes, {self.draws:,} draws; "
            f"seed {self.seed}, policy {escaped(self.policy)}, order {self.order}"
        )

    def __repr__(self) -> str:
        return (
            f"<Plan of {counted(len(self), 'tensor')}, {self.nbytes:,} bytes: seed {self.seed}, "
            f"policy {self.policy!r}, order {self.order!r}>"
        )


def _stored_dtype(dtype: DType | npt.DTypeLike) -> DType:
    """Return the dtype of a stored tensor; integers have names only."""
    known = BY_NAME.get(dtype) if isinstance(dtype, str) else None
    return known or as_dtype(dtype)[0]


def _check_order(order: str) -> None:
    if order not in ORDERS:
        raise PlanError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")


def _check(tensor: PlannedTensor) -> None:
    """Refuse a tensor that could not be filled, by its name."""
    check_tensor_name(tensor.name)
    if tensor.name == METADATA:
        raise InvalidTensorName(tensor.name, "is the key of a safetensors header's metadata")
    problem = too_long_though_empty(tensor.dtype, tensor.shape)
    if problem:
        raise PlanError(f"tensor {tensor.name!r} {problem}")
    try:
        tensor.distribution.prepare(tensor.dtype)
        tensor.distribution.check(tensor.shape)
    except (InitializationError, ValueError) as error:
        raise PlanError(f"tensor {tensor.name!r}: {error}") from error


def _walked(text: str) -> tuple[dict[str, Any], list[PlannedTensor]]:
    """Read a plan's JSON text, tensor by tensor: all of it as JSON objects would take ten times its memory."""
    walk, head, tensors = JsonText(text, "the text"), dict[str, Any](), dict[str, PlannedTensor]()
    for key in walk.members(head):
        if key != "tensors":
            head[key] = walk.value()
            continue
        head[key] = True
        for name in walk.members(tensors, "its 'tensors'"):
            tensors[name] = _read(name, walk.value())
    walk.end()
    return head, list(tensors.values())


def _read(name: str, entry: object) -> PlannedTensor:
    """Return the tensor that an entry of a plan's JSON describes."""
    where = f"tensor {name!r}"
    shape, dtype = _part(entry, "shape", where), _part(entry, "dtype", where)
    if not isinstance(shape, list) or len(shape) > MAX_AXES:
        raise PlanError(f"{where} needs a shape of at most {MAX_AXES} integers")
    if not isinstance(dtype, str) or dtype not in BY_NAME:
        raise PlanError(f"{where} has dtype {quoted(dtype)}; expected one of {', '.join(BY_NAME)}")
    try:
        distribution = Distribution.from_json(_part(entry, "content", where))
        initializer, state = _text(entry, "scheme", where), _part(entry, "state", where)
        return PlannedTensor(name, tuple(shape), BY_NAME[dtype], initializer, distribution, state)
    except (TypeError, ValueError) as error:
        raise PlanError(f"{where}: {error}") from error


def _part(data: object, key: str, where: str = "it") -> Any:
    if not isinstance(data, Mapping) or key not in data:
        raise PlanError(f"{where} has no {key!r}")
    return data[key]


def _text(data: object, key: str, where: str = "it") -> str:
    text = _part(data, key, where)
    if not isinstance(text, str):
        raise PlanError(f"{where} has {key} {quoted(text)}; expected a string")
    return text


def _planned(name: str, spec: TensorSpec, choice: Choice, stored_as: DType | None) -> PlannedTensor:
    dtype = stored_as if stored_as is not None and spec.dtype.is_float else spec.dtype
    distribution = choice.distribution(spec.shape)
    return PlannedTensor(name, spec.shape, dtype, choice.initializer.name, distribution, state=0)
