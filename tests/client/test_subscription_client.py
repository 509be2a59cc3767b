"""The notifications of a subscription at the client, against a master that the test plays."""

from collections import deque

import pytest
import zmq
from msgspec.structs import replace

from agent.client import Client, NoReplyError, SubscriptionError, UnknownLoss
from agent.client import subscriptions as subscriptions_module
from agent.client.connection import ConnectionCutError
from agent.client.subscriptions import MAX_OWED, Notifications
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Answer, Coverage
from agent.wire.overlay import Notification, Origin
from agent.wire.predicate_language import read_filter
from agent.wire.predicates import FilterError, Predicate
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    GivenMaster,
    Lost,
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

HOT = 'metric = "temperature" and value > 30'
WANTED = read_filter(HOT)
CUT = "cut"
RENEW_S = 60.0


def notified(position, subscription_id="s"):
    origin = Origin("iad1", "4f1d2a", position)
    return Notified(subscription_id, position, Notification(origin, 0, {"value": float(position)}))


def opened(position=0):
    return Subscribed("s", "open", position, RENEW_S * 1e3)


def acknowledged(position):
    return AcknowledgeNotifications("s", position)


def asked(after=None, **fields):
    return Subscribe("s", WANTED, after=after, **fields)


REFUSED = Subscribed("s", "refused", message="gone")
UNKNOWN = Subscribed("s", "unknown")


