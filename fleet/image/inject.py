"""A node's own data (name, keys, configuration), and where a card carries it to the first boot."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from fleet.image.wifi import Wifi, wpa_supplicant
from fleet.inventory.effective import user_of
from fleet.inventory.files import HostFile
from fleet.inventory.model import Inventory
from fleet.inventory.parties import HostOf, hostname_of
from fleet.keys.ssh import HostKey

FORMAT: Final = 1
FOLDER: Final = "sanderling"
MARK: Final = f"{FOLDER}/image.json"
MANIFEST: Final = f"{FOLDER}/manifest.json"
# Login user of Sanderling images.
USER: Final = "fleet"


class ImageMark(Struct, frozen=True):
    """Self-description of a Sanderling image, in its boot partition. `wifi`: its first boot takes
    a network's name and key."""

    format: Literal[1]
    release: str
    model: str
    wifi: bool = False


class NodeData(NamedTuple):
    """Files that make a card this node's."""

    node: str
    hostname: str
    user: str
    authorized_keys: tuple[str, ...]
    host_key: HostKey
    files: tuple[HostFile, ...] = ()
    wifi: Wifi | None = None


class Manifest(Struct, frozen=True):
    """The manifest that images/firstboot applies; `id` differs each time."""

    format: int
    id: str
    node: str
    user: str
    files: tuple[Entry, ...]


class Entry(Struct, frozen=True):
    """A file of a manifest: its path below the folder, its destination, mode and owner."""

    name: str
    mode: int
    owner: str
    sha256: str


class Keys(Protocol):
    """The part of a key store needed for a host's SSH."""

    @property
    def operator_public(self) -> str:
        """The public key that may always log in."""
        ...

    def host_key(self, host: str) -> HostKey:
        """The key pinned for a host."""
        ...


def node_data(
    fleet: Inventory, host: HostOf, keys: Keys, files: Sequence[HostFile] = ()
) -> NodeData:
    """The data of a host from the inventory."""
    people = [key.strip() for person in fleet.person for key in person.ssh_keys]
    return NodeData(
        node=host.name,
        hostname=hostname_of(host.name),
        user=user_of(fleet, host),
        authorized_keys=tuple(dict.fromkeys([keys.operator_public, *people])),
        host_key=keys.host_key(host.name),
        files=tuple(files),
    )


def payload(data: NodeData, number: str) -> dict[str, bytes]:
    """Files for the boot partition of one of our images, in the order of writing: the manifest
    last, because its presence means that all are there. `number` is its id."""
    host = data.host_key
    files = [
        HostFile("hostname", f"{data.hostname}\n".encode()),
        HostFile("ssh_host_ed25519_key", host.private, 0o600),
        HostFile("ssh_host_ed25519_key.pub", f"{host.public}\n".encode()),
        HostFile("authorized_keys", authorized(data).encode(), 0o600),
        *[each._replace(path=f"files/{each.path}") for each in data.files],
    ]
    if data.wifi:
        files.append(HostFile("wpa_supplicant.conf", wpa_supplicant(data.wifi), 0o600))
    entries = [
        Entry(
            name=each.path,
            mode=each.mode,
            owner=data.user if each.path == "authorized_keys" else each.owner,
            sha256=hashlib.sha256(each.content).hexdigest(),
        )
        for each in files
    ]
    manifest = Manifest(FORMAT, number, data.node, data.user, tuple(entries))
    written = {f"{FOLDER}/{each.path}": each.content for each in files}
    return {**written, MANIFEST: msgspec.json.format(msgspec.json.encode(manifest))}


def authorized(data: NodeData) -> str:
    """The content of authorized_keys."""
    return "".join(f"{key}\n" for key in data.authorized_keys)
