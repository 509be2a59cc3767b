"""`fleet image build` and `list`: builds an image, its block map and its manifest from a recipe."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from fleet.common import files, locks
from fleet.image import assemble, layers, recipe, rootfs, target
from fleet.image.layers import ImageError, Value
from fleet.inventory.folder import Folder
from fleet.inventory.folder import cache as cache_of
from fleet.release import apt_sources
from fleet.release import bundle as bundles
from fleet.release.target import PYTHON_OF, Target

MANIFEST: Final = ".json"
MAP: Final = ".bmap"
MAX_MANIFEST: Final = 16 << 20

Say = Callable[[str], None]


class Manifest(msgspec.Struct, frozen=True):
    """Manifest of an image, stored beside it as IMAGE.json."""

    image: str  # name of its file
    model: str
    suite: str
    release: str
    recipe: str  # SHA-256 of the plan: layers, values, files
    fetched: int  # when its packages were downloaded, Unix time; no file of the image is later
    bytes: int
    sha256: str
    layers: tuple[str, ...]
    values: dict[str, Value]
    packages: dict[str, str]  # name → version


class Wanted(NamedTuple):
    """The arguments of `fleet image build`."""

    model: str
    suite: str
    mirror: str | None
    values: Mapping[str, Value]
    size_mib: int | None
    output: Path | None
    release: str
    refresh: bool


def build(folder: Folder, wanted: Wanted, say: Say) -> Manifest:
    """Build the image; ImageError, ReleaseError. Errors of the plan (PlanError) are raised before
    anything is done."""
    plan = plan_of(wanted)
    output = (wanted.output or folder.images / f"{wanted.model}-{wanted.suite}.img").resolve()
    _require_replaceable(output)
    if lacking := rootfs.missing():
        raise ImageError(lacking)
    lines = apt_sources.lines_for(wanted.suite, apt_sources.of_host(), wanted.mirror)
    cache = cache_of(folder.images / "cache")
    output.parent.mkdir(parents=True, exist_ok=True)
    part = output.with_name(f".{output.name}.part")
    busy = f"another command makes an image in {output.parent}; try again when it is done"
    with locks.alone(output.parent, ImageError(busy)):
        release = _bundle(folder, wanted, say)
        root = rootfs.make(plan, wanted.suite, lines, cache, refresh=wanted.refresh, say=say)
        try:
            _assemble(plan, root, release, lines, part, say)
            say("mapping blocks and adding it all up")
            manifest = Manifest(
                image=output.name,
                model=plan.model,
                suite=wanted.suite,
                release=release.release,
                recipe=plan.digest,
                fetched=root.epoch,
                bytes=part.stat().st_size,
                sha256=_sha256(part),
                layers=plan.layers,
                values=dict(plan.values),
                packages=root.packages,
            )
            _write_map(part, output.with_suffix(MAP))
            part.rename(output)
        finally:
            part.unlink(missing_ok=True)
        output.with_suffix(MANIFEST).write_bytes(
            msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        )
    return manifest


def _require_replaceable(output: Path) -> None:
    """ImageError for a device, a file beside an image, or Unfit for one that is no image."""
    if output.parent == Path("/dev") or (output.exists() and not output.is_file()):
        raise ImageError(f"{output} is no file; `fleet image flash` writes an image to a card")
    if output.suffix in (MANIFEST, MAP):
        raise ImageError(f"{output} has the name of what comes beside an image; name it .img")
    if output.exists():
        target.require_image(output)


def plan_of(wanted: Wanted) -> recipe.ImagePlan:
    """The plan for these arguments; PlanError."""
    of_model = layers.read_recipe(wanted.model)
    if wanted.size_mib is not None:
        of_model = msgspec.structs.replace(of_model, size_mib=wanted.size_mib)
    return recipe.plan(layers.read_library(), of_model, wanted.values)


def stored(folder: Folder) -> list[Manifest]:
    """All images of the fleet's folder, by name; files without a manifest are ignored. OSError for
    a folder that cannot be read, which is not an empty one."""
    found = []
    there = sorted(folder.images.iterdir()) if folder.images.exists() else []
    for path in [each for each in there if each.suffix == ".img"]:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found.append(read_manifest(path))
    return found


def read_manifest(image: Path) -> Manifest:
    """Read the manifest beside an image; OSError, msgspec.DecodeError."""
    content = files.read(image.with_suffix(MANIFEST), MAX_MANIFEST)
    return msgspec.json.decode(content, type=Manifest)


def _bundle(folder: Folder, wanted: Wanted, say: Say) -> bundles.Bundle:
    pi = Target("aarch64", PYTHON_OF[wanted.suite])
    if wanted.release:
        return bundles.find(folder, wanted.release, pi)
    return bundles.build(folder, pi, say=say)


def _assemble(
    plan: recipe.ImagePlan,
    root: rootfs.RootFs,
    release: bundles.Bundle,
    lines: str,
    image: Path,
    say: Say,
) -> None:
    """Run `assemble` as root: in a user namespace, unless this process is root."""
    what = assemble.Specification(
        plan=plan,
        root_tar=str(root.tar),
        bundle=str(release.path.resolve()),
        release=release.release,
        sources=lines,
        epoch=root.epoch,
        image=str(image),
        work=str(image.parent),
    )
    command = [sys.executable, "-m", "fleet.image.assemble"]
    if os.geteuid():
        command = ["unshare", "--map-root-user", "--map-auto", "--", *command]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        try:
            process.stdin.write(msgspec.json.encode(what))
            process.stdin.close()
            for line in process.stdout:
                say(line.decode().strip())
            said = process.stderr.read().decode().strip()
        except KeyboardInterrupt:
            process.stdout.close()  # if only this process was interrupted, it ends at its next line
            process.wait()  # it removes what it has unpacked
            raise
    if process.returncode:
        raise ImageError(said.splitlines()[-1] if said else "the image could not be assembled")


def _write_map(image: Path, path: Path) -> None:
    command = ("bmaptool", "create", "--output", str(path), str(image))
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise ImageError(f"bmaptool failed: {done.stderr.strip().splitlines()[-1]}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
