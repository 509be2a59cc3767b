"""`fleet image flash`: writes an image to a card and adds one node's data."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from fleet.common.exits import FAILED, CommandError
from fleet.image import bmap, devices, inject, stock, target, writing
from fleet.image.bmap import Bmap
from fleet.image.devices import Device, Unfit
from fleet.image.fat import Fat
from fleet.image.inject import ImageMark, NodeData
from fleet.image.stock import Kind
from fleet.image.target import Target
from fleet.image.writing import Step
from fleet.inventory.folder import Folder


class FlashError(CommandError):
    """The card was not written; the text is one line."""


class DamagedError(CommandError):
    """The card was partly written and is unusable; the text is one line."""

    status = FAILED


class Image(NamedTuple):
    """Facts about an image."""

    path: Path
    map: Bmap
    kind: Kind
    mark: ImageMark | None


class Flashed(Struct, frozen=True):
    """Result of the command, for programs."""

    node: str
    hostname: str
    image: str
    kind: Kind
    release: str  # of an image of ours; else empty
    device: str
    size: int
    written: int  # bytes, all of them verified
    host_key: str
    files: tuple[str, ...]  # files written to the boot partition


def examine(path: Path) -> Image:
    """Examine an image: its map, and its first-boot convention. CommandError if it is unusable."""
    if not path.is_file():
        raise FlashError(f"there is no image {path}")
    if path.suffix in {".xz", ".gz", ".zst", ".zip"}:
        raise FlashError(f"{path.name} is compressed; unpack it first")
    fat = Fat(path)
    kind, mark = stock.recognise({name: fat.read(name) for name in stock.TELLING})
    return Image(path, bmap.of(path), kind, mark)


def check_fits(image: Image, data: NodeData, model: str) -> None:
    """FlashError if the image does not fit this node."""
    if image.mark is None:
        return
    if image.mark.model != model:
        raise FlashError(
            f"{image.path.name} is for {image.mark.model}, {data.node} is a {model} by fleet.toml"
        )
    if data.wifi and not image.mark.wifi:
        raise FlashError(
            f"{image.path.name} takes no Wi-Fi: it has no layer wifi, or was built before its "
            "first boot could; build it again, or leave --wifi out"
        )
    if data.user != inject.USER:
        raise FlashError(
            f"images of `fleet image build` have the user {inject.USER}, and {data.node} is "
            f"logged in to as {data.user} by fleet.toml"
        )


def find_card(path: Path, image: Image, folder: Folder) -> Device | None:
    """The disk at `path`, or None for a file; Unfit if it must not be overwritten."""
    place = Path(os.path.realpath(path))
    if place.is_block_device():
        in_use = {
            _device_of(folder.root): "the fleet's folder",
            _device_of(image.path): "the image",
        }
        return devices.card(devices.listed(), str(place), image.map.size, in_use)
    if place.parent == Path("/dev"):
        raise Unfit(f"{path} is no block device; is the card in?")
    target.check_file(place, image.path)
    return None


def flash(
    image: Image,
    data: NodeData,
    path: Path,
    disk: Device | None,
    told: Callable[[Step], None],
) -> Flashed:
    """Write the image, verify it, write the node's data, and verify that.

    DamagedError once writing has started; KeyboardInterrupt then also leaves an unusable card.
    """
    place = os.path.realpath(path)
    with _opened(Path(place), image, disk) as card:
        try:
            with image.path.open("rb") as file:
                writing.write(file, image.map, card, told)
            files = _inject(image, data, card)
        except CommandError as error:
            raise DamagedError(f"{error}. {path} is unusable as it is") from error
    return Flashed(
        node=data.node,
        hostname=data.hostname,
        image=str(image.path),
        kind=image.kind,
        release=image.mark.release if image.mark else "",
        device=str(path),
        size=image.map.size,
        written=image.map.mapped,
        host_key=data.host_key.public,
        files=tuple(files),
    )


@contextmanager
def _opened(place: Path, image: Image, disk: Device | None) -> Iterator[Target]:
    if disk is None:
        try:
            card = target.open_file(place, image.map.size)
        except OSError as error:
            raise FlashError(f"{place}: {error.strerror}") from None
    else:
        card = target.open_device(str(place))
    try:
        # The card may have been swapped while the prompt waited.
        if disk is not None and (card.number != disk.number or not _still(disk, image)):
            raise Unfit(f"{place} is another card than a moment ago; look again")
        yield card
    finally:
        card.close()


def _still(disk: Device, image: Image) -> bool:
    return devices.card(devices.listed(), disk.path, image.map.size) == disk


def _inject(image: Image, data: NodeData, card: Target) -> dict[str, bytes]:
    """Write the node's data into the boot partition and read it back; returns the files."""
    fat = Fat(card.path, card.descriptor)
    number = secrets.token_hex(8)
    if image.kind == "sanderling":
        files = inject.payload(data, number)
    elif image.kind == "cloud-init":
        files = stock.cloud_init(data, number)
    else:
        files = stock.firstrun(data, fat.read("cmdline.txt") or b"")
    for name, content in files.items():
        fat.write(name, content)
    try:
        card.sync()
    except OSError as error:
        raise FlashError(f"the card did not take what was written: {error.strerror}") from error
    for name, content in files.items():
        if fat.read(name) != content:
            raise FlashError(f"the card is bad: {name} is not what was written; take another one")
    return files


def _device_of(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"
