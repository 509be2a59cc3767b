"""The extension modules and their compiler flags; everything else is in pyproject.toml.

SANDERLING_CORE_DEBUG=1 makes the debug build of `_core`: bounds checks, CHECK() on raw pointers
(check.h) and the undefined behaviour sanitizer. It goes to a directory of its own, as an importable
package:

    SANDERLING_CORE_DEBUG=1 python setup.py build_ext --build-lib build/debug \
        --build-temp build/debug-tmp

SANDERLING_CORE_SANITIZED=1 makes the release's code with the sanitizers of addresses and of
undefined behaviour; it goes to a directory of its own, too, and needs libasan.so in LD_PRELOAD.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORES = os.cpu_count() or 1
DEBUG = os.environ.get("SANDERLING_CORE_DEBUG") == "1"
SANITIZED = os.environ.get("SANDERLING_CORE_SANITIZED") == "1"
MODULES = (
    "_build",
    "queue.edf",
    "queue.policy",
    "deadlines.histogram",
    "deadlines.hazard_cdf",
    "deadlines.matrix",
    "deadlines.unloaded",
    "deadlines.order_statistics",
    "deadlines.size_regression",
    "deadlines.class_advance",
    "matching.civ",
    "matching.intervals",
    "matching.predicates",
    "matching.index",
    "matching.rebucket",
    "matching.index_changes",
    "matching.groups",
    "matching.engine",
    "columns.buckets",
    "columns.json_numbers",
    "columns.series",
    "wire.areas",
    "wire.elements",
    "simulator.trace",
    "simulator.service_times",
    "simulator.run",
    "simulator.queries",
    "simulator.learning",
    "simulator.nodes",
    "simulator.events",
    "simulator.broker",
    "colocation.model",
    "_bench",
)
# What Cython adds to every module that uses memory views, compiled once: half of all that gcc would
# otherwise compile, and half of what is installed. Cython writes its source.
SHARED = "_core._memory_views"
SANITIZE = ["-fsanitize=undefined", "-fno-sanitize-recover=undefined"]
if SANITIZED:
    SANITIZE += ["-fsanitize=address", "-fno-omit-frame-pointer"]
# Without optimising, gcc saves more time than the tests of the debug build take longer.
OPTIMISE = ["-O0", "-g"] if DEBUG else ["-O1", "-g"] if SANITIZED else ["-O3"]

# Row sums are only vectorised when additions may be reordered. The flag stands on the compile
# line alone: on the link line gcc adds start-up code that flushes denormals to zero in the whole
# process.
FAST_MATH = {f"_core.deadlines.{name}": ["-ffast-math"] for name in ("hazard_cdf", "matrix")}


def sanitizer_links() -> bool:
    """True if this gcc links shared objects with the sanitizer (its runtime may be missing)."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text("int probe(int x) { return x + 1; }\n")
        command = [os.environ.get("CC", "gcc").split()[0], "-shared", "-fPIC", *SANITIZE]
        command += [str(source), "-o", str(source.with_suffix(".so"))]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def extensions() -> list[Extension]:
    """One extension for each module, with the flags of the chosen build."""
    clock = Extension("agent.edge.kernel_clock", ["agent/edge/kernel_clock.pyx"])
    return core() if DEBUG or SANITIZED else [*core(), clock]


def core() -> list[Extension]:
    """The extensions of `_core`."""
    sanitize = SANITIZE if SANITIZED or (DEBUG and sanitizer_links()) else []
    fast_math = {} if DEBUG else FAST_MATH
    sources = {f"_core.{name}": f"_core/{name.replace('.', '/')}.pyx" for name in MODULES}
    sources[SHARED] = f"{SHARED.replace('.', '/')}.c"
    return [
        Extension(
            name,
            [source],
            include_dirs=["_core"],
            depends=["_core/check.h"],
            libraries=["m"],
            define_macros=[("SANDERLING_CHECKS", "1")] if DEBUG else [],
            extra_compile_args=[*OPTIMISE, *sanitize, *fast_math.get(name, [])],
            extra_link_args=sanitize,
        )
        for name, source in sources.items()
    ]


class BuildCore(build_ext):
    """build_ext that compiles on all cores, says how many modules are built, and makes a debug or
    sanitized build importable where it lies."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or CORES
        self._built = 0
        self._counting = threading.Lock()

    def build_extension(self, ext: Extension) -> None:
        """Build one, in a thread of its own; tools/build_core.sh shows the line."""
        super().build_extension(ext)
        with self._counting:
            self._built += 1
            line = f"built {self._built} of {len(self.extensions)}: {ext.name}\n"
            sys.stdout.write(line)
            sys.stdout.flush()

    def run(self) -> None:
        super().run()
        if (DEBUG or SANITIZED) and not self.inplace:
            for pattern in ("*.py", "*.pyi", "*.pxd", "py.typed"):
                for path in Path("_core").rglob(pattern):
                    shutil.copy2(path, Path(self.build_lib) / path)


setup(
    ext_modules=cythonize(
        extensions(),
        # The debug build differs in directives, hence in its C files.
        build_dir="build/cython/debug" if DEBUG else "build/cython/release",
        nthreads=CORES,
        shared_utility_qualified_name=SHARED,
        emit_linenums=DEBUG,
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": DEBUG,
            "embedsignature": True,
        },
    ),
    cmdclass={"build_ext": BuildCore},
)
