"""Own code of a model, run by torch itself with fastinit's numbers: what `fast_init` must give.

The draw of number k gets the numbers of the stream ``call/k``. `fast_init` makes those of every tensor that it
computes for real, and by="call" those of all tensors. A tensor with a distribution is rounded once, where the code
rounds at every step, and may be its mirror image, as a distribution has no sign; so it is compared nearly. What is
equal, scaled or negated in the code is so in both.
"""

import numpy as np
from conftest import peer
from integrations.same_start import numbers, tensors_of, words

import fastinit
from fastinit.initializers import CenteredUniform, Normal, Uniform

torch = peer("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import fastinit.torch as ft  # noqa: E402

SEEDS = range(1, 9)
RELATED = 0.9999
"""The correlation over 8 seeds that only a relation has: by chance, one pair in 10**11 has it."""
ROUNDINGS = 8


class Replayed(TorchDispatchMode):
    """Gives every draw of torch the numbers of its call's stream."""

    def __init__(self, seed):
        super().__init__()
        self.seed, self.calls = seed, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        drawn = drawn_by(func._schema.name.removeprefix("aten::"), args[1:])
        if drawn is not None and result.numel():
            self.calls += 1
            with ft.writing(staged := torch.empty(result.shape, dtype=result.dtype)) as (array, dtype):
                stream = fastinit.stream_for(self.seed, f"call/{self.calls}")
                drawn(tuple(result.shape), stream, out=array, dtype=dtype)
            result.copy_(staged)
        return result


def drawn_by(name, given):
    """What a call draws, or None."""
    if name in ("randn", "randn_like", "rand", "rand_like"):
        return Normal() if "randn" in name else Uniform()
    if name == "normal_":
        return Normal(*given)
    if name == "uniform_":
        low, high = given
        return CenteredUniform(high) if low == -high else Uniform(low, high)
    return None


class Built(torch.nn.Module):
    """A module whose body is a function."""

    def __init__(self, body):
        super().__init__()
        body(self)


def own(body, seed):
    with Replayed(seed):
        return tensors_of(Built(body))


def ours(body, seed, by):
    with ft.fast_init(seed, by=by) as recording:
        model = Built(body)
    return tensors_of(model), recording.computed


def differences(body, by, seeds=SEEDS):
    """What is not as in the own code, in words: forms, bits of what was computed, values, constants, relations."""
    theirs = [own(body, seed) for seed in seeds]
    found = [ours(body, seed, by) for seed in seeds]
    mine, computed = [tensors for tensors, _ in found], found[0][1]
    first, wanted = mine[0], theirs[0]
    complaints = [f"{n}: {form(first[n])}, not {form(t)}" for n, t in wanted.items() if form(first[n]) != form(t)]
    if complaints or not wanted:
        return complaints
    complaints = [f"{n}: other bits" for n in computed if not np.array_equal(words(first[n]), words(wanted[n]))]
    if by == "call":
        complaints += [
            f"{n}: other values" for n in wanted if not are_near(*([t[n] for t in b] for b in (mine, theirs)))
        ]
    return complaints + differing_relations(theirs, mine)


def form(tensor):
    return tuple(tensor.shape), tensor.dtype, tensor.requires_grad


def are_near(mine, theirs):
    """Whether each element is that of the own code but for roundings, or its mirror image."""
    dtype = theirs[0].dtype
    mine, theirs = (np.stack([finite(tensor) for tensor in built]) for built in (mine, theirs))
    most = ROUNDINGS * (torch.finfo(dtype).eps if dtype.is_floating_point else 0) * (1 + abs(theirs).max())
    middle = mine + theirs
    is_near, is_mirrored = (abs(mine - theirs) <= most).all(0), (abs(middle - middle[0]) <= most).all(0)
    return bool((is_near | is_mirrored).all())


def finite(tensor):
    """The values in float64, with an infinity or a nan as a number that stands for it."""
    return np.nan_to_num(numbers(tensor), nan=7.0, posinf=9.0, neginf=-9.0)


def differing_relations(theirs, mine):
    """Elements that are constant, equal, or an affine function of each other, in one of two models alone."""
    names = [f"{name}[{place}]" for name, t in theirs[0].items() for place in range(t.numel())]
    own, ours = (
        np.array([np.concatenate([finite(t).ravel() for t in each.values()]) for each in builds])
        for builds in (theirs, mine)
    )
    constant = (own == own[0]).all(0)
    if not np.array_equal(own[0, constant], ours[0, constant]):
        return [f"another constant: {names[np.flatnonzero(constant)[(own != ours)[0, constant].argmax()]]}"]
    complaints = []
    for what, related in (("equal", equal), ("related", correlated)):
        differ = np.argwhere(np.triu(related(own) != related(ours)))
        complaints += [f"{what} in one alone: {names[i]} and {names[j]}" for i, j in differ[:2]]
    return complaints


def equal(builds):
    return (builds[:, :, None] == builds[:, None, :]).all(0)


def correlated(builds):
    centered = builds - builds.mean(0)
    scale = np.sqrt((centered**2).sum(0))
    unit = np.divide(centered, scale, out=np.zeros_like(centered), where=scale > 0)
    return abs(unit.T @ unit) > RELATED
