"""Building fastinit itself: the compiler's CPU time, and the size of the wheel."""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from peers import needs

ROOT = Path(__file__).parent.parent
AIM_BYTES = 600_000
"""What a wheel should take; it holds every level, and more Python than C."""

pytestmark = [
    needs("setuptools", "Cython"),
    pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="not a source tree"),
]


def build(*arguments: str) -> float:
    """Run setup.py and return the CPU seconds of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "setup.py", "-q", *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("contestant", ["fastinit"])
def bench_wheel(race, benchmark, tmp_path, contestant):
    """CPU seconds of a build into an empty folder, and the size of the wheel."""
    wheels = tmp_path / "wheels"

    def wheel():
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            return build("build", "--build-base", folder, "bdist_wheel", "--dist-dir", str(wheels))

    race(
        "build the wheel, CPU seconds",
        contestant,
        lambda: {"fastinit": wheel},
        earlier=2,
        most_rounds=2,
        seconds_of=lambda run: run(),
        bound="gcc on the vector levels",
    )
    nbytes = next(wheels.glob("*.whl")).stat().st_size
    benchmark.extra_info |= {"wheel_bytes": nbytes, "wheel_aim": AIM_BYTES}
