"""Whatever comes, goes and dies: the broker ends with what the rooms have, and never has anything
that the store does not know."""

import json

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.gateway.feed.alert_log import Logged
from agent.gateway.feed.rooms import Reading, Room
from agent.gateway.outputs import mqtt_events as e
from agent.gateway.outputs.alert_line import AlertLine
from agent.gateway.outputs.home_assistant import Discovery
from agent.gateway.outputs.mqtt_publisher import MqttPublisher
from agent.gateway.outputs.state_pace import HOUR_S, Rules
from agent.gateway.outputs.topics import Topics
from agent.runtime.retrying import Retrying
from tests.examples import examples
from tests.gateway.outputs.broker import FakeBroker
from tests.gateway.samples import notification

AREAS = ("b1/f4/r1", "b1/f4/r.1", "b1/f4", "b2")
CHANNELS = {"temperature": "°C", "humidity": "%", "voc": "ppb"}
KEEP_S = 3_600.0
TOPICS = Topics("home")
DISCOVERY = Discovery(TOPICS, "home", "homeassistant", "1")


class Publishing(RuleBasedStateMachine):
    """The publisher, its disk, a broker, Home Assistant, and rooms that come and go."""

    @initialize()
    def begin(self):
        self.now, self.chance = 0.0, 0.5
        self.disk, self.disk_fails, self.reachable = {}, False, True
        self.broker = FakeBroker()
        self.rooms, self.raised = {}, set()
        self.log, self.cursor = [], 0
        self.states, self.value = {}, 20.0
        self.machine = None
        self.gateway_restarts(discovers=True)

    def has(self, event):
        for each in self.machine.handle(event, self.now):
            self.perform(each)

    def perform(self, instruction):
        match instruction:
            case e.Connect():
                self.has(e.Connected() if self.reachable else e.Disconnected("refused"))
            case e.Publish(topic=topic):
                if topic.startswith(f"{TOPICS.root}state/"):
                    self.states.setdefault(topic, []).append(self.now)
                # Nothing is ever retained that a restarted gateway would not know of.
                assert not instruction.retain or topic in self.disk
                self.broker.take(instruction)
            case e.Write(changes):
                if not self.disk_fails:
                    self.disk.update(changes)
                    self.disk = {t: each for t, each in self.disk.items() if each is not None}
                self.has(e.Written(changes, "the disk is full" if self.disk_fails else ""))
            case e.ReadAlerts(after, most):
                self.has(e.AlertsRead(self.log[after : after + most]))
            case e.MoveCursor(position):
                had = {message.payload for message in self.broker.of("alert")}
                passed = self.log[self.cursor : position]
                assert {msgspec.json.encode(each.notification) for each in passed} <= had
                self.cursor = position

    def tell_rooms(self):
        self.has(e.AllRooms(list(self.rooms.values())))

    # --- what happens ----------------------------------------------------------------------------

    @rule(area=st.sampled_from(AREAS), names=st.sets(st.sampled_from(sorted(CHANNELS))))
    def a_room_comes(self, area, names):
        self.show(area, names, "live")
        self.tell_rooms()

    @rule(area=st.sampled_from(AREAS))
    def a_room_goes(self, area):
        self.rooms.pop(area, None)
        self.tell_rooms()

    @rule(area=st.sampled_from(AREAS), state=st.sampled_from(["live", "stale", "missing"]))
    def a_room_changes(self, area, state):
        self.value += 0.15
        if found := self.rooms.get(area):
            self.show(area, found.channels, state)
            self.has(e.SomeRooms([self.rooms[area]]))

    def show(self, area, names, state):
        readings = {
            name: Reading(self.value, int(self.now * 1e3), "good", CHANNELS[name]) for name in names
        }
        self.rooms[area] = Room(area, "", state, "", readings)

    @rule(area=st.sampled_from(AREAS), trigger=st.sampled_from(["hot", "damp"]), on=st.booleans())
    def an_alert_comes(self, area, trigger, on):
        number = len(self.log) + 1
        kind = "raised" if on else "cleared"
        told = notification(number, kind=kind, trigger=trigger, area=area)
        self.log.append(Logged(number, 0, told))
        (self.raised.add if on else self.raised.discard)((trigger, area))
        self.has(e.LogGrew())
        self.has(e.Raised(frozenset(self.raised)))

    @rule(seconds=st.sampled_from([0.1, 5.0, 40.0, 700.0, 4_000.0]))
    def time_passes(self, seconds):
        until = self.now + seconds
        while (due := self.machine.next_tick) is not None and due <= until:
            self.now = max(self.now + 1e-3, due)
            self.has(e.MqttDue())
        self.now = max(self.now, until)
        self.tell_rooms()

    @rule(arrived=st.integers(0, 100), confirmed=st.integers(0, 100), refuses=st.booleans())
    def the_broker_works(self, arrived, confirmed, refuses):
        self.broker.arrive(arrived)
        for message in self.broker.to_confirm[:confirmed]:
            if message not in self.broker.to_confirm:
                return  # the session has ended meanwhile
            self.broker.to_confirm.remove(message)
            refused = refuses and message in self.broker.of("alert")
            self.has(e.Delivered(message.number, "no" if refused else ""))

    @rule(empty=st.booleans(), reachable=st.booleans())
    def the_broker_dies(self, empty, reachable):
        self.reachable = reachable
        self.broker.cut()
        if empty:
            self.broker.retained.clear()
        if self.machine.state == "connected":
            self.has(e.Disconnected("cut"))

    @rule(payload=st.sampled_from([b"online", b"offline", b"\xff", b"online\n"]))
    def home_assistant_restarts(self, payload):
        if self.machine.state == "connected":
            self.has(e.Heard(DISCOVERY.status, payload))

    @rule(discovers=st.booleans())
    def gateway_restarts(self, discovers):
        self.broker.cut()
        self.discovers = discovers
        retrying = Retrying(jitter=lambda: self.chance)
        line = AlertLine(self.cursor, retrying, lambda _: True, window=20)
        self.check_states()
        self.states.clear()  # a gateway that was restarted may tell all anew
        self.machine = MqttPublisher(
            TOPICS,
            DISCOVERY if discovers else None,
            self.disk,
            line,
            rules=Rules(),
            keep_s=KEEP_S,
            jitter=lambda: self.chance,
        )
        self.has(e.Started())
        self.has(e.Raised(frozenset(self.raised)))

    @rule(fails=st.booleans())
    def the_disk_fails(self, fails):
        self.disk_fails = fails

    # --- what holds ------------------------------------------------------------------------------

    @invariant()
    def the_machine_is_sound(self):
        if self.machine is not None:
            self.machine.check_invariants()

    @invariant()
    def nothing_is_retained_that_is_not_in_the_store(self):
        if self.machine is not None:
            assert self.broker.retained.keys() <= self.disk.keys()

    def teardown(self):
        """At the end all works again, and time passes."""
        if self.machine is None:
            return
        self.disk_fails, self.reachable = False, True
        for seconds in (100.0, KEEP_S + 100.0, 4_000.0, 10.0):
            self.time_passes(seconds)
            for _ in range(50):
                self.the_broker_works(100, 100, refuses=False)
        assert self.broker.retained == self.expected()
        assert self.disk.keys() == self.broker.retained.keys()
        assert self.cursor == len(self.log)
        self.check_states()
        live = {area for area, room in self.rooms.items() if room.state == "live" and room.channels}
        assert {TOPICS.state(area) for area in live} <= self.states.keys()

    def check_states(self):
        """No entity has more than 120 states in any hour."""
        for times in self.states.values():
            for before, after in zip(times, times[120:], strict=False):
                assert after - before >= HOUR_S

    def expected(self):
        expected = {TOPICS.status: b"online"}
        for area, room in self.rooms.items():
            online = room.state == "live"
            expected[TOPICS.availability(area)] = b"online" if online else b"offline"
        for topic in self.broker.retained:
            if found := TOPICS.raised_of(topic):
                on = found in self.raised
                there = self.rooms.keys() | {area for _, area in self.raised}
                assert on or found[1] in there
                expected[topic] = b"ON" if on else b"OFF"
        assert {TOPICS.raised(*each) for each in self.raised} <= expected.keys()
        for topic, payload in self.broker.retained.items():
            if topic.startswith("homeassistant/"):
                self.check_document(topic, json.loads(payload))
                expected[topic] = payload
        documented = {t for t in expected if t.startswith("homeassistant/")}
        wanted = {a for a, r in self.rooms.items() if r.channels} if self.discovers else set()
        assert {DISCOVERY.topic(area) for area in wanted} <= documented
        assert self.discovers or not documented
        return expected

    def check_document(self, topic, document):
        area = document["dev"]["mdl"]
        assert topic == DISCOVERY.topic(area)
        sensors = {n for n, part in document["cmps"].items() if part["p"] == "sensor"}
        assert all("uniq_id" in part for part in document["cmps"].values())
        if (room := self.rooms.get(area)) and room.state == "live" and room.channels:
            assert sensors == room.channels.keys()


TestPublishing = Publishing.TestCase
TestPublishing.settings = settings(max_examples=examples(200), stateful_step_count=40)


def test_a_trigger_where_nothing_is_measured_is_announced_after_a_restart():
    """Its document was on disk, and the broker was away."""
    state = Publishing()
    state.begin()
    for on in (True, False):
        state.an_alert_comes("b1/f4", "damp", on)
    state.the_broker_dies(empty=False, reachable=False)
    state.a_room_comes("b1/f4", set())
    state.gateway_restarts(discovers=True)
    state.teardown()
    assert DISCOVERY.topic("b1/f4") in state.broker.retained
