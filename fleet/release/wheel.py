"""Builds Sanderling's wheel for a target from a copy of the sources; caches compiled modules."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fleet.release.sources import BUILD_LOCK, Sources
from fleet.release.target import EPOCH_S, ReleaseError, Target
from fleet.release.toolchain import environment

# Everything that determines a compiler's output. Some modules are compiled with declarations from
# `_core`.
_COMPILED: Final = (".pyx", ".pxd", ".h", "setup.py", BUILD_LOCK)
# Not the lines of a traceback, whose names have the word in them.
_AN_ERROR: Final = re.compile(r"\berror\b|Error: ", re.IGNORECASE)


def build(
    sources: Sources, target: Target, folder: Path, *, caches: Path, say: Callable[[str], None]
) -> Path:
    """Build the wheel into `folder`, which must be empty; `caches` holds what builds share.
    ReleaseError says in one line what is missing or fails."""
    found = environment(target, caches, say)
    with _copy(sources, target, caches / "compiled" / _key(sources, target), say) as copy:
        done = subprocess.run(
            [sys.executable, "-P", "setup.py", "-q", "bdist_wheel", "--dist-dir", str(folder)],
            capture_output=True,
            check=False,
            text=True,
            cwd=copy,
            env={**os.environ, **found, "SOURCE_DATE_EPOCH": str(EPOCH_S)},
        )
        if done.returncode:
            raise ReleaseError(f"compiling for {target} failed: {_reason(done.stderr)}")
    (wheel,) = folder.glob("*.whl")
    return wheel


@contextmanager
def _copy(
    sources: Sources, target: Target, work: Path, say: Callable[[str], None]
) -> Iterator[Path]:
    """The folder `work` with the sources, and the compiled modules of an earlier build of the same
    sources; one process at a time. Results of an incomplete build are not used."""
    work.mkdir(parents=True, exist_ok=True)
    compiled = work / "compiled"
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy = work / "sources"
        kept = work / "build"
        shutil.rmtree(copy, ignore_errors=True)
        if compiled.exists():
            for path in kept.glob("lib.*/**/*"):
                if path.is_file() and path.suffix != ".so":
                    path.unlink()
        else:
            shutil.rmtree(kept, ignore_errors=True)
            say(f"compiling for {target}")
        sources.write(copy)
        for path in copy.rglob("*"):
            os.utime(path, (EPOCH_S, EPOCH_S))  # before anything that was compiled
        kept.mkdir(exist_ok=True)
        (copy / "build").symlink_to(kept)
        yield copy
        compiled.touch()


def _key(sources: Sources, target: Target) -> str:
    digest = hashlib.sha256(str(target).encode())
    for path, content in sorted(sources.files.items()):
        if path.endswith(_COMPILED):
            digest.update(f"\n{path}\n{len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def _reason(output: str) -> str:
    """The first line of a compiler's output that states an error."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    told = (line for line in lines if _AN_ERROR.search(line))
    return next(told, lines[-1] if lines else "without a word")
