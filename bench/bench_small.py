"""Small tensors, whole calls: what a call costs before the first weight.

Numpy and torch have no call with fans and names; the nearest of theirs stands beside ours.
"""

import numpy as np
import pytest

import fastinit

CALLS = 2000


def many(run):
    def call():
        for _ in range(CALLS):
            run()

    return call


def torch_or_none():
    try:
        import torch  # noqa: PLC0415
    except ImportError:
        return None
    torch.set_num_threads(1)
    return torch


def into_out(size):
    """Calls that fill a float64 array that exists."""
    out, numbers = np.empty((size, size)), np.random.default_rng(17)
    calls = {
        "fastinit": lambda: fastinit.xavier_uniform(None, 17, out=out),
        "numpy random(out=)": lambda: numbers.random(out=out),
    }
    if torch := torch_or_none():
        tensor = torch.empty(size, size, dtype=torch.float64)
        calls["torch xavier_uniform_"] = lambda: torch.nn.init.xavier_uniform_(tensor)
    return {name: many(run) for name, run in calls.items()}


@pytest.mark.parametrize(
    ("size", "least"),
    [(4, {"numpy random(out=)": 1.0, "torch xavier_uniform_": 6}), (32, {}), (256, {})],
    ids=["4x4", "32x32", "256x256"],
)
@pytest.mark.parametrize("contestant", ["fastinit", "numpy random(out=)", "torch xavier_uniform_"])
def bench_into_out(race, size, least, contestant):
    """`xavier_uniform` into `out`."""
    race(
        f"{size}x{size} into out, xavier_uniform",
        contestant,
        lambda: into_out(size),
        least=least,
        calls=CALLS,
        bound="Python's call and its checks" if size < 256 else "from draw to weight",
    )


def fresh(name):
    """Calls that make a float64 array of 4x4."""
    own = getattr(fastinit, name)
    calls = {"fastinit": lambda: own((4, 4), 17)}
    if torch := torch_or_none():
        init = {"xavier_uniform": torch.nn.init.xavier_uniform_, "normal": torch.nn.init.normal_}[name]
        calls["torch empty and init"] = lambda: init(torch.empty(4, 4, dtype=torch.float64))
    return {name: many(run) for name, run in calls.items()}


@pytest.mark.parametrize("name", ["xavier_uniform", "normal"])
@pytest.mark.parametrize("contestant", ["fastinit", "torch empty and init"])
def bench_fresh(race, name, contestant):
    """A new array."""
    race(
        f"4x4 fresh, {name}",
        contestant,
        lambda: fresh(name),
        least={"torch empty and init": 2},
        calls=CALLS,
        bound="Python's call and its checks",
    )
