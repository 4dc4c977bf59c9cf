"""How many CPUs this process may use."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

VARIABLE = "FASTINIT_NUM_THREADS"

CGROUP = Path("/sys/fs/cgroup")

CGROUP_OF_PROCESS = Path("/proc/self/cgroup")

MOST_THREADS = 1024


def default_threads() -> int:
    """Return the number of threads a large fill uses: FASTINIT_NUM_THREADS, else the CPUs this process may use.

    The CPUs are those of the affinity mask, and no more than the cgroup's quota pays for.

    Raises
    ------
    ValueError
        If FASTINIT_NUM_THREADS is not a positive integer.
    """
    wanted = os.environ.get(VARIABLE)
    if wanted:
        if not (wanted.isascii() and wanted.isdigit() and 1 <= int(wanted) <= MOST_THREADS):
            raise ValueError(f"{VARIABLE} must be an integer between 1 and {MOST_THREADS}, got {wanted!r}")
        return int(wanted)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cpus, cgroup_cpus(), MOST_THREADS))


@cache
def cgroup_cpus() -> int:
    """CPUs that the quotas of this process's cgroup, and of those above it, allow, rounded up."""
    try:
        entries = dict(line.split(":", 2)[1:] for line in CGROUP_OF_PROCESS.read_text().splitlines())
    except (OSError, ValueError):
        entries = {}
    folder = CGROUP / entries.get("", "/").lstrip("/")
    folders = [at for at in (folder, *folder.parents) if at == CGROUP or CGROUP in at.parents]
    return (
        min(map(_quota_v2, folders), default=MOST_THREADS)
        if (CGROUP / "cgroup.controllers").exists()
        else _quota_v1()
    )


def _quota_v2(folder: Path) -> int:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):  # the root has none, and an unlimited one is "max"
        return MOST_THREADS


def _quota_v1() -> int:
    try:
        quota = int((CGROUP / "cpu/cpu.cfs_quota_us").read_text())
        period = int((CGROUP / "cpu/cpu.cfs_period_us").read_text())
        return max(1, -(-quota // period)) if quota > 0 else MOST_THREADS
    except (OSError, ValueError):
        return MOST_THREADS
