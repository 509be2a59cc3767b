"""Compiles a release's byte code ahead of time: agents may not write into it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fleet.release.target import ReleaseError
from fleet.release.tree import Tree


def compiled(tree: Tree) -> Iterator[tuple[str, bytes]]:
    """The byte code of the modules in `tree`, for the running Python's version: paths and contents,
    reproducible. Python uses it without checking the source."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, entry in tree.entries.items():
            if path.endswith(".py"):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(entry.content)
        options = ["-q", "--invalidation-mode", "unchecked-hash", "-s", name, "-p", tree.folder]
        done = subprocess.run(
            [sys.executable, "-P", "-s", "-m", "compileall", *options, name],
            capture_output=True,
            check=False,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "0"},  # the order of constant sets
        )
        if done.returncode:
            said = (done.stdout or done.stderr).strip().partition("\n")[0]
            raise ReleaseError(f"the modules of a release cannot be compiled: {said}")
        for made in sorted(folder.rglob("*.pyc")):
            yield made.relative_to(folder).as_posix(), made.read_bytes()
