"""Building real models: their own initialization against `fast_init`, each in a fresh process, in turn.

Imports are not counted. Seconds are those of building alone; touching the model's memory bounds it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from peers import needs

pytestmark = needs("torch", "transformers")
BUILD = Path(__file__).with_name("build_model.py")
LEAST = {
    "llama 1.24 B float32": {"own build": 10},
    "llama 1.24 B bfloat16": {"own build": 10, "touching its memory": 1 / 1.5},
    "gpt2 124 M": {"own build": 8},
    "vit-b/16": {"own build": 8},
    "whisper-small": {"own build": 8},
    "convnext-b": {"own build": 8},
    "mixtral-like 1 B": {"own build": 8},
}
PEAK = 1.05
"""Most memory that `fast_init` may take at any time, over the model's."""

HOW = {"fast_init": "fast", "own build": "own", "touching its memory": "touch", "record": "record"}


def build(model, how):
    """Build a model in a process of its own; the facts that it prints."""
    done = subprocess.run([sys.executable, BUILD, model, how], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("model", LEAST)
@pytest.mark.parametrize("contestant", HOW)
def bench_build(race, benchmark, model, contestant):
    """A model's own build, the same inside `fast_init`, recording alone, and touching that memory."""
    race(
        f"build {model}",
        contestant,
        lambda: {name: lambda how=how: build(model, how)["seconds"] for name, how in HOW.items()},
        least=LEAST[model],
        most_rounds=3,
        seconds_of=lambda run: run(),
        bound="touching its memory",
    )
    if contestant == "fast_init":
        facts = build(model, "fast")
        benchmark.extra_info["peak_over_model"] = peak = facts["peak"] / facts["model"]
        assert peak <= PEAK, f"{peak:.2f} times the model's memory at the peak, at most {PEAK} were promised"
