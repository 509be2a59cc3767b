"""Cross compilers and headers for targets."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from fleet.release import headers
from fleet.release.target import ReleaseError, Target


def environment(target: Target, caches: Path, say: Callable[[str], None]) -> dict[str, str]:
    """Environment variables for setup.py to build for `target`. ReleaseError says what is
    missing."""
    for module in ("Cython", "setuptools"):
        if find_spec(module) is None:
            raise ReleaseError(f"{module} is missing; in the checkout, run make setup")
    # Without debug information, which is most of a module's size and contains paths.
    found = {"CFLAGS": "-g0", "LDFLAGS": "-s"}
    if target.has_this_machine and target.has_this_python:
        _need("gcc", "gcc")
        return found
    package = "gcc" if target.has_this_machine else f"gcc-{target.triplet.replace('_', '-')}"
    _need(f"{target.triplet}-gcc", package)
    folder = headers.provide(caches / "headers" / str(target), target, say)
    includes = [f"-I{folder}/include/python{target.python}", f"-I{folder}/include"]
    return {
        **found,
        # Searched before this machine's own; where they are gets into what is compiled by __FILE__.
        "CFLAGS": shlex.join(["-g0", *includes, f"-ffile-prefix-map={folder}=."]),
        "PYTHONPATH": str(folder),
        "_PYTHON_SYSCONFIGDATA_NAME": headers.sysconfigdata(target),
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }


def _need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise ReleaseError(f"{program} is missing; apt install {package}")
