"""The sources of a release in a checkout, and the release name derived from them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

from fleet.release.target import ReleaseError

# Increase it when a release's files change although the sources do not.
LAYOUT: Final = 1
# Packages in the wheel. The operator's commands stay on the operator's machine.
PACKAGES: Final = ("_core", "agent", "processors", "sensors")
SHARED: Final = "images/systemd"
LOCK: Final = "locks/release.txt"
BUILD_LOCK: Final = "locks/build.txt"
PROJECT: Final = "pyproject.toml"
WANTED: Final = (*PACKAGES, SHARED, LOCK, BUILD_LOCK, PROJECT, "setup.py", "LICENSE")
# Sections of the project file that determine the build; settings of linters do not.
_DECIDING: Final = (("project",), ("build-system",), ("tool", "setuptools"), ("tool", "distutils"))


class Sources(NamedTuple):
    """Files of a checkout, read once: later changes do not get into the release being built."""

    files: dict[str, bytes]  # by path, relative to the checkout

    @property
    def release(self) -> str:
        """The release's id: ``<version>-<8 hex digits of a digest of everything that determines its
        content>``. It does not depend on the target, so all targets of the same sources share
        it."""
        project = tomllib.loads(self.files[PROJECT].decode())
        digest = hashlib.sha256(f"layout {LAYOUT}\n".encode())
        for path in sorted(self.files):
            content = self.files[path]
            if path == PROJECT:
                content = _deciding(project)
            digest.update(f"{path}\n{len(content)}\n".encode())
            digest.update(content)
        return f"{project['project']['version']}-{digest.hexdigest()[:8]}"

    @property
    def lock(self) -> str:
        """The lock file of a release."""
        return self.files[LOCK].decode()

    @property
    def shared(self) -> dict[str, bytes]:
        """Files for a host's system, such as units, by name."""
        return {
            Path(path).name: content
            for path, content in self.files.items()
            if Path(path).parent.as_posix() == SHARED
        }

    def write(self, folder: Path) -> None:
        """Write the files that the wheel is built from into `folder`."""
        for path, content in self.files.items():
            if not path.startswith((f"{SHARED}/", "locks/")):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(content)
        # The project file refers to the README; a release needs no content of it.
        (folder / "README.md").write_text("# Sanderling\n")


def checkout() -> Path:
    """The checkout that this program runs from. ReleaseError if there is none."""
    root = Path(__file__).resolve().parents[2]
    if not (root / PROJECT).is_file() or not (root / LOCK).is_file():
        raise ReleaseError(
            "releases are made from a checkout of the sources; run its .venv/bin/fleet"
        )
    return root


def read(root: Path) -> Sources:
    """The sources in the checkout `root` as they are, with uncommitted changes and new files,
    without ignored files. ReleaseError if git cannot list them."""
    listing = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--")
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *listing, *WANTED],  # noqa: S607 - the one in PATH
            capture_output=True,
            check=False,
        )
    except OSError as error:
        raise ReleaseError("git lists the sources of a release; install git") from error
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise ReleaseError(f"{root} is not a git checkout that can be listed: {reason}")
    paths = sorted(set(done.stdout.decode().split("\0")) - {""})
    return Sources({path: (root / path).read_bytes() for path in paths if (root / path).is_file()})


class SourceRevision(NamedTuple):
    """The origin of sources: a commit, and the files that differ from it."""

    commit: str  # empty before the first
    changed: tuple[str, ...]

    def told(self, release: str) -> str:
        """A line that names the changes in `release` since its commit; empty if there are none."""
        if not self.changed:
            return ""
        more = f" and {len(self.changed) - 1} more" if len(self.changed) > 1 else ""
        commit = self.commit[:12] or "no commit"
        return f"{release} is of {commit}, changed since: {self.changed[0]}{more}"


def origin(root: Path) -> SourceRevision:
    """The commit of the checkout `root`, and the files of a release that differ from it."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *words],  # noqa: S607 - the one in PATH
            capture_output=True,
            text=True,
            check=False,
        )
        return "" if done.returncode else done.stdout

    status = git("status", "--porcelain", "-z", "--no-renames", "--", *WANTED)
    changed = tuple([line[3:] for line in status.split("\0") if line])
    return SourceRevision(git("rev-parse", "--verify", "-q", "HEAD").strip(), changed)


def _deciding(project: dict[str, object]) -> bytes:
    found = []
    for path in _DECIDING:
        table: object = project
        for key in path:
            table = table.get(key) if isinstance(table, dict) else None
        found.append(table)
    return json.dumps(found, sort_keys=True).encode()
