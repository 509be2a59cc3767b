"""Publications of a client to topics."""

from __future__ import annotations

import re
import secrets
import time
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from agent.client.connection import ConnectionCutError, NoReplyError
from agent.wire.base import NAME_WORDS, Message
from agent.wire.codec import encode
from agent.wire.messages import Answer
from agent.wire.topics import Publish, Published

# A message is sent again when nothing came for so long.
AGAIN_S = 2.0

ATTRIBUTE: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


class PublishError(Exception):
    """The master does not take the message; one line says why."""


class Connected(Protocol):
    """The part of `Client` that publishing uses."""

    def send_message(self, message: Message) -> None:
        """Send to the master."""

    def take(self, timeout_ms: float, *, until_cut: bool = False) -> None:
        """Receive one message and dispatch it; `NoReplyError` after `timeout_ms`."""

    def silent(self, waited_s: float) -> NoReplyError:
        """The error for so many seconds without a reply."""


class Publisher:
    """Publications on one connection: each is sent until the master replies, and taken once.
    `in_doubt` is the last that this class numbered, while a master may have taken it unsaid."""

    def __init__(self, client: Connected) -> None:
        self._client = client
        self._id = secrets.token_hex(8)
        self._numbered = 0
        self._awaited: Publish | None = None  # whose reply is awaited
        self.in_doubt: Publish | None = None
        self._replies: deque[Published] = deque()

    def publish(
        self,
        topic: str,
        attributes: Mapping[str, bool | float | str],
        id_: str | None,
        sequence: int | None,
        patience_s: float,
    ) -> str:
        """Publish and wait; as `Client.publish`, which see."""
        if id_ is None or sequence is None:
            message = self._number(topic, attributes)
        else:
            message = publication(topic, attributes, id_, sequence, oldest=0)
        self._replies.clear()
        self._awaited = message
        give_up_s = time.monotonic() + patience_s
        try:
            while not self._replies:
                self._client.send_message(message)
                left_s = give_up_s - time.monotonic()
                try:
                    while not self._replies:
                        self._client.take(min(left_s, AGAIN_S) * 1e3, until_cut=True)
                except ConnectionCutError:
                    if time.monotonic() >= give_up_s:
                        raise
                except NoReplyError:
                    if time.monotonic() >= give_up_s:
                        raise self._client.silent(patience_s) from None
        finally:
            self._awaited = None
        reply = self._replies.popleft()
        if reply.state == "refused":
            raise PublishError(reply.message)
        if message is self.in_doubt:
            self.in_doubt = None
        return reply.message

    def replied(self, reply: Published) -> None:
        """Take the reply to the message on its way; others are late and ignored."""
        asked = self._awaited
        if asked is not None and (reply.id, reply.sequence) == (asked.id, asked.sequence):
            self._replies.append(reply)

    def refused(self, answer: Answer) -> bool:
        """Whether this refuses the message on its way: the master could not decode it, perhaps
        because its version has no topics."""
        asked = self._awaited
        if asked is None or answer.id != asked.id or answer.reason != "malformed":
            return False
        self._replies.append(Published(asked.id, "refused", message=answer.message))
        return True

    def _number(self, topic: str, attributes: Mapping[str, bool | float | str]) -> Publish:
        """The message under the next number; the last one if that is in doubt and the same."""
        number = self._numbered + 1
        message = publication(topic, attributes, self._id, number, oldest=number)
        if (last := self.in_doubt) is not None:
            same = replace(message, sequence=last.sequence, oldest=last.oldest)
            if encode(same) == encode(last):
                return last
        self._numbered = number
        self.in_doubt = message
        return message


def publication(
    topic: str,
    attributes: Mapping[str, bool | float | str],
    id_: str,
    sequence: int,
    *,
    oldest: int,
) -> Publish:
    """The message; ValueError says what is wrong with it."""
    for name in attributes:
        if not ATTRIBUTE.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an attribute; take {NAME_WORDS}")
    try:
        message = msgspec.convert(
            {
                "type": "publish",
                "id": id_,
                "topic": topic,
                "attributes": dict(attributes),
                "sequence": sequence,
                "oldest": oldest,
            },
            Publish,
        )
        encode(message)  # a text may have what UTF-8 has not
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ValueError(f"no message for a topic: {error}") from None
    return message
