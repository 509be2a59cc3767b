"""Headers and build variables of a target's Python, from Debian's packages for its architecture.

This host's apt downloads them into separate folders: the host's packages and architectures do not
change.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fleet.release import apt_sources
from fleet.release.target import PYTHON_OF, ReleaseError, Target

ARCHITECTURES: Final = {"aarch64": "arm64", "x86_64": "amd64"}  # as Debian names machines


def sysconfigdata(target: Target) -> str:
    """Name of the module with the build variables of the target's Python."""
    return f"_sysconfigdata__{target.triplet}"


def provide(folder: Path, target: Target, say: Callable[[str], None]) -> Path:
    """`folder`, containing ``include/`` and the module `sysconfigdata`; downloaded if they are
    missing. ReleaseError."""
    if folder.is_dir():
        return folder
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise ReleaseError(
                f"{program} is missing: compiling for {target} needs Debian, or a host like it"
            )
    say(f"fetching Python's headers for {target}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".") as name:
        scratch = Path(name)
        _fetch(scratch, target)
        whole = scratch / "whole"
        root = scratch / "root/usr"
        shutil.copytree(root / "include", whole / "include")
        module = f"{sysconfigdata(target)}.py"
        shutil.copy(root / f"lib/python{target.python}" / module, whole / module)
        whole.rename(folder)
    return folder


def _fetch(scratch: Path, target: Target) -> None:
    """Download the packages and unpack them into ``root``."""
    suite = next(suite for suite, python in PYTHON_OF.items() if python == target.python)
    try:
        lines = apt_sources.lines_for(suite, apt_sources.of_host(), None)
    except apt_sources.NoMirrorError as error:
        raise ReleaseError(str(error)) from error
    (scratch / "sources.list").write_text(lines)
    (scratch / "status").touch()
    for name in ("state/lists/partial", "cache/archives/partial", "root"):
        (scratch / name).mkdir(parents=True)
    _run(_apt(scratch, target, "update"), scratch)
    python = f"libpython{target.python}"
    _run(_apt(scratch, target, "download", f"{python}-dev", f"{python}-minimal"), scratch)
    for package in scratch.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(package), str(scratch / "root")], scratch)


def _apt(scratch: Path, target: Target, *command: str) -> list[str]:
    architecture = ARCHITECTURES[target.machine]
    options = {
        "Dir::State": scratch / "state",
        "Dir::State::status": scratch / "status",
        "Dir::Cache": scratch / "cache",
        "Dir::Etc::sourcelist": scratch / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",  # another user may not write here
        "APT::Update::Error-Mode": "any",
        "Acquire::Languages": "none",
    }
    pairs = [f"--option={key}={value}" for key, value in options.items()]
    return ["apt-get", "--quiet=2", *pairs, *command]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, capture_output=True, check=False, cwd=folder, text=True)
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg-deb:"))]
        reason = told[0] if told else f"it ended with status {done.returncode}"
        raise ReleaseError(f"{command[0]} {command[-1]} failed: {reason}")
