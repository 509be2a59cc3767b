"""Encodes replies of the registration service; lists of all parties once for each change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from agent.wire.base import Message
from agent.wire.codec import JSON, encode
from agent.wire.directory import Accounts, Changes, DirectoryReply

# Shorter lists are encoded in less time than it takes to compare them.
LONG: Final = 256


class _Accounts(Message, frozen=True, tag="accounts"):
    """An `Accounts` whose list is encoded already."""

    id: str
    accounts: msgspec.Raw
    age_s: float


class _Changes(Message, frozen=True, tag="changes"):
    """A `Changes`, likewise."""

    id: str
    epoch: str
    version: int
    whole: bool
    entries: msgspec.Raw


class ReplyEncoder:
    """Any reply as a frame. The last list of accounts, and of all entries, is kept encoded, for
    each codec: at 10,000 parties it takes milliseconds of the loop for whoever asks."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bytes], tuple[Any, msgspec.Raw]] = {}

    def __call__(self, reply: DirectoryReply, codec: bytes) -> bytes:
        """The frame of a reply."""
        match reply:
            case Accounts(id, accounts, age_s) if len(accounts) >= LONG:
                # A directory gives the same tuple until a party changes.
                return encode(
                    _Accounts(id, self._list("accounts", accounts, accounts, codec), age_s), codec
                )
            case Changes(id, epoch, version, True, entries) if len(entries) >= LONG:
                raw = self._list("entries", (epoch, version), entries, codec)
                return encode(_Changes(id, epoch, version, whole=True, entries=raw), codec)
            case _:
                return encode(reply, codec)

    def _list(self, kind: str, state: Any, items: Sequence[Any], codec: bytes) -> msgspec.Raw:
        known = self._kept.get((kind, codec))
        if known is None or (known[0] is not state and known[0] != state):
            made = msgspec.json.encode(items) if codec == JSON else msgspec.msgpack.encode(items)
            known = self._kept[kind, codec] = state, msgspec.Raw(made)
        return known[1]
