"""SSH keys: generation, fingerprints, and host key pins in OpenSSH's formats."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final, NamedTuple

from fleet.inventory.contradictions.people import whole
from fleet.keys.errors import KeyStoreError

SSH_PORT: Final = 22
# Accepted kinds of host keys; DSA is not among them.
KINDS: Final = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "ssh-rsa",
)


class HostKey(NamedTuple):
    """An SSH key pair: OpenSSH's PEM, and ``ssh-ed25519 AAAA…``."""

    private: bytes
    public: str

    def __repr__(self) -> str:
        return f"<SSH key {self.public}>"  # the repr never shows the private half


def make(comment: str) -> HostKey:
    """A new Ed25519 key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return HostKey(private, f"{public.decode('ascii')} {comment}".rstrip())


class LockedKeyError(KeyStoreError):
    """A private key is protected by a passphrase."""


def load(private: bytes, name: str) -> HostKey:
    """The key pair of a private key file; KeyStoreError names it, LockedKeyError if it has a
    passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_ssh_private_key,
    )

    try:
        key = load_ssh_private_key(private, password=None)
    except TypeError:
        raise LockedKeyError(f"{name} has a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise KeyStoreError(f"{name} is no private SSH key; restore it from a backup") from None
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return HostKey(private, public.decode("ascii"))


def normal(public: str) -> str:
    """``kind base64`` of a public key, without its comment; KeyStoreError for an invalid one."""
    kind, _, rest = public.strip().partition(" ")
    data = rest.split(" ")[0]
    try:
        blob = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        blob = b""
    # The kind is repeated inside the key, after its length.
    repeated = len(kind).to_bytes(4) + kind.encode()
    if kind not in KINDS or not blob.startswith(repeated) or not whole(blob):
        raise KeyStoreError(f"{public[:40]!r} is no public SSH key of a kind in use")
    return f"{kind} {data}"


def fingerprint(public: str) -> str:
    """``SHA256:…`` as ssh-keygen -l and a host's console show it."""
    digest = hashlib.sha256(base64.b64decode(normal(public).split(" ")[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode('ascii').rstrip('=')}"


def same_fingerprint(given: str, public: str) -> bool:
    """Whether a typed fingerprint matches this key."""
    return hmac.compare_digest(given.strip().rstrip("=").encode(), fingerprint(public).encode())


def pattern(address: str, port: int) -> str:
    """How known_hosts names an address: alone, or in brackets with a port other than 22."""
    return address if port == SSH_PORT else f"[{address}]:{port}"


def known_hosts(pins: list[tuple[str, int, str]]) -> bytes:
    """The file of (address, port, public key)."""
    lines = [f"{pattern(address, port)} {normal(public)}\n" for address, port, public in pins]
    return "".join(lines).encode()


def find_known(text: str, address: str, port: int) -> tuple[str, ...]:
    """The public keys that a known_hosts file has for an address, hashed names included; the
    preferred kind first."""
    wanted = pattern(address, port)
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 3 or words[0].startswith(("#", "@")):
            continue
        if any(_names(word, wanted) for word in words[0].split(",")) and words[1] in KINDS:
            found.append(normal(f"{words[1]} {words[2]}"))
    return tuple(sorted(found, key=lambda public: KINDS.index(public.split(" ")[0])))


def _names(word: str, wanted: str) -> bool:
    if not word.startswith("|1|"):
        return word.lower() == wanted.lower()
    try:
        _, _, salt, digest = word.split("|")
        mac = hmac.new(base64.b64decode(salt), wanted.lower().encode(), hashlib.sha1).digest()
        return hmac.compare_digest(mac, base64.b64decode(digest))
    except (ValueError, binascii.Error):
        return False
