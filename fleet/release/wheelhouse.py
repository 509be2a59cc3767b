"""Wheelhouse: wheels of Sanderling's dependencies for all targets, downloaded once and verified
against the lock's hashes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from fleet.release.lock import Pinned
from fleet.release.target import ReleaseError, Target

# Packages without a wheel on PyPI; their sdist is pure Python and is built here.
SDISTS: Final = ("sdnotify",)


def provide(
    folder: Path, wanted: Iterable[Pinned], target: Target, say: Callable[[str], None]
) -> list[Path]:
    """One file in `folder` for each of `wanted` in order, wheels for `target` or sdists; missing
    ones are downloaded. ReleaseError says which cannot be provided."""
    wanted = tuple(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    found = chosen(folder, wanted, target)
    if missing := [pin for pin in wanted if pin not in found]:
        say(f"downloading {len(missing)} wheels for {target}")
        _download(folder, missing, target)
        found |= chosen(folder, missing, target)
    for pin in wanted:
        if pin not in found:
            raise ReleaseError(f"{folder} has no {pin.name} {pin.version} for {target}")
    return [found[pin] for pin in wanted]


def chosen(folder: Path, wanted: Iterable[Pinned], target: Target) -> dict[Pinned, Path]:
    """The files in `folder` for those of `wanted` that have one: of the files whose hash is in the
    lock, the wheel that fits `target` best, or an sdist. A damaged file has no such hash."""
    pins = {digest: pin for pin in wanted for digest in pin.sha256}
    ranks = {tag: rank for rank, tag in enumerate(_tags(target))}
    best: dict[Pinned, tuple[int, Path]] = {}
    for path in sorted(folder.iterdir()):
        rank = _rank(path, ranks)
        if rank is None:
            continue
        pin = pins.get(hashlib.sha256(path.read_bytes()).hexdigest())
        if pin is not None and (pin not in best or rank < best[pin][0]):
            best[pin] = (rank, path)
    return {pin: path for pin, (_, path) in best.items()}


def wheel_of_sdist(sdist: Path, folder: Path) -> Path:
    """Build the wheel of a pure Python sdist into `folder`. ReleaseError if it is not pure."""
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    _pip(["wheel", *options, "--wheel-dir", str(folder), str(sdist)], f"{sdist.name} has no wheel")
    (wheel,) = folder.glob("*.whl")
    if not wheel.name.endswith("-none-any.whl"):
        raise ReleaseError(f"{sdist.name} is for one machine only, and has no wheel for others")
    return wheel


def _tags(target: Target) -> list[Tag]:
    """The tags of wheels that run on `target`, the most specific first."""
    major, minor = map(int, target.python.split("."))
    version, interpreter = (major, minor), f"cp{major}{minor}"
    abis = [interpreter]
    return [
        *cpython_tags(version, abis, target.platforms),
        *compatible_tags(version, interpreter, target.platforms),
    ]


def _rank(path: Path, ranks: dict[Tag, int]) -> int | None:
    """The rank of a file, 0 is best; None if it does not fit."""
    if path.name.endswith(".tar.gz"):
        return len(ranks)
    try:
        tags = parse_wheel_filename(path.name)[3]
    except InvalidWheelFilename:
        return None
    return min((ranks[tag] for tag in tags if tag in ranks), default=None)


def _download(folder: Path, missing: list[Pinned], target: Target) -> None:
    options = ["--quiet", "--no-deps", "--require-hashes", "--no-build-isolation"]
    options += ["--only-binary", ":all:", "--no-binary", ",".join(SDISTS)]
    options += ["--implementation", "cp", "--python-version", target.python]
    options += [word for each in target.platforms for word in ("--platform", each)]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.writelines(f"{pin}\n" for pin in missing)
        requirements.flush()
        command = ["download", *options, "--dest", str(folder), "-r", requirements.name]
        _pip(command, f"the wheels for {target} cannot be downloaded")


def _pip(command: list[str], failure: str) -> None:
    """Run pip; on failure, a ReleaseError from `failure` and pip's last message."""
    whole = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *command]
    done = subprocess.run(whole, capture_output=True, check=False, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise ReleaseError(f"{failure}: {' '.join((errors or ['pip failed'])[-1].split())}")