class Line:
    """A client without a socket, in virtual time: what is put into `coming` is taken, in order;
    where that is nothing, time passes."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        self.patch = monkeypatch.setattr
        self.patch(subscriptions_module, "time", self)
        self.sent = deque()
        self.times = deque()
        self.coming = deque()
        self.forgotten = []
        self.always = ()  # in answer to each message
        self.says_all()

    def says_all(self, most_owed=0):
        """Each position is acknowledged, as those of a durable subscription are."""
        self.patch(subscriptions_module, "MAX_OWED", most_owed)

    def monotonic(self):
        return self.now

    def send_message(self, message):
        self.sent.append(message)
        self.times.append(self.now)
        self.coming.extend(self.always)

    def take(self, timeout_ms, *, until_cut=False):
        if not self.coming:
            self.now += timeout_ms / 1e3 + 1e-6
            raise NoReplyError("silent")
        message = self.coming.popleft()
        if message == CUT:
            self.notifications.cut()
            assert until_cut
            raise ConnectionCutError("cut")
        self.notifications.take(message)

    def forget_subscription(self, subscription_id):
        self.forgotten.append(subscription_id)

    def given_masters(self):
        return ()

    def open(self, *coming, position=0, durable=False, after=None, patience_s=3_600.0):
        subscribe = Subscribe("s", WANTED, durable, after)
        self.notifications = Notifications(self, subscribe, patience_s)
        self.coming.extend((opened(position), *coming))
        self.notifications.open()
        assert [replace(each, masters=()) for each in self.said()] == [subscribe]
        return self.notifications

    def said(self):
        """What was sent since the last look."""
        sent = list(self.sent)
        self.sent.clear()
        self.times.clear()
        return sent


@pytest.fixture
def line(monkeypatch):
    return Line(monkeypatch)


def positions(found, count):
    return [next(found).position for _ in range(count)]


def test_a_notification_is_acknowledged_when_the_loop_asks_for_more(line):
    found = line.open(notified(1), notified(2))
    assert next(found) == notified(1)
    assert (found.after, line.said()) == (0, [])
    assert next(found) == notified(2)
    assert (found.after, line.said()) == (1, [acknowledged(1)])
    found.acknowledge()
    found.acknowledge()
    assert (found.after, line.said()) == (2, [acknowledged(2)])


def test_without_a_disk_a_few_are_acknowledged_together(line):
    line.says_all(MAX_OWED)
    with line.open(*map(notified, range(1, 2 * MAX_OWED + 3))) as found:
        assert positions(found, MAX_OWED) == [*range(1, MAX_OWED + 1)]
        assert line.said() == []
        positions(found, MAX_OWED)
        assert line.said() == [acknowledged(MAX_OWED)]
        positions(found, 2)
        assert line.said() == [acknowledged(2 * MAX_OWED)]
        # Asked to say so, or when it is time for a sign of life.
        found.acknowledge()
        assert line.said() == [acknowledged(2 * MAX_OWED + 2)]
        found.acknowledge()
        line.coming.append(notified(2 * MAX_OWED + 3))
        positions(found, 1)
        assert found.wait(RENEW_S / 3 + 1.0) is None
        assert line.said() == [acknowledged(2 * MAX_OWED + 3)]
        line.coming.append(Subscribed("s", "cancelled"))


def test_a_durable_one_is_acknowledged_at_once(line):
    line.says_all(MAX_OWED)
    found = line.open(notified(1), notified(2), durable=True)
    positions(found, 2)
    assert line.said() == [acknowledged(1)]


def test_what_comes_twice_is_passed_over_and_what_was_lost_on_the_way_is_asked_for(line):
    again = opened(1), notified(2), notified(3), notified(4), notified(4), notified(5)
    found = line.open(notified(1), notified(1), notified(3), notified(4), *again)
    assert positions(found, 5) == [1, 2, 3, 4, 5]
    sent = [acknowledged(1), asked(after=1), *map(acknowledged, (2, 3, 4))]
    assert line.said() == sent


def test_what_came_before_a_cut_is_given_before_anything_is_asked_for(line):
    found = line.open(notified(1), notified(2), notified(3))
    assert positions(found, 1) == [1]
    for _ in range(2):
        line.take(0)  # in the loop's body, as a query does
    found.cut()
    assert positions(found, 2) == [2, 3]
    assert (found.after, line.said()) == (2, [])
    line.coming.extend((opened(3), notified(4)))
    assert positions(found, 1) == [4]
    assert line.said() == [asked(after=3)]


def test_a_gap_is_given_as_it_is_but_nothing_twice(line):
    lost = Lost("iad1", "4f1d2a", 7, 9, 2)
    gaps = Gap("s", 1, 3), Gap("s", 2, 5), Gap("s", 4, 5), Gap("s", 6, 6, lost)
    found = line.open(*gaps, notified(7))
    told = [next(found) for _ in range(4)]
    assert told == [Gap("s", 1, 3), Gap("s", 4, 5), Gap("s", 6, 6, lost), notified(7)]
    assert line.said() == [acknowledged(position) for position in (3, 5, 6)]


def test_a_durable_subscription_goes_on_where_its_client_was(line):
    found = line.open(notified(8), position=7, durable=True)
    assert (found.after, positions(found, 1)) == (7, [8])


def test_nothing_for_a_while_is_none_and_the_next_comes_later(line):
    found = line.open()
    assert found.wait(0.0) is None
    assert found.wait(7.0) is None
    assert line.now == pytest.approx(107.0, abs=0.01)
    line.coming.append(notified(1))
    assert found.wait(7.0) == notified(1)


def test_who_waits_is_heard_of_three_times_in_the_time_to_renew(line):
    found = line.open(notified(1))
    assert positions(found, 1) == [1]
    assert found.wait(59.0) is None
    assert [at - 100.0 for at in line.times] == pytest.approx([0, 20, 40], abs=0.01)
    assert line.said() == [acknowledged(1)] * 3


def test_a_master_that_is_silent_for_long_is_asked_and_that_is_no_news(line):
    found, words = line.open(notified(1)), []
    found.on_word = words.append
    assert positions(found, 1) == [1]
    assert found.wait(60.5) is None
    assert line.said()[-1] == asked(after=1)
    line.coming.append(opened(1))
    assert found.wait(40.0) is None
    assert words == []
    assert line.said() == [acknowledged(1)] * 2


def test_who_gets_no_answer_asks_again_at_longer_and_longer_intervals_and_says_so(line):
    found, words = line.open(patience_s=100.0), []
    found.on_word = words.append
    line.coming.append(CUT)
    with pytest.raises(NoReplyError):
        next(found)
    assert [at - 100.0 for at in line.times] == pytest.approx([0, 5, 15, 35, 75], abs=0.01)
    assert line.said() == [asked(after=0)] * 5
    assert words[:2] == [
        "no word from the master for 5 s; asking again",
        "no word from the master for 15 s; asking again",
    ]
    line.coming.extend((opened(), notified(1)))  # the loop may go on
    assert positions(found, 1) == [1]


# --- a master that knows it no more -------------------------------------------------------------


def test_what_a_master_does_not_know_is_asked_for_again_from_the_last_one_taken(line):
    found = line.open(notified(1), notified(2), UNKNOWN, UNKNOWN, opened(2), notified(3))
    assert positions(found, 3) == [1, 2, 3]
    # The second word is on the acknowledgement before, and says nothing new.
    assert line.said() == [acknowledged(1), acknowledged(2), asked(after=2)]


def test_after_a_cut_it_is_asked_for_again_from_the_last_one_taken(line):
    found = line.open(notified(1), CUT, opened(1), notified(2))
    assert positions(found, 2) == [1, 2]
    assert line.said() == [acknowledged(1), asked(after=1)]


def test_what_is_taken_while_it_is_asked_for_is_acknowledged_as_soon_as_it_is_open(line):
    found = line.open(notified(1), CUT, notified(2), opened(1))
    assert positions(found, 2) == [1, 2]
    assert line.said() == [acknowledged(1), asked(after=1)]
    assert found.wait(1.0) is None
    assert line.said() == [acknowledged(2)]


def test_what_is_not_kept_is_an_unknown_loss_and_begins_anew(line):
    anew = REFUSED, opened(), notified(1), notified(2)
    found = line.open(notified(1), UNKNOWN, *anew)
    assert next(found) == notified(1)
    assert next(found) == UnknownLoss("s", 1, 0, "gone")
    assert positions(found, 2) == [1, 2]
    sent = [acknowledged(1), asked(after=1), asked(), acknowledged(0), acknowledged(1)]
    assert line.said() == sent


def test_of_what_came_before_an_unknown_loss_nothing_is_acknowledged(line):
    found = line.open(notified(1), notified(2), notified(3), position=0)
    assert next(found) == notified(1)
    for _ in range(2):
        line.take(0)  # in the loop's body, as a query does
    found.cut()
    found._ask()
    line.coming.extend((REFUSED, opened(), notified(1)))
    line.take(0)
    found._keep_up()
    line.take(0)
    line.take(0)
    line.said()
    assert positions(found, 2) == [2, 3]
    assert next(found) == UnknownLoss("s", 3, 0, "gone")
    assert line.said() == []
    assert next(found) == notified(1)
    assert line.said() == [acknowledged(0)]


def test_a_position_given_by_the_caller_that_is_not_kept_is_a_loss_too(line):
    line.coming.append(REFUSED)
    subscribe = asked(after=7, durable=True)
    found = line.notifications = Notifications(line, subscribe, 60.0)
    line.coming.append(opened(2))
    found.open()
    assert line.said() == [subscribe, asked(durable=True)]
    assert (next(found), found.after) == (UnknownLoss("s", 7, 2, "gone"), 2)


def test_a_word_on_what_was_asked_before_does_not_refuse(line):
    found = line.open()
    line.coming.append(CUT)
    assert found.wait(12.0) is None
    assert line.said() == [asked(after=0)] * 2
    # They come together, when the master is back.
    line.coming.extend((REFUSED, REFUSED, opened(), notified(1)))
    assert isinstance(next(found), UnknownLoss)
    assert positions(found, 1) == [1]
    assert line.said() == [asked(), acknowledged(0)]


def test_the_same_refusal_counts_if_no_other_word_follows_in_the_end(line):
    found = line.open(CUT)
    line.always = (REFUSED,)
    with pytest.raises(SubscriptionError, match="gone"):
        next(found)
    assert line.said() == [asked(after=0), *[asked()] * 3]
    assert line.now == pytest.approx(135.0, abs=0.01)
    again = line.notifications = Notifications(line, asked(after=7), 60.0)
    with pytest.raises(SubscriptionError, match="gone"):
        again.open()


def test_what_comes_before_the_word_on_where_it_begins_is_not_counted(line):
    subscribe = Subscribe("s", WANTED)
    found = line.notifications = Notifications(line, subscribe, 60.0)
    line.coming.extend((notified(1), CUT, opened(), notified(1), notified(2)))
    found.open()
    assert positions(found, 2) == [1, 2]


def test_what_is_refused_anew_is_an_error(line):
    no_more = Subscribed("s", "refused", message="100 subscriptions are open for you")
    found = line.open(notified(1), UNKNOWN, REFUSED, no_more)
    assert positions(found, 1) == [1]
    for _ in range(2):
        with pytest.raises(SubscriptionError, match="100 subscriptions are open for you"):
            next(found)
    assert not found.is_open


def test_two_clients_do_not_take_one_subscription_from_each_other_for_ever(line):
    found = line.open(*[UNKNOWN, opened()] * 2, UNKNOWN)
    with pytest.raises(SubscriptionError, match="another client took subscription 's' over"):
        next(found)


def test_many_acknowledgements_of_what_is_unknown_are_no_other_client(line):
    found = line.open(*[UNKNOWN] * 4)
    for _ in range(4):
        line.take(0)  # in the loop's body, as a query does
    line.coming.extend((opened(), notified(1)))
    assert positions(found, 1) == [1]


def test_masters_that_restart_are_no_other_client(line):
    found = line.open(*[UNKNOWN, opened(), CUT, opened()] * 4, notified(1))
    assert positions(found, 1) == [1]


# --- the end ------------------------------------------------------------------------------------


def test_the_end_of_the_block_ends_the_subscription(line):
    with line.open(notified(1)) as found:
        next(found)
        line.coming.extend((notified(2), Subscribed("s", "cancelled")))
    assert line.said() == [acknowledged(1), Unsubscribe("s")]
    assert line.forgotten == ["s"]
    with pytest.raises(SubscriptionError, match="was ended"):
        next(found)


def test_an_end_that_nobody_confirms_says_so(line):
    found = line.open()
    assert not found.cancel()
    assert not found.is_open
    assert line.said() == [Unsubscribe("s")]


def test_an_end_over_a_connection_that_is_cut_is_said_again(line):
    found = line.open()
    line.coming.extend((CUT, Subscribed("s", "cancelled")))
    assert found.cancel()
    assert line.said() == [Unsubscribe("s")] * 2


def test_a_durable_subscription_is_left_with_what_was_taken(line):
    with line.open(notified(1), durable=True) as found:
        next(found)
    assert line.said() == [acknowledged(1)]
    assert line.forgotten == ["s"]


def test_what_the_loop_was_busy_with_when_it_broke_is_not_taken(line):
    found = line.open(notified(1), durable=True)

    def loop():
        with found:
            next(found)
            raise RuntimeError("in the loop")

    with pytest.raises(RuntimeError, match="in the loop"):
        loop()
    assert (found.after, line.said()) == (0, [])


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
