"""Host errors: one line and a remedy."""

from __future__ import annotations

from typing import Final, Literal, get_args

Kind = Literal[
    "dead", "refused", "key_changed", "key_unknown", "auth", "lost", "sudo", "disk_full", "failed"
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
REMEDIES: Final[dict[Kind, str]] = {
    "dead": "is it powered, is its address right, does a firewall drop port 22?",
    "refused": "the machine is up but nothing listens on that port: start sshd, or correct the "
    "port",
    "key_changed": "another machine answers at this address, or it was installed anew: "
    "`fleet keys adopt` or `fleet replace` if that is so",
    "key_unknown": "its host key is not pinned: `fleet keys adopt` after looking at it; if it was "
    "revoked, `fleet replace`, or take it out of fleet.toml",
    "auth": "it does not take the fleet's key for this user: correct `user`, or add the fleet's "
    "public key to its authorized_keys",
    "lost": "run the same command again: it goes on where the connection broke",
    "sudo": "the user may not use sudo without a password: add `USER ALL=(ALL) NOPASSWD: ALL` to a "
    "file in /etc/sudoers.d",
    "disk_full": "make room: old releases are in /opt/sanderling/releases",
    "failed": "",
}


class HostError(Exception):
    """A failure of one host; `str()` is one line, `remedy` says what to do about it, if known."""

    def __init__(self, kind: Kind, text: str, /, *, remedy: str = "", **details: object) -> None:
        super().__init__(" ".join(text.split()))
        self.kind = kind
        self.remedy = remedy or REMEDIES[kind]  # empty if there is none
        self.details = details  # what a program there said beside
