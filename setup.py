"""The C extension; everything else about the package is in pyproject.toml."""

import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED_API = "0x030B0000"  # Python 3.11: one abi3 wheel for it and every later version

# -fno-wrapv: Python's own -fwrapv costs a normal draw an eighth of its time, and no signed number here overflows.
compile_args = ["-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-wrapv", "-fvisibility=hidden"]
if sys.platform == "win32":
    raise SystemExit("fastinit needs gcc or clang: its bits rest on -ffp-contract=off. Use WSL or MinGW.")


class Abi3Wheel(bdist_wheel):
    """Tag the wheel abi3, except on free-threaded builds, which have no limited API."""

    def finalize_options(self) -> None:
        if not FREE_THREADED:
            self.py_limited_api = "cp311"
        super().finalize_options()


core = Extension(
    "fastinit._core",
    sources=["fastinit/_core.pyx", *sorted(str(path) for path in Path("csrc").rglob("*.c"))],
    depends=sorted(str(path) for path in Path("csrc").rglob("*.h")),
    include_dirs=["csrc"],
    extra_compile_args=compile_args,
    define_macros=[
        ("FI_FLAGS", f'"{" ".join(compile_args)}"'),
        *([] if FREE_THREADED else [("Py_LIMITED_API", LIMITED_API)]),
    ],
    py_limited_api=not FREE_THREADED,
)

UNCHECKED = 'inspect = PyImport_ImportModule("inspect");\n'
CHECK = "    if (!inspect) return -1;\n"


def check_imports(source: Path) -> None:
    """Check the one import that Cython (3.1 to 3.3 at least) leaves unchecked: it crashed the process."""
    code = source.read_text()
    if UNCHECKED in code and CHECK not in code:
        source.write_text(code.replace(UNCHECKED, UNCHECKED + CHECK))


modules = cythonize([core], build_dir="build")
check_imports(Path(modules[0].sources[0]))
setup(ext_modules=modules, cmdclass={"bdist_wheel": Abi3Wheel})
