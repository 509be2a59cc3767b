"""MQTT publisher: a state machine without a socket.

Alerts come first, each with QoS 1 and behind the cursor only when the broker has it; then what is
retained (discovery documents, availability, raised triggers), then readings, which are never
queued: what is published of an area is its newest state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from agent.gateway.feed.rooms import Room
from agent.gateway.outputs.alert_line import AlertLine, Entry
from agent.gateway.outputs.areas import MAX_TRIGGERS, Area, Areas
from agent.gateway.outputs.home_assistant import Discovery, is_birth
from agent.gateway.outputs.mqtt_events import (
    AlertsRead,
    AllRooms,
    Connect,
    Connected,
    Delivered,
    Disconnected,
    Heard,
    LogGrew,
    MoveCursor,
    MqttDue,
    MqttEvent,
    MqttInstruction,
    Publish,
    Raised,
    ReadAlerts,
    SomeRooms,
    Started,
    Tell,
    Write,
    Written,
)
from agent.gateway.outputs.retained import Components, Document, Retained
from agent.gateway.outputs.state_pace import Rules, StatePace
from agent.gateway.outputs.topics import Topics
from agent.runtime.back_off import BackOff
from agent.runtime.retrying import Answered
from agent.runtime.token_bucket import TokenBucket

WINDOW: Final = 64  # messages that the broker has not confirmed
# Beside alerts: a subscriber that is slower loses what its broker does not queue for it, which is
# a thousand messages with mosquitto.
PER_S: Final = 200.0
AT_ONCE: Final = 100.0
SOME: Final = 20.0  # that are waited for, so that not each has a turn of its own
MAX_PAUSE_S: Final = 60.0  # between attempts to connect; doubles from 1 s
STEADY_S: Final = 60.0  # a session of this length was none in vain
# After Home Assistant's start: so many seconds by chance, then time for it to subscribe.
JITTER_S: Final = 5.0
SETTLE_S: Final = 3.0
BIRTHS_APART_S: Final = 30.0
WRITE_AGAIN_S: Final = 10.0
LOOK_S: Final = 10.0  # between looks for areas that are gone
ONLINE: Final = Document(b"online")
OFFLINE: Final = Document(b"offline")
ON: Final = Document(b"ON")
OFF: Final = Document(b"OFF")
REFUSED: Final = 403


class MqttPublisher:
    """Events in, instructions out; `now` is monotonic seconds.

    `store` is what the disk has (`Retained`), `discovery` None where nobody discovers, `jitter`
    returns random numbers in [0, 1). An area that is missing among all rooms for `keep_s` is
    removed with all that was retained for it. O(1) an event and message, O(areas) a session.
    """

    def __init__(
        self,
        topics: Topics,
        discovery: Discovery | None,
        store: Mapping[str, Components],
        alerts: AlertLine[Entry],
        *,
        rules: Rules,
        keep_s: float,
        jitter: Callable[[], float],
    ) -> None:
        self.state = "new"  # then connecting, connected, waiting, connecting, …
        self.alerts = alerts
        self.retained = Retained(store)
        self.states = 0  # messages with readings that were handed over
        self.last_error = ""
        self._topics = topics
        self._discovery = discovery
        self._areas = Areas(keep_s)
        self._pace = StatePace(rules)
        self._jitter = jitter
        self._pauses = BackOff(1.0, MAX_PAUSE_S, jitter=jitter)
        self._connect_s = 0.0
        self._session_s = 0.0
        self._under_way: dict[int, tuple[str, int]] = {}  # topic, position of an alert or 0
        self._took_others = False  # the broker has confirmed what is no alert in this session
        self._number = 0
        self._birth_s: float | None = None
        self._last_birth_s = -BIRTHS_APART_S
        self._config_topics: dict[str, str] = {}  # each with its area
        self._write_again_s = 0.0
        self._writing = self._write_fails = False
        self._look_s = 0.0
        self._bucket = TokenBucket(PER_S, AT_ONCE, 0.0)
        self._more_s = 0.0  # there may be more to publish, not before

    # --- events --------------------------------------------------------------------------------

    def handle(self, event: MqttEvent, now: float) -> list[MqttInstruction]:
        """Handle one event; returns the instructions, in order."""
        return [*self._handle(event, now), *self._go_on(now)]

    def _handle(self, event: MqttEvent, now: float) -> list[MqttInstruction]:
        match event:
            case Started():
                self._start(now)
                return self._connect()
            case Connected():
                return self._connected(now)
            case Disconnected(why):
                return self._disconnected(why, now)
            case Delivered():
                return self._delivered(event, now)
            case Written():
                return self._written(event, now)
            case AlertsRead(entries):
                before = self.alerts.cursor
                self.alerts.read(entries)
                return self._moved(before)
            case MqttDue():
                return self._due(now)
        self._take(event, now)
        return []

    def _take(self, event: AllRooms | SomeRooms | Raised | LogGrew | Heard, now: float) -> None:
        match event:
            case AllRooms(rooms):
                self._all_rooms(rooms, now)
            case SomeRooms(rooms):
                for room in rooms:
                    self._room(room, now)
            case Raised(raised):
                self._raised(raised, now)
            case LogGrew():
                self.alerts.grew()
            case Heard():
                self._heard(event, now)

    @property
    def next_tick(self) -> float | None:
        """When `MqttDue` is due."""
        due = [self._look_s]
        if self.state == "waiting":
            due.append(self._connect_s)
        if self._write_fails:
            due.append(self._write_again_s)
        if self.state == "connected" and len(self._under_way) < WINDOW:
            alerts_s = self.alerts.due_s if self._takes_alerts else None
            due += [s for s in (self._birth_s, alerts_s, self._more_s) if s]
            if (told_s := self._pace.next_due) is not None:
                due.append(max(told_s, self._more_s))
        return None if self.state == "new" else min(due)

    def _start(self, now: float) -> None:
        """Entries of earlier runs in the store are not measured until they are seen again."""
        self._look_s = now + LOOK_S
        self.retained.want(self._topics.status, OFFLINE)
        for topic in sorted(self.retained.topics):
            if area := self._topics.area_of(topic):
                self._areas.at(area, now).waits = True
                self.retained.want(topic, OFFLINE)
            elif found := self._topics.raised_of(topic):
                trigger, area = found
                self._areas.at(area, now).triggers.setdefault(trigger, False)
                self.retained.want(topic, OFF)
        if self._discovery:
            for known in self._areas.all.values():
                topic = self._discovery.topic(known.area)
                self._config_topics[topic] = known.area
                if known.waits:
                    self.retained.leave(topic)
                else:  # by its triggers alone
                    self._document(known)

    # --- the session ---------------------------------------------------------------------------

    def _connect(self) -> list[MqttInstruction]:
        self.state = "connecting"
        return [Connect()]

    def _connected(self, now: float) -> list[MqttInstruction]:
        self.state, self._session_s = "connected", now
        self.retained.connected()
        if not self.last_error:
            return []
        self.last_error = ""
        return [Tell("connected again")]

    def _disconnected(self, why: str, now: float) -> list[MqttInstruction]:
        before, gave_up = self.alerts.cursor, ""
        if self.state == "connected":
            gave_up = self.alerts.ended(why, now, took_others=self._took_others)
            if now - self._session_s >= STEADY_S:
                self._pauses.reset()
        self._took_others = False
        self.state = "waiting"
        self._connect_s = now + self._pauses.next()
        self.retained.disconnected()
        self._under_way.clear()
        self._birth_s = None
        for area in self._areas.all.values():
            area.told = False
            self._pace.pause(area.area)
        said = [] if why == self.last_error else [Tell(f"no connection, will try again: {why}")]
        self.last_error = why
        return [*said, *([Tell(gave_up)] if gave_up else []), *self._moved(before)]

    def _due(self, now: float) -> list[MqttInstruction]:
        if now >= self._look_s:
            self._look(now)
        if self._birth_s is not None and now >= self._birth_s:
            self._birth_s, self._last_birth_s = None, now
            self.retained.again(self._config_topics)
        if self.state == "waiting" and now >= self._connect_s:
            return self._connect()
        return []

    def _heard(self, event: Heard, now: float) -> None:
        """Home Assistant has started: it is given everything again. Others may say so, too, and as
        often as they like."""
        if self._discovery is None or event.topic != self._discovery.status:
            return
        if is_birth(event.payload) and self._birth_s is None and self.state == "connected":
            soon_s = now + self._jitter() * JITTER_S
            self._birth_s = max(soon_s, self._last_birth_s + BIRTHS_APART_S)

    # --- rooms ---------------------------------------------------------------------------------

    def _all_rooms(self, rooms: Sequence[Room], now: float) -> None:
        self.retained.want(self._topics.status, ONLINE)
        there = {each.area for each in rooms}
        self._areas.are_there(there, now)
        for area in self._areas.all.values():
            if area.room is not None and area.area not in there:
                self._pace.pause(area.area)
                self.retained.want(self._topics.availability(area.area), OFFLINE)
        for room in rooms:
            self._room(room, now)

    def _room(self, room: Room, now: float) -> None:
        area = self._areas.at(room.area, now)
        if area.take(room, now, self._areas.keep_s):
            self._document(area)
        live = room.state == "live"
        self.retained.want(self._topics.availability(room.area), ONLINE if live else OFFLINE)
        if not live:
            self._pace.pause(room.area)
        elif area.told:
            self._pace.changed(room.area, area.values(), area.channels, now)

    def _document(self, area: Area) -> None:
        discovery = self._discovery
        if discovery is None or area.waits:
            return
        told = area.area, area.name, dict(area.channels), tuple(area.triggers)
        topic = discovery.topic(area.area)
        if not (area.channels or area.triggers):
            self.retained.want(topic, None)
            return
        self._config_topics[topic] = area.area
        document = Document(
            discovery.document(*told, {}),
            discovery.components(area.channels, area.triggers),
            partial(discovery.document, *told),
        )
        self.retained.want(topic, document)

    def _raised(self, raised: frozenset[tuple[str, str]], now: float) -> None:
        for trigger, name in sorted(raised):
            area = self._areas.at(name, now)
            if trigger not in area.triggers:
                if len(area.triggers) >= MAX_TRIGGERS:
                    continue
                area.triggers[trigger] = False
            self._document(area)
        for area in self._areas.all.values():
            for trigger in area.triggers:
                on = area.triggers[trigger] = (trigger, area.area) in raised
                self.retained.want(self._topics.raised(trigger, area.area), ON if on else OFF)
        for area in self._areas.only_named():
            self._forget(area)

    def _look(self, now: float) -> None:
        """Remove entries that are gone."""
        self._look_s = now + LOOK_S
        for area in self._areas.waited(now):
            self._document(area)
        for area in self._areas.missed():
            self._pace.forget(area.area)
            self.retained.want(self._topics.availability(area.area), None)
            if area.area in self._areas.all:
                self._document(area)
            else:
                self._forget(area)

    def _forget(self, area: Area) -> None:
        """Nothing is retained for it any more."""
        for trigger in area.triggers:
            self.retained.want(self._topics.raised(trigger, area.area), None)
        if self._discovery:
            topic = self._discovery.topic(area.area)
            self._config_topics.pop(topic, None)
            self.retained.want(topic, None)

    def _announced(self, area: Area, now: float) -> None:
        """Send a discoverer the readings as soon as it has subscribed."""
        area.told = True
        if area.is_live:
            self._pace.changed(area.area, area.values(), area.channels, now)
            self._pace.again(area.area, now + (SETTLE_S if self._discovery else 0.0))

    # --- the store -------------------------------------------------------------------------------

    def _written(self, event: Written, now: float) -> list[MqttInstruction]:
        self._writing = False
        failed, self._write_fails = self._write_fails, bool(event.why)
        if not event.why:
            self.retained.written(event.wrote)
            return [Tell("the store of retained topics takes entries again")] if failed else []
        self._write_again_s = now + WRITE_AGAIN_S
        return [] if failed else [Tell(f"nothing new is published: {event.why}")]

    # --- messages ------------------------------------------------------------------------------

    def _delivered(self, event: Delivered, now: float) -> list[MqttInstruction]:
        topic, position = self._under_way.pop(event.number, ("", 0))
        refused = f"the broker refuses {topic}: {event.refused}" if event.refused else ""
        if position:
            before = self.alerts.cursor
            answered = Answered(REFUSED, refused) if refused else Answered(200, "")
            said = self.alerts.answered(position, answered, now)
            return [*([Tell(said)] if said else []), *self._moved(before)]
        self._took_others = True
        self.retained.confirmed(topic, refused=bool(refused))
        told = self._config_topics.get(topic) if self._discovery else self._topics.area_of(topic)
        if told is not None and (area := self._areas.all.get(told)):
            self._announced(area, now)
        if refused and refused != self.last_error:
            self.last_error = refused
            return [Tell(refused)]
        return []

    def _moved(self, before: int) -> list[MqttInstruction]:
        return [MoveCursor(self.alerts.cursor)] if self.alerts.cursor != before else []

    def _go_on(self, now: float) -> list[MqttInstruction]:
        done: list[MqttInstruction] = []
        if wanted := self.alerts.to_read():
            done.append(ReadAlerts(*wanted))
        if self.state == "connected":
            if self._takes_alerts:
                done += [self._alert(each) for each in self.alerts.next(now, self._room_left)]
            done += self._publish_more(now)
        if not self._writing and now >= self._write_again_s and (to := self.retained.to_write()):
            self._writing = True
            done.append(Write(to))
        return done

    def _publish_more(self, now: float) -> list[Publish]:
        """Retained messages, then readings, as many as may go now."""
        most = 0
        while most < self._room_left and self._bucket.wait_s(now, most + 1.0) <= 0.0:
            most += 1
        done = [
            self._publish(topic, payload, qos=1, retain=True)
            for topic, payload in self.retained.next(most)
        ]
        done += [self._state(each) for each in self._pace.take(now, most - len(done))]
        self._bucket.take(float(len(done)))
        self._more_s = 0.0
        if len(done) == most and self._room_left:
            self._more_s = now + self._bucket.wait_s(now, SOME)
        return done

    @property
    def _takes_alerts(self) -> bool:
        """Others go before an alert upon which the broker may end the session."""
        return self._took_others or not self.alerts.is_doubtful

    @property
    def _room_left(self) -> int:
        return WINDOW - len(self._under_way)

    def _alert(self, entry: Entry) -> Publish:
        told = entry.notification
        topic = self._topics.gap if told is None else self._topics.alert(told)
        payload = msgspec.json.encode(told or entry.loss)
        return self._publish(topic, payload, qos=1, position=entry.position)

    def _state(self, name: str) -> Publish:
        area = self._areas.all[name]
        payload = {
            "channels": area.values(),
            "time_ms": area.time_ms(),
            "quality": area.qualities(),
        }
        self.states += 1
        return self._publish(self._topics.state(name), msgspec.json.encode(payload), qos=0)

    def _publish(
        self, topic: str, payload: bytes, *, qos: int, retain: bool = False, position: int = 0
    ) -> Publish:
        self._number += 1
        self._under_way[self._number] = (topic, position)
        return Publish(self._number, topic, payload, qos, retain)

    def check_invariants(self) -> None:
        """For tests: what must hold between any two events."""
        self.retained.check_invariants()
        self.alerts.check_invariants()
        assert len(self._under_way) <= WINDOW
        assert self.state == "connected" or not self._under_way
