"""Names of clones' topics: nobody finds the device to one, without its home master's secret."""

from __future__ import annotations

from hashlib import blake2b, sha256
from typing import Final

from agent.wire.topics import STAYS

LEAVES: Final = "clone-"
SECRET_BYTES: Final = 32


def digest_of(device: str) -> str:
    """Pseudonym in questions to another master, in place of the name of its device."""
    return sha256(device.encode()).hexdigest()


def topic_of(secret: bytes, digest: str, *, leaves: bool) -> str:
    """The topic of a device's clone. It is the same for every clone of it."""
    keyed = blake2b(digest.encode(), digest_size=8, key=secret).hexdigest()
    return f"{LEAVES if leaves else STAYS}{keyed}"
