"""Validation of persons: their public SSH keys parse."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Final

from fleet.inventory.model import Inventory

KINDS: Final = (
    "ssh-ed25519",
    "sk-ssh-ed25519@openssh.com",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "ssh-rsa",
)


def check(fleet: Inventory) -> Iterator[str]:
    """SSH keys that sshd would reject, and keys that two persons share."""
    owners: dict[str, str] = {}
    for person in fleet.person:
        for number, key in enumerate(person.ssh_keys, 1):
            where = f"person {person.name}: ssh_keys, number {number},"
            if (wrong := _wrong(key)) is not None:
                yield f"{where} {wrong}"
                continue
            blob = key.split()[1]
            if blob in owners:
                whose = "there twice" if owners[blob] == person.name else f"{owners[blob]}'s too"
                yield f"{where} is {whose}"
            owners.setdefault(blob, person.name)


def _wrong(key: str) -> str | None:
    """The error of a line of authorized_keys without options; None if it is valid."""
    if "PRIVATE KEY" in key:
        return "is a private key: make a new pair, and put the text of its .pub file here"
    if not key.isprintable():
        return "is more than one line; write each key in quotes of its own"
    kind, _, rest = key.strip().partition(" ")
    if kind not in KINDS:
        return "is no public SSH key; it begins with ssh-ed25519, as the .pub file has it"
    try:
        blob = base64.b64decode((rest.split() or [""])[0], validate=True)
    except (binascii.Error, ValueError):
        blob = b""
    # The blob is a list of strings, each with its length; the first repeats the kind.
    if not blob.startswith(len(kind).to_bytes(4, "big") + kind.encode()) or not whole(blob):
        return "is cut off or damaged; copy the whole line of the .pub file"
    return None


def whole(blob: bytes) -> bool:
    """Whether the parts of a public SSH key are there, as long as they say."""
    at = 0
    parts = 0
    while at < len(blob):
        at += 4 + int.from_bytes(blob[at : at + 4], "big")
        parts += 1
    return at == len(blob) and parts > 1
