"""Client of a master's public socket.

>>> with Client("tcp://127.0.0.1:5700") as client:          # doctest: +SKIP
...     answer = client.query(["b1/f4"], last_s=600, latency_ms=500, channels=["temperature"])
...     for result in answer.results:
...         print(result.area, result.series.measured("temperature")[-1])
...     with client.watch(["b1/f4"], style="streaming", interval_s=5) as rounds:
...         for each in rounds:
...             print(each.number, each.answer.coverage)
...     client.publish("comfort", {"area": "b1/f4/r413", "vote": 3})
...     with client.subscribe('metric = "temperature" and value > 30') as notifications:
...         for each in notifications:
...             print(each)
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from agent.client.arguments import checked_id, listed
from agent.client.connection import Connection, ConnectionCutError, NoReplyError
from agent.client.masters import Given, Masters, keys_by_address
from agent.client.open_subscriptions import OpenSubscriptions
from agent.client.publishing import Publisher
from agent.client.subscriptions import Notifications, SubscriptionError, short_form
from agent.client.watches import Rounds
from agent.net.keys import KeyFiles
from agent.wire.about import EVERYWHERE
from agent.wire.base import MAX_TIMEOUT_MS, TIMEOUT_FACTOR, Form, QueryForm
from agent.wire.messages import Answer, Query, Slo, Window
from agent.wire.predicate_language import read_filter
from agent.wire.predicate_logic import check
from agent.wire.predicates import Filter
from agent.wire.push import Gap, Notified, ShortNotified, Subscribe, Subscribed
from agent.wire.topics import Published
from agent.wire.unions import ClientReply
from agent.wire.watches import Style, Watch

# Time beyond a query's answer timeout before the master counts as silent.
GRACE_MS = 1_000.0
# Maximum number of answers kept for `receive`, and of queries that they may belong to; a master has
# no more open. Beyond it the oldest are dropped.
MAX_KEPT = 10_000


class Client(Connection[ClientReply]):
    """Sends sensing queries to a master's public socket; a context manager.

    `query` waits for its answer. With `send` and `receive` many queries can be in flight at once;
    answers arrive in any order, each with its query's `id`, and are kept for `receive` while
    another call waits. `watch` opens a standing query, `subscribe` requests notifications; any
    number of all three may be active at the same time.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        keys: KeyFiles | Sequence[KeyFiles] | None = None,
        *,
        masters: Masters[Client] | None = None,
    ) -> None:
        """`address` may be those of several masters, as a sequence or with commas between. Queries,
        messages, watches and subscriptions go to the first of them that is there. A durable
        subscription begins at the first only, and may move from one to another; a message that one
        may have taken goes to no other. `keys` are for all of them, or for each. `masters` is for
        connections that this class makes itself."""
        each = keys_by_address(address, keys)
        first = next(iter(each))
        self._masters: Masters[Client] = masters or Masters(each)
        self._chooses = masters is None and len(self._masters.keys) > 1
        self._sent_by = self._publishes_by = self
        self._masters.clients[first] = self
        patient = len(self._masters.keys) == 1
        super().__init__(first, ClientReply, each[first], patient=patient)
        self._asked = 0
        self._answers: deque[Answer] = deque(maxlen=MAX_KEPT)
        self._own: deque[Answer] = deque()
        self._asking = ""
        # Number of answers due by id, for queries sent by `send`.
        self._due: dict[str, int] = {}
        self._watches: dict[str, Rounds] = {}
        self._subscriptions = OpenSubscriptions()
        self.publisher = Publisher(self)

    def query(
        self,
        areas: Sequence[str],
        *,
        last_s: float | None = None,
        window: Window | None = None,
        percentile: float = 99.0,
        latency_ms: float = 500.0,
        channels: Sequence[str] = (),
        form: QueryForm = "series",
        timeout_ms: float | None = None,
        service: str = "default",
        label: str = "",
        stale_ok: bool = False,
        buckets: int | None = None,
        bucket_s: float | None = None,
    ) -> Answer:
        """Query `areas` for the last `last_s` seconds (or `window`) and wait for the answer.

        `channels` are those wanted, () for all. Only sensors that have one of them contribute: in a
        query for one channel every reading has a value of it, or a flag that gives the reason for
        its absence. With `stale_ok` an area without a live answer may have a result all the same:
        the last values that its clone knows, with their age (`stale_ms`). Form ``buckets`` needs
        `buckets`, their maximum number, or `bucket_s`, the length of one. If the connection is cut,
        for instance by a restart of the master, the query is sent once more, of several masters to
        the next that is there. Raises ValueError for what is no area, `NoReplyError` if the master
        stays silent, `WireError` if what replies is no master; every other failure is an `Answer`.
        """
        if window is None:
            window = Window(last_s=last_s)
        elif last_s is not None:
            raise ValueError("last_s and window do not go together")
        if timeout_ms is None:
            timeout_ms = min(latency_ms * TIMEOUT_FACTOR, MAX_TIMEOUT_MS)
        query = Query(
            id="",
            areas=listed("areas", areas),
            window=window,
            slo=Slo(percentile, latency_ms),
            channels=listed("channels", channels),
            form=form,
            timeout_ms=timeout_ms,
            service=service,
            label=label,
            takes_too_large=True,
            stale_ok=stale_ok,
            buckets=buckets,
            bucket_s=bucket_s,
        )
        return self.answer_to(query, timeout_ms)

    def answer_to(self, query: Query, timeout_ms: float) -> Answer:
        """The answer to a query, under an id of this client's; as `query`, which see."""
        client = self.connected()
        query = replace(query, id=client.new_id())
        try:
            return client.ask(query, timeout_ms, until_cut=True)
        except ConnectionCutError:
            self._masters.is_away(client.address)
            other = self.connected()
        if other is not client:
            query = replace(query, id=other.new_id())
        return other.ask(query, timeout_ms)

    def about(
        self,
        areas: Sequence[str] = (EVERYWHERE,),
        *,
        service: str = "default",
        timeout_ms: float = 5_000.0,
        label: str = "",
    ) -> Answer:
        """The masters' facts about these areas, by default all: each result has `name`, if the room
        has one, and `about`: channels with units, raised triggers, when something was heard. The
        answer has the `services` that this client may query. No node is asked. Where there is no
        service `default`, none named means all of them. Raises as `query` does."""
        return self.query(
            areas,
            last_s=1.0,
            latency_ms=timeout_ms,
            form="about",
            timeout_ms=timeout_ms,
            service=service,
            label=label,
        )

    def connected(self) -> Client:
        """The client, of one master each, of the first that is there, beginning with the one that
        was there last. NoReplyError if none is."""
        if not self._chooses:
            return self
        masters = self._masters
        for address in masters.order:
            client = self.at(address)
            if client.is_connected(masters.connect_s):
                return client
            masters.is_away(address)
        raise NoReplyError(f"no connection to any of {', '.join(masters.keys)}")

    def at(self, master: str) -> Client:
        """The client for the master of that address, which is one of this client's."""
        masters = self._masters
        if (other := masters.clients.get(master)) is None:
            other = Client(master, masters.keys[master], masters=masters)
        return other

    def new_id(self) -> str:
        """An id that no query of this client's has."""
        while True:
            self._asked += 1
            if (new := f"q{self._asked}") not in self._due:
                return new

    def _was_asked(self, query_id: str) -> bool:
        """Whether `query` used this id."""
        number = query_id.removeprefix("q")
        return number != query_id and number.isdecimal() and int(number) <= self._asked

    def ask(self, query: Query, timeout_ms: float, *, until_cut: bool = False) -> Answer:
        """Send a query with an id of `new_id`, and wait for the answer; part of `query`."""
        self.check_use()
        self._own.clear()
        self._asking = query.id
        try:
            self.send_message(query)
            self._take_until(self._own, timeout_ms + GRACE_MS, until_cut)
        except NoReplyError:
            self._masters.is_away(self.address)  # or stands still: the next query goes elsewhere
            raise
        finally:
            # A late answer to it is ignored.
            self._asking = ""
        return self._own.popleft()

    def send(self, query: Query) -> None:
        """Send a query; its answer has the same `id`. When that master is gone, of several, answers
        still due will not arrive: the next query goes to another."""
        self._sent_by = self.connected()
        if self._sent_by is not self:
            self._sent_by.send(query)
            return
        self.send_message(query)
        if len(self._due) >= MAX_KEPT:
            del self._due[next(iter(self._due))]
        self._due[query.id] = self._due.get(query.id, 0) + 1

    def receive(self, timeout_ms: float, *, until_cut: bool = False) -> Answer:
        """The next answer to a query sent by `send`; `NoReplyError` after `timeout_ms`. With
        `until_cut` also `ConnectionCutError` when the connection is cut: answers still due will not
        arrive."""
        if self._sent_by is not self:
            return self._sent_by.receive(timeout_ms, until_cut=until_cut)
        self._take_until(self._answers, timeout_ms, until_cut)
        return self._answers.popleft()

    def _take_until(self, wanted: deque[Answer], timeout_ms: float, until_cut: bool) -> None:
        give_up = time.monotonic() + timeout_ms / 1e3
        while not wanted:
            self.take(max(0.0, (give_up - time.monotonic()) * 1e3), until_cut=until_cut)

    def watch(
        self,
        areas: Sequence[str],
        *,
        interval_s: float,
        style: Style = "periodic",
        window_s: float | None = None,
        lasting_s: float | None = None,
        trigger: str = "",
        on: str = "",
        percentile: float = 99.0,
        latency_ms: float = 500.0,
        channels: Sequence[str] = (),
        form: Form = "series",
        timeout_ms: float | None = None,
        service: str = "default",
        label: str = "",
        resume: tuple[str, int] | None = None,
        detach: bool = False,
        patience_s: float = 3_600.0,
        until_cut: bool = False,
    ) -> Rounds:
        """Open a standing query that repeats every `interval_s` seconds, or with `on` whenever an
        alert matches that filter. The rounds returned are a context manager and an iterator. The
        arguments are the fields of `Watch`.

        `resume` continues a watch that was left open: its id, and the last round taken. With
        `detach` the end of the block leaves the watch open. The iterator raises `NoReplyError`
        after `patience_s` without a message from the master, this method after a few seconds. A
        connection that is cut is made anew; with `until_cut` the iterator raises
        `ConnectionCutError` instead. Raises `WatchError` if the master refuses the watch.
        """
        watch_id, after = resume or (secrets.token_hex(8), None)
        watch = Watch(
            id=checked_id(watch_id),
            areas=listed("areas", areas),
            slo=Slo(percentile, latency_ms),
            style=style,
            interval_s=interval_s,
            window_s=window_s,
            lasting_s=lasting_s,
            trigger=trigger,
            on=on,
            channels=listed("channels", channels),
            form=form,
            timeout_ms=timeout_ms,
            service=service,
            label=label,
            after=after,
            takes_too_large=True,
        )
        return self.connected().open_watch(watch, detach, patience_s, until_cut)

    def open_watch(self, watch: Watch, detach: bool, patience_s: float, until_cut: bool) -> Rounds:
        """Open a watch at this master; part of `watch`."""
        rounds = self._watches[watch.id] = Rounds(self, watch, detach, patience_s, until_cut)
        try:
            rounds.open()
        except BaseException:
            self.forget(watch.id)
            raise
        return rounds

    def subscribe(
        self,
        wanted: str | Filter,
        *,
        id: str | None = None,  # noqa: A002  # as in the message
        durable: bool = False,
        after: int | None = None,
        patience_s: float = 3_600.0,
    ) -> Notifications:
        """Subscribe to every notification that matches the filter `wanted`, a text or its parts.
        The notifications returned are a context manager and an iterator of `Notified`, `Gap` and
        `UnknownLoss`.

        With `durable` the master keeps notifications for the subscription `id` while its client is
        away: the next `subscribe` with the same `id` continues where this one ended, or after
        position `after`, the last one taken. The iterator raises `NoReplyError` after `patience_s`
        without a message from the master, this method after a few seconds. Raises `FilterError` if
        `wanted` is invalid, `SubscriptionError` if the master refuses.
        """
        if isinstance(wanted, str):
            wanted = read_filter(wanted)
        else:
            check(wanted)
        subscription_id = checked_id(id or secrets.token_hex(8))
        if any(each.has_subscription(subscription_id) for each in self._masters.clients.values()):
            raise ValueError(f"subscription {subscription_id!r} is in use here; take another id")
        subscribe = Subscribe(subscription_id, wanted, durable, after, short=short_form())
        if not durable:
            return self.connected().open_subscription(subscribe, patience_s)
        if not self._chooses or self.is_connected(self._masters.connect_s):
            return self.open_subscription(subscribe, patience_s)
        return self._find(subscribe, patience_s)

    def _find(self, subscribe: Subscribe, patience_s: float) -> Notifications:
        """A durable subscription at the master that has it, while the first is away. What is kept
        for it may be there: no other begins anew."""
        why = f"no connection to {self.address}"
        for client in [self.at(address) for address in self._masters.keys][1:]:
            if not client.is_connected(self._masters.connect_s):
                why += f" and {client.address}"
                continue
            try:
                found = client.open_subscription(replace(subscribe, kept_only=True), patience_s)
            except SubscriptionError as error:
                why += f"; {client.address} says: {error}"
                continue
            found.subscribe = subscribe
            return found
        raise NoReplyError(why)

    def open_subscription(self, subscribe: Subscribe, patience_s: float) -> Notifications:
        """Subscribe at this master; part of `subscribe`."""
        notifications = Notifications(self, subscribe, patience_s)
        self.take_subscription(notifications)
        try:
            notifications.open()
        except BaseException:
            self.forget_subscription(subscribe.id)
            raise
        return notifications

    def publish(
        self,
        topic: str,
        attributes: Mapping[str, bool | float | str],
        *,
        id: str | None = None,  # noqa: A002  # as in the message
        sequence: int | None = None,
        patience_s: float = 10.0,
    ) -> str:
        """Publish a message to a topic of any master, and wait until this one has it on stable
        storage. Returns the master's note: empty, unless it keeps no such topic itself.

        It is sent again after a cut or a silence, and taken once, also if it is published anew
        after an error: the master may have it though its disk failed. A program that is to publish
        each of its messages once even if it is killed chooses an `id` that cannot be guessed and
        numbers its messages itself: the same `sequence` again is the same message. Raises
        `PublishError` if the master refuses, `NoReplyError` after `patience_s` without a word,
        ValueError for what is no message.
        """
        if (id is None) != (sequence is None):
            raise ValueError("id and sequence go together")
        if id is None:
            if self._publishes_by.publisher.in_doubt is None:
                self._publishes_by = self.connected()
            if self._publishes_by is not self:
                return self._publishes_by.publish(topic, attributes, patience_s=patience_s)
        return self.publisher.publish(topic, attributes, id, sequence, patience_s)

    def unsubscribe(self, subscription_id: str, timeout_ms: float = 2_000.0) -> bool:
        """End a durable subscription that was left open, and delete what is kept for it; False: the
        master says that there is none. `NoReplyError` if it stays silent."""
        wanted = Subscribe(checked_id(subscription_id), "*", durable=True)
        left = Notifications(self, wanted, 0.0)
        self._subscriptions.add(left)
        left.end(timeout_ms)
        return left.was_kept

    def take(self, timeout_ms: float, *, until_cut: bool = False) -> None:
        """Receive one message and dispatch it. Raises as `receive` does."""
        give_up_s = time.monotonic() + timeout_ms / 1e3
        while True:
            left_ms = max(0.0, (give_up_s - time.monotonic()) * 1e3)
            try:
                wants_cut = until_cut or bool(self._subscriptions)
                message = self.receive_message(left_ms, until_cut=wants_cut)
                break
            except ConnectionCutError:
                self._subscriptions.cut()
                if until_cut:
                    raise
        self._hand_over(message)

    def _hand_over(self, message: ClientReply) -> None:
        if isinstance(message, Notified | ShortNotified | Gap | Subscribed):
            self._subscriptions.hand_over(message)
        elif message.id in self._watches:
            self._watches[message.id].take(message)
        elif isinstance(message, Published):
            self.publisher.replied(message)
        elif isinstance(message, Answer):
            if self.publisher.refused(message):
                return
            # The master could not decode a subscription's message; ids of queries differ.
            subscription = self._subscriptions.get(message.id)
            if subscription is not None and message.reason == "malformed":
                subscription.take(message)
            else:
                self._answered(message)

    def _answered(self, answer: Answer) -> None:
        # An answer without an id refuses a frame that the master could not decode.
        if self._asking and answer.id in (self._asking, ""):
            self._own.append(answer)
        elif due := self._due.pop(answer.id, 0):
            if due > 1:
                self._due[answer.id] = due - 1
            self._answers.append(answer)
        elif not self._was_asked(answer.id):
            self._answers.append(answer)

    def close(self) -> None:
        clients = self._masters.clients
        if clients[next(iter(clients))] is self:
            for other in list(clients.values())[1:]:
                other.close()
        super().close()

    def has_subscription(self, subscription_id: str) -> bool:
        """Whether that subscription is in use on this connection."""
        return self._subscriptions.get(subscription_id) is not None

    def take_subscription(self, subscription: Notifications) -> None:
        """Talk about it on this connection from now on."""
        self._subscriptions.add(subscription)

    def hand_subscription(self, subscription: Notifications, master: str) -> Client | None:
        """Talk about a subscription to the master of that address from now on; None if it is none
        of this client's. For `Notifications`."""
        if master not in self._masters.keys:
            return None
        other = self.at(master)
        self.forget_subscription(subscription.id)
        other.take_subscription(subscription)
        return other

    def given_masters(self) -> Given:
        """Those among which a durable subscription may move. For `Notifications`."""
        return self._masters.given(self.address)

    def forget(self, watch_id: str) -> None:
        """Ignore further messages of a watch."""
        self._watches.pop(watch_id, None)

    def forget_subscription(self, subscription_id: str) -> None:
        """Ignore further messages of a subscription."""
        self._subscriptions.remove(subscription_id)
