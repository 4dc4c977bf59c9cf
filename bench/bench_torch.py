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
    "llama 1.24 B float32": 10,
    "llama 1.24 B bfloat16": 10,
    "gpt2 124 M": 8,
    "vit-b/16": 8,
    "whisper-small": 8,
    "convnext-b": 8,
    "mixtral-like 1 B": 8,
}
LEAST_OF_TOUCHING = {"llama 1.24 B bfloat16": 1 / 1.5}
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
        least={"own build": LEAST[model], "touching its memory": LEAST_OF_TOUCHING.get(model, 0)},
        most_rounds=3,
        seconds_of=lambda run: run(),
        bound="touching its memory",
    )
    if contestant == "fast_init":
        facts = build(model, "fast")
        benchmark.extra_info["peak_over_model"] = peak = facts["peak"] / facts["model"]
        assert peak <= PEAK, f"{peak:.2f} times the model's memory at the peak, at most {PEAK} were promised"
