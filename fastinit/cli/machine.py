"""Describe the machine and the build: a timing means nothing without them."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core
from .._engine.cpus import default_threads

_PACKAGE = Path(__file__).parent.parent


def machine() -> dict[str, Any]:
    """Return CPU, kernels, compiler, flags, versions and commit, as plain JSON data."""
    compiler, flags = _core.build()
    return {
        "cpu": _cpu_name(),
        "cpus": default_threads(),
        "level": _core.simd_level(),
        "levels": _core.levels(),
        "compiler": compiler,
        "flags": flags,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": platform.platform(),
        "commit": _commit(),
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the commit of the checkout that holds the package; None for an installed copy."""
    if not (_PACKAGE.parent / ".git").exists():
        return None
    try:
        command = ["git", "-C", os.fspath(_PACKAGE), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
