"""Alerts to a topic of ntfy: one POST each, as JSON, which takes any letters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import random
from typing import Final
from urllib.parse import urlsplit

import msgspec

from agent.gateway.feed.alert_log import Logged
from agent.gateway.output_config import GatewayNtfy
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.alert_sender import AlertSender
from agent.gateway.outputs.alert_text import NameOf, body, subject
from agent.gateway.outputs.base import Sources
from agent.gateway.outputs.from_config import configured_matcher, poster, secret_line
from agent.net.http_poster import Request
from agent.runtime.release import release
from agent.runtime.retrying import Answered, Retrying

KIND: Final = "ntfy"
TAGS: Final = {"raised": "warning", "cleared": "white_check_mark"}
NORMAL: Final = 3


def message(entry: Logged, topic: str, priority: int, name_of: NameOf) -> bytes:
    """The ntfy post for an alert."""
    told = entry.notification.attributes if entry.notification else {}
    kind = str(told.get("kind", ""))
    head = subject(entry, name_of)
    return msgspec.json.encode(
        {
            "topic": topic,
            "title": head,
            "message": body(entry, name_of).removeprefix(f"{head}\n"),
            "priority": NORMAL if kind == "cleared" else priority,
            "tags": [TAGS.get(kind, "information_source")],
        }
    )


def ntfy_output(
    config: GatewayNtfy,
    sources: Sources,
    *,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random,
) -> AlertSender:
    """The output; ConfigError."""
    name = f"{KIND} {config.name}"
    parts = urlsplit(config.url)
    server = f"{parts.scheme}://{parts.netloc}/"
    posts = poster(server, config.timeout_s, sources.folder, config.ca, f"ntfy.ca of {config.name}")
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"sanderling/{release() or 'checkout'}",
        "Connection": "close",
    }
    where = f"ntfy.token_file of {config.name}"
    if token := secret_line(sources.folder, config.token_file, where):
        headers["Authorization"] = f"Bearer {token}"

    def attempt(entries: Sequence[Logged]) -> Answered:
        (entry,) = entries
        told = message(entry, config.topic, config.priority, sources.rooms.name_of)
        return posts.post(Request(told, headers))

    line: AlertLine[Logged] = AlertLine(
        sources.alerts.cursor(name),
        Retrying(jitter=jitter, give_up_s=config.give_up_s),
        configured_matcher(config.filter, f"ntfy.filter of {config.name}"),
    )
    return AlertSender(KIND, name, sources, line, attempt, clock)
