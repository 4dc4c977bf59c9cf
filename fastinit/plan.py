"""`Plan`: for a whole model, name -> (spec, distribution, stream state).

A plan is pure data: it draws and allocates nothing, any process can run any part of it, and making one proves
that no two of its tensors share a draw.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

from . import _core
from ._engine.checks import as_u64
from ._engine.dtypes import DType
from ._engine.fill import fill
from ._engine.names import refuse_duplicates
from ._engine.parts import Array, Index
from ._engine.streams import prove_disjoint, stream_state
from ._engine.targets import as_dtype
from ._escaping import escaped
from ._files.json_text import JsonText, cut_short, quoted
from ._files.sources import Source, read_specs
from ._files.specs import TensorSpec
from .errors import CheckpointError, InitializationError, PlanError, StreamOverlap
from .given_data import Data, checked_given, copied, read_given
from .planned import PlannedTensor, check_copies, check_planned, part_of, read_planned, text_of
from .policies import Choice, as_policy, decided
from .policies.deciding import PolicyLike
from .views.table import Table, counted, notebook

if TYPE_CHECKING:
    from ._engine.annotations import FloatDType

__all__ = ["ORDERS", "VERSION", "Plan", "PlannedTensor", "is_plan"]

VERSION = 1
"""Of the JSON text that a plan travels as."""

ORDERS = ("named", "sequential")
"""Where a tensor's stream starts: at its name, or after the tensor before it."""


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
    given : mapping of str to array
        The data of given tensors, as far as it is at hand: read-only views, checked against the digests.

    Examples
    --------
    >>> import fastinit
    >>> plan = fastinit.Plan.from_specs("all-minilm-l6-v2", seed=17)
    >>> len(plan), plan["embeddings.word_embeddings.weight"].shape
    (104, (30522, 384))
    >>> plan.array("pooler.dense.weight").dtype
    dtype('float32')
    """

    def __init__(
        self,
        seed: int,
        policy: str,
        order: str,
        tensors: list[PlannedTensor],
        given: Mapping[str, Array] | None = None,
    ) -> None:
        _check_order(order)
        refuse_duplicates(tensor.name for tensor in tensors)
        for tensor in tensors:
            check_planned(tensor)
        prove_disjoint((tensor.name, tensor.state, tensor.draws) for tensor in tensors)
        self.seed = seed
        self.policy = policy
        self.order = order
        self._tensors = {tensor.name: tensor for tensor in tensors}
        check_copies(self._tensors)
        self._given = checked_given(self._tensors, given or {})
        self._draws = sum(tensor.draws for tensor in tensors)
        self._nbytes = sum(tensor.nbytes for tensor in tensors)
        self._origin: tuple[int, str, str] | None = None

    @classmethod
    def from_specs(
        cls,
        specs: Source,
        seed: SupportsIndex,
        policy: PolicyLike = "xavier",
        *,
        order: str = "named",
        dtype: FloatDType | None = None,
    ) -> Self:
        """Plan a model.

        Parameters
        ----------
        specs : str, path or mapping
            The model's tensors: a ``.safetensors`` file (its header is enough), a JSON file, a bundled model's
            name (`fastinit.bundled_models`), or ``{name: {"dtype": "F32", "shape": [2, 3]}}``. Anything with a
            `shape` and a `dtype` is an entry too: a `state_dict`, numpy arrays, jax.ShapeDtypeStruct.
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
            state = stream_state(checked_seed, name) if order == "named" else shared
            tensors.append(_planned(name, described[name], choice, stored_as, state))
            shared = _core.advance(shared, tensors[-1].draws)
        plan = cls(checked_seed, chosen_by.text, order, tensors)
        if isinstance(policy, str) and stored_as is None and len(tensors) == len(described):
            plan._origin = plan._labels
        return plan

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
    def _labels(self) -> tuple[int, str, str]:
        return self.seed, self.policy, self.order

    @property
    def is_from_specs(self) -> bool:
        """Whether `from_specs` made it of its specs, seed, named policy and order alone, and would again."""
        return self._origin == self._labels

    @property
    def draws(self) -> int:
        """Draws the whole model consumes."""
        return self._draws

    @property
    def nbytes(self) -> int:
        """Bytes of the whole model's data."""
        return self._nbytes

    @property
    def given(self) -> Mapping[str, Array]:
        """The data of given tensors that is at hand, by their names."""
        return MappingProxyType(self._given)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the given tensors whose data is not at hand; `with_given` reads it."""
        return tuple(name for name, tensor in self.items() if tensor.is_given and self._data(tensor) is None)

    def _data(self, tensor: PlannedTensor) -> Array | None:
        return self._given.get(tensor.name, self._given.get(tensor.copy_of))

    def with_given(self, source: Data) -> Self:
        """Return the plan with the missing data of its given tensors.

        Parameters
        ----------
        source : str, path or mapping of str to array
            A ``.safetensors`` file that holds them, such as the checkpoint of the plan, or arrays by name. What
            else it holds is left alone.

        Raises
        ------
        PlanError
            If it holds none of them, or data of another digest, dtype or shape.
        CheckpointError
            If the file is malformed.

        Examples
        --------
        >>> import numpy as np
        >>> from fastinit import Plan, PlannedTensor
        >>> from fastinit.initializers import Given, digest_of
        >>> mask = np.tri(3, dtype=bool)
        >>> planned = PlannedTensor("mask", (3, 3), "bool", "given", Given(digest_of(mask)), state=0)
        >>> plan = Plan(17, "mine", "named", [planned])
        >>> plan.missing, plan.with_given({"mask": mask}).missing
        (('mask',), ())
        """
        found = read_given(source, self.missing)
        return type(self)(self.seed, self.policy, self.order, list(self.values()), {**self._given, **found})

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

        Raises
        ------
        PlanError
            If it is given data that is not at hand.
        """
        tensor = self[name]
        if tensor.is_given:
            return copied(self._data(tensor), tensor, out, index)
        return fill(tensor.state, tensor.shape, tensor.distribution, dtype=tensor.dtype, out=out, index=index)

    def to_json(self) -> str:
        """Return the plan as JSON text, from which `from_json` makes an equal plan on any machine.

        Of given data it holds the digests; the bytes travel in a checkpoint.
        """
        head = {"version": VERSION, "seed": self.seed, "policy": self.policy, "order": self.order}
        return json.dumps({**head, "tensors": {name: tensor.to_json() for name, tensor in self.items()}})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the plan that `to_json` wrote; PlanError for anything else, in one sentence."""
        try:
            head, tensors = _walked(text)
            if part_of(head, "version") != VERSION:
                raise PlanError(f"its version is {quoted(head['version'])}; this fastinit reads {VERSION}")
            seed, order, _ = (part_of(head, key) for key in ("seed", "order", "tensors"))
            return cls(as_u64(seed, "seed"), text_of(head, "policy"), order, tensors)
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
                    tensor.describe(),
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


def is_plan(text: str | bytes) -> bool:
    """Say by the first key whether JSON text is a plan: an entry of specs is an object with a dtype."""
    walk = JsonText(text, "the text")
    try:
        for key in walk.members({}):
            value = walk.value()
            if key == "tensors":
                return isinstance(value, dict) and not isinstance(value.get("dtype"), str)
            return key in ("version", "seed", "policy", "order") and not isinstance(value, dict)
    except CheckpointError:  # whoever reads the text says what is wrong with it
        pass
    return False


def _check_order(order: str) -> None:
    if order not in ORDERS:
        raise PlanError(f"order must be one of {', '.join(ORDERS)}, got {order!r}")


def _walked(text: str) -> tuple[dict[str, Any], list[PlannedTensor]]:
    """Read a plan's JSON text, tensor by tensor: all of it as JSON objects would take ten times its memory."""
    walk, head, tensors = JsonText(text, "the text"), dict[str, Any](), dict[str, PlannedTensor]()
    for key in walk.members(head):
        if key != "tensors":
            head[key] = walk.value()
            continue
        head[key] = True
        for name in walk.members(tensors, "its 'tensors'"):
            tensors[name] = read_planned(name, walk.value())
    walk.end()
    return head, list(tensors.values())


def _planned(name: str, spec: TensorSpec, choice: Choice, stored_as: DType | None, state: int) -> PlannedTensor:
    dtype = stored_as if stored_as is not None and spec.dtype.is_float else spec.dtype
    distribution = choice.distribution(spec.shape)
    return PlannedTensor(name, spec.shape, dtype, choice.initializer.name, distribution, state)
