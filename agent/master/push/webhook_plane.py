"""Webhook plane: subscribers within the master whose notifications are posted to HTTP receivers."""

from __future__ import annotations

import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable
from functools import partial
from random import random
from typing import Final

import msgspec
from msgspec.structs import replace

from agent.alerts.webhook import Webhook
from agent.alerts.webhook_events import (
    AskInbox,
    InboxSaid,
    Post,
    TellOperator,
    WebhookDue,
    WebhookEvent,
    WebhookInstruction,
    WebhookStarted,
)
from agent.master.push.push_plane import PushPlane
from agent.master.push.webhooks import Hook, headers
from agent.net.http_poster import Poster, Request
from agent.runtime.console import Say
from agent.runtime.disk_writer import DiskWriterThread
from agent.runtime.reactor import Reactor
from agent.runtime.release import release
from agent.runtime.retrying import Answered
from agent.wire.push import PushReply, Subscribe, Subscribed
from agent.wire.webhook_config import target

# No authenticated client has this name: a name has no slash.
CLIENT: Final = "webhook/"
STOPPING_S: Final = 0.2  # for a request in progress; it is repeated at the next start
NOT_NOW: Final = "this master's disk takes nothing now"


class _Part:
    """One webhook, its posting thread, and its name at the inboxes."""

    def __init__(self, hook: Hook, kept: list[str]) -> None:
        config = hook.config
        self.name = config.name
        self.keys = hook.keys
        self.client = f"{CLIENT}{config.name}"
        # Positions restart at 1 with each subscription, so its id is new each time.
        self.machine = Webhook(
            kept[0] if kept else secrets.token_hex(8),
            hook.wanted,
            jitter=random,
            longest_pause_s=config.longest_pause_s,
            give_up_s=config.give_up_s,
        )
        self.poster = Poster(target(config.url), config.timeout_s, hook.context)
        self.thread = DiskWriterThread(f"webhook {config.name}")
        self.came: deque[PushReply] = deque()
        # One object per webhook: an inbox recognises its client's connection by it.
        self.peer: Callable[[PushReply], None] = self.came.append


class WebhookPlane:
    """Connects inboxes, webhooks and their threads. `wall` reads the wall clock in seconds since
    1970 UTC."""

    def __init__(
        self,
        reactor: Reactor,
        hooks: Iterable[Hook],
        push: PushPlane,
        wall: Callable[[], float],
        say: Say,
    ) -> None:
        self._reactor = reactor
        self._push = push
        self._wall = wall
        self._say = say
        self._agent = f"sanderling/{release() or 'checkout'}"
        self._closed = False
        self._parts: dict[str, _Part] = {}
        for hook in hooks:
            kept = push.inboxes.ids_of(f"{CLIENT}{hook.config.name}")
            part = self._parts[hook.config.name] = _Part(hook, kept)
            reactor.listen(part.thread.fileno, part.thread.turn)
            self._has(part, WebhookStarted())
        reactor.add_timer(self)

    # --- events --------------------------------------------------------------------------------

    def _has(self, part: _Part, event: WebhookEvent) -> None:
        for instruction in part.machine.handle(event, self._reactor.clock()):
            self._perform(part, instruction)

    def _answered(self, part: _Part, answered: Answered) -> None:
        if not self._closed:
            self._has(part, answered)

    @property
    def next_due(self) -> float | None:
        """When a message came, or a post or renewal is due."""
        if any(part.came for part in self._parts.values()):
            return 0.0
        ticks = [part.machine.next_tick for part in self._parts.values()]
        return min([due for due in ticks if due is not None], default=None)

    def tick(self, now: float) -> None:
        """Do what is due."""
        for part in self._parts.values():
            # Messages that arrive meanwhile wait for the next tick.
            for _ in range(len(part.came)):
                self._has(part, InboxSaid(part.came.popleft()))
            due = part.machine.next_tick
            if due is not None and due <= now:
                self._has(part, WebhookDue())

    # --- instructions --------------------------------------------------------------------------

    def _perform(self, part: _Part, instruction: WebhookInstruction) -> None:
        match instruction:
            case AskInbox(message):
                taken = self._push.ask(part.peer, part.client, message)
                if not taken and isinstance(message, Subscribe):
                    part.came.append(Subscribed(message.id, "refused", message=NOT_NOW))
            case Post():
                self._post(part, instruction)
            case TellOperator(line):
                self._say(f"webhook {part.name}: {line}\n")

    def _post(self, part: _Part, post: Post) -> None:
        body = msgspec.json.encode(replace(post.message, id=part.name))
        told = headers(post.id, int(self._wall()), body, part.keys)
        told |= {
            "Content-Type": "application/json",
            "User-Agent": self._agent,
            "Connection": "close",
        }
        part.thread.submit(
            partial(part.poster.post, Request(body, told)), partial(self._answered, part)
        )

    def close(self) -> None:
        """Stop; a post in progress is repeated at the next start."""
        self._closed = True
        for part in self._parts.values():
            self._reactor.ignore(part.thread.fileno)
            part.thread.close(STOPPING_S)

    # --- status --------------------------------------------------------------------------------

    @property
    def up(self) -> dict[str, bool]:
        """Whether each webhook's last attempt succeeded, by name."""
        return {name: part.machine.up for name, part in self._parts.items()}

    @property
    def counters(self) -> dict[str, int]:
        """Of all webhooks, since the start."""
        total: Counter[str] = Counter()
        for part in self._parts.values():
            total.update(part.machine.counters)
        return dict(total)
