"""A subscription over sockets, at masters that restart, and where it lives when it moves."""

from collections import deque

import pytest
import zmq
from msgspec.structs import replace

from agent.client import Client, NoReplyError, SubscriptionError
from agent.client.connection import ConnectionCutError
from agent.client.subscriptions import Notifications
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Answer, Coverage
from agent.wire.overlay import Notification, Origin
from agent.wire.predicates import FilterError, Predicate
from agent.wire.push import (
    GivenMaster,
    Notified,
    ShortContent,
    ShortNotified,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from agent.wire.unions import PublicRequest
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_MS
from tests.client.subscription_line import (
    CUT,
    HOT,
    WANTED,
    Line,
    acknowledged,
    asked,
    notified,
    opened,
    positions,
)

# --- over sockets -------------------------------------------------------------------------------


class Master:
    """A ROUTER in the same thread: each of `then` answers one message of the client, which waits
    for it, and is in `heard`."""

    def __init__(self):
        self.address = free_address()
        self.decoder = Decoder(PublicRequest)
        self.heard = []
        self.reactions = deque()
        self.start()
        self.client = Client(self.address)
        self.receive_message = self.client.receive_message
        self.client.receive_message = self.play

    def start(self):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.bind(self.address)

    def stop(self):
        self.context.destroy(linger=0)  # waits until the address is free

    def play(self, timeout_ms, **options):
        if self.reactions:
            self.hear()
            for message in self.reactions.popleft():
                self.socket.send_multipart([self.peer, encode(message)])
        return self.receive_message(timeout_ms, **options)

    def hear(self):
        assert self.socket.poll(PATIENCE_MS)
        self.peer, frame = self.socket.recv_multipart()
        self.heard.append(self.decoder.decode(frame)[0])

    def then(self, *messages):
        self.reactions.append(messages)


@pytest.fixture
def master():
    master = Master()
    yield master
    master.client.close()
    master.stop()


def test_a_subscription_goes_on_at_a_master_that_restarts(master):
    master.then(opened(), notified(1))
    found = master.client.subscribe(HOT, id="s", durable=True)
    assert positions(found, 1) == [1]
    found.acknowledge()
    master.hear()
    master.stop()
    with pytest.raises(ConnectionCutError):  # also told to whoever else is under way
        master.client.receive(PATIENCE_MS, until_cut=True)
    master.start()
    master.then(opened(1), notified(2))
    assert found.wait(PATIENCE_MS / 1e3) == notified(2)
    first = Subscribe("s", WANTED, durable=True, short=found.subscribe.short)
    assert master.heard == [first, acknowledged(1), replace(first, after=1)]


def test_a_master_may_name_a_subscription_and_its_attributes_by_numbers(master):
    master.then(opened())
    found = master.client.subscribe(HOT, id="s")
    master.then(replace(opened(), id="t"))
    other = master.client.subscribe(HOT, id="t")
    told = Notification(Origin("iad1", "00c0ffee00c0ffee", 7), 5, {"iad": "iad1", "more": 1.0})
    numbers = [each.subscribe.short.number for each in (found, other)]
    short = ShortContent.of(told, found.subscribe.short.names)
    master.then(ShortNotified(((numbers[0], 1), (numbers[1], 1), (max(numbers) + 1, 1)), short))
    master.client.send_message(acknowledged(0))
    assert found.wait(PATIENCE_MS / 1e3) == Notified("s", 1, told)
    assert other.wait(0.0) == Notified("t", 1, told)


def test_answers_and_notifications_find_their_way(master):
    answer = Answer("q1", "complete", 1.0, True, Coverage(1, 1))
    master.then(opened(), notified(1))
    found = master.client.subscribe(WANTED, id="s")
    master.then(notified(2), notified(1, "another"), answer)
    assert master.client.query(["b1"], last_s=1).id == "q1"
    assert positions(found, 2) == [1, 2]


def test_one_message_is_for_several_subscriptions(master):
    subscribe = master.client.subscribe
    master.then(Subscribed("a", "open"))
    first = subscribe(WANTED, id="a")
    content = notified(1).notification
    master.then(Subscribed("b", "open"), Notified("b", 1, content, (("gone", 3), ("a", 1))))
    second = subscribe(WANTED, id="b")
    assert second.wait(PATIENCE_MS / 1e3) == Notified("b", 1, content)
    assert first.wait(0.0) == Notified("a", 1, content)


def test_a_master_that_cannot_read_a_subscription_refuses_it(master):
    refusal = Answer("s", "refused", 0.0, False, Coverage(0, 0), reason="malformed", message="no")
    master.then(refusal)
    with pytest.raises(SubscriptionError, match="no"):
        master.client.subscribe(HOT, id="s")
    master.then(refusal)
    with pytest.raises(SubscriptionError, match="no"):
        master.client.unsubscribe("s")


def test_a_filter_is_read_before_anything_is_sent(master):
    with pytest.raises(FilterError, match="at character 10: expected a number"):
        master.client.subscribe("metric = temperature")
    with pytest.raises(FilterError, match="value < true"):
        master.client.subscribe(((Predicate("value", "<", (True,)),),))
    assert not master.socket.poll(0)


def test_a_subscription_that_was_left_is_ended_by_its_name(master):
    master.then(Subscribed("left", "cancelled"))
    assert master.client.unsubscribe("left")
    master.then(Subscribed("left", "cancelled", message="no subscription 'left' is kept here"))
    assert not master.client.unsubscribe("left")
    assert master.heard == [Unsubscribe("left")] * 2
    with pytest.raises(NoReplyError):
        master.client.unsubscribe("left", timeout_ms=1.0)


def test_two_subscriptions_of_a_client_have_different_ids(master):
    subscribe = master.client.subscribe
    master.then(opened())
    with subscribe(HOT, id="s", durable=True), pytest.raises(ValueError, match="'s' is in use"):
        subscribe(HOT, id="s")
    master.then(opened())
    assert subscribe(HOT, id="s").is_open


# --- a subscription that moves --------------------------------------------------------------------

ELSEWHERE = "tcp://10.2.0.10:5700"
MOVED = Subscribed("s", "unknown", message="it lives at iad2 now", master=ELSEWHERE)


class Moving(Line):
    """A client with two masters; `at` has where each message was sent."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.here = ""

    def hand_subscription(self, subscription, master):
        assert subscription is self.notifications
        if master != ELSEWHERE:
            return None
        self.here = master
        return self

    def given_masters(self):
        return (GivenMaster(self.here or "tcp://10.1.0.10:5700", 0.5), GivenMaster("other"))


@pytest.fixture
def moving(monkeypatch):
    return Moving(monkeypatch)


@pytest.mark.parametrize("state", ["unknown", "refused"])
def test_a_subscription_goes_on_after_its_position_where_it_lives_now(moving, state):
    told = Subscribed("s", state, message="elsewhere", master=ELSEWHERE)
    heard = moving.open(notified(1), notified(2), told, opened(2), notified(3), durable=True)
    words = []
    heard.on_word = words.append
    assert [next(heard).position for _ in range(2)] == [1, 2]
    if state == "refused":
        moving.coming.appendleft(CUT)  # it asks again, and that is refused
    assert next(heard).position == 3
    assert moving.here == ELSEWHERE
    assert asked(2, durable=True, masters=moving.given_masters()) in moving.said()
    assert words == [f"goes on at {ELSEWHERE}"]


def test_a_subscription_that_begins_at_the_wrong_master_opens_at_the_right_one(moving):
    subscribe = Subscribe("s", WANTED, True, 17)
    moving.notifications = Notifications(moving, subscribe, 60.0)
    moving.coming.extend([replace(MOVED, state="refused"), opened(17), notified(18)])
    moving.notifications.open()
    first, second = moving.said()
    assert replace(first, masters=()) == replace(second, masters=()) == subscribe
    assert first.masters[0].address != second.masters[0].address == ELSEWHERE
    assert next(moving.notifications).position == 18


def test_one_that_is_not_durable_does_not_move_and_names_no_masters(moving):
    subscribe = Subscribe("s", WANTED)
    moving.notifications = Notifications(moving, subscribe, 60.0)
    moving.coming.append(opened())
    moving.notifications.open()
    assert moving.said() == [subscribe]


def test_a_client_that_does_not_have_that_master_is_told_so_in_a_line(moving):
    heard = moving.open(notified(1), replace(MOVED, master="tcp://10.9.9.9:1"), durable=True)
    assert next(heard).position == 1
    with pytest.raises(SubscriptionError, match="it lives at iad2 now"):
        next(heard)


def test_it_is_ended_where_it_lives(moving):
    heard = moving.open(durable=True)
    moving.said()
    moving.coming.extend([replace(MOVED, state="refused"), Subscribed("s", "cancelled")])
    heard.end(1_000.0)
    assert moving.said() == [Unsubscribe("s"), Unsubscribe("s")]
    assert moving.here == ELSEWHERE
    assert heard.was_kept
