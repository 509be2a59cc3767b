"""The rounds of a watch at the client, against a master that the test plays."""

import pytest
import zmq

from agent.client import Client, ConnectionCutError, NoReplyError, WatchError
from agent.client import watches as rounds_module
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Answer, Coverage
from agent.wire.unions import PublicRequest
from agent.wire.watches import Acknowledge, Cancel, Round, Watch, Watching
from testkit.waiting import PATIENCE_MS


def answer(query_id="w"):
    return Answer(query_id, "complete", 1.0, True, Coverage(1, 1))


class Script:
    """A ROUTER in the same thread: what it sends before the client looks is there when it does."""

    def __init__(self, context):
        self.socket = context.socket(zmq.ROUTER)
        self.address = f"tcp://127.0.0.1:{self.socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.decoder = Decoder(PublicRequest)

    def receive(self):
        assert self.socket.poll(PATIENCE_MS)
        self.peer, frame = self.socket.recv_multipart()
        return self.decoder.decode(frame)[0]

    def send(self, *messages):
        for message in messages:
            self.socket.send_multipart([self.peer, encode(message)])

    def round(self, number, previous):
        self.send(Round(self.id, number, previous, 0, 1, answer()))


@pytest.fixture
def script(context):
    return Script(context)


@pytest.fixture
def open_watch(script, monkeypatch):
    """Open a watch whose master answers in time, without a second thread."""
    clients = []

    def open_watch(**fields):
        clients.append(client := Client(script.address))
        original = client.receive_message

        def receive(timeout_ms, **_):
            # The first reply that the client waits for is the one to its watch.
            monkeypatch.setattr(client, "receive_message", original)
            watch = script.receive()
            assert isinstance(watch, Watch)
            script.id, script.watch = watch.id, watch
            script.send(Watching(watch.id, "open"))
            return original(timeout_ms)

        monkeypatch.setattr(client, "receive_message", receive)
        return client.watch(["b1"], **{"interval_s": 0.05, "latency_ms": 1.0, **fields})

    yield open_watch
    for client in clients:
        client.close()


def test_rounds_are_acknowledged_when_the_loop_asks_for_more(script, open_watch):
    rounds = open_watch()
    script.round(1, 0)
    script.round(2, 1)
    assert next(rounds).number == 1
    assert rounds.after == 0
    assert next(rounds).number == 2
    assert (rounds.after, script.receive()) == (1, Acknowledge(rounds.id, 1))


def test_what_comes_twice_and_what_follows_a_loss_is_passed_over(script, open_watch):
    rounds = open_watch(style="event", trigger="x > 1")
    for number, previous in ((3, 0), (3, 0), (9, 7), (7, 3), (9, 7)):
        script.round(number, previous)
    assert [next(rounds).number for _ in range(3)] == [3, 7, 9]


def test_a_wait_ends_without_a_round_and_the_next_goes_on(script, open_watch):
    rounds = open_watch()
    assert rounds.wait(0.0) is None
    script.round(1, 0)
    assert rounds.wait(PATIENCE_MS / 1e3).number == 1
    assert rounds.wait(0.0) is None
    assert script.receive() == Acknowledge(rounds.id, 1)
    script.send(Watching(rounds.id, "finished", next_round=2))
    assert rounds.wait(PATIENCE_MS / 1e3) is None


def test_a_silent_master_is_asked_again_from_the_last_round_on(script, open_watch, monkeypatch):
    monkeypatch.setattr(rounds_module, "QUIET_GRACE_S", 0.01)
    rounds = open_watch(patience_s=0.2)
    script.round(1, 0)
    assert rounds._client.socket.poll(PATIENCE_MS)
    assert next(rounds).number == 1
    with pytest.raises(NoReplyError):
        next(rounds)
    assert script.receive() == Acknowledge(rounds.id, 1)
    again = script.receive()
    assert (again.id, again.after, again.areas) == (rounds.id, 1, ("b1",))


def test_who_does_not_want_to_wait_hears_that_the_connection_is_cut(script, open_watch):
    watched = open_watch(until_cut=True, interval_s=3_600.0)
    script.socket.close(0)
    with pytest.raises(ConnectionCutError):
        next(watched)


@pytest.mark.parametrize(("style", "heard"), [({}, 3), ({"style": "event", "trigger": "x > 1"}, 2)])
def test_who_waits_hears_that_the_master_is_silent(script, open_watch, monkeypatch, style, heard):
    monkeypatch.setattr(rounds_module, "QUIET_GRACE_S", 0.01)
    words = []
    rounds = open_watch(patience_s=0.2, **style)
    rounds.on_word = words.append
    with pytest.raises(NoReplyError):
        next(rounds)
    # A silence is 0.064 s: the fourth is beyond the patience, the first of a trigger means nothing.
    assert words == ["no word from the master for 0 s; asking again"] * heard


def test_who_waits_hears_each_new_word_of_the_master_once(script, open_watch):
    rounds, words = open_watch(style="event", trigger="x > 1"), []
    rounds.on_word = words.append
    for word in ("", "no area gives x", "no area gives x"):
        script.send(Watching(rounds.id, "open", 8, word))
    script.round(9, 0)
    assert next(rounds).number == 9
    assert words == ["no area gives x"]
    assert rounds.looked_at == 7


def test_answers_and_rounds_find_their_way(script, open_watch):
    rounds = open_watch()
    client = rounds._client
    script.round(1, 0)
    script.send(answer("mine"), Watching("another", "cancelled"))
    assert client.receive(PATIENCE_MS).id == "mine"
    assert next(rounds).number == 1


def test_a_finished_watch_ends_the_loop_and_the_master_hears_that_it_did(script, open_watch):
    rounds = open_watch(lasting_s=0.2)
    script.round(1, 0)
    script.send(Watching(rounds.id, "finished", 5))
    assert [each.number for each in rounds] == [1]
    heard = [script.receive() for _ in range(2)]
    assert heard == [Acknowledge(rounds.id, 1), Acknowledge(rounds.id, 4)]


def test_the_end_of_the_block_cancels(script, open_watch):
    rounds = open_watch()
    with rounds:
        script.send(Watching(rounds.id, "cancelled"))
    assert script.receive() == Cancel(rounds.id)


def test_a_cancel_that_nobody_confirms_says_so(script, open_watch):
    rounds = open_watch()
    assert not rounds.cancel(timeout_ms=1.0)
    assert not rounds.is_open
    assert script.receive() == Cancel(rounds.id)


def test_a_detached_watch_is_left_open_with_what_was_taken(script, open_watch):
    with open_watch(detach=True) as rounds:
        script.round(1, 0)
        next(rounds)
    assert script.receive() == Acknowledge(rounds.id, 1)
    assert rounds.after == 1


def test_what_the_loop_was_busy_with_when_it_broke_is_not_taken(script, open_watch):
    rounds = open_watch(detach=True)
    script.round(1, 0)

    def loop():
        with rounds:
            next(rounds)
            raise RuntimeError("in the loop")

    with pytest.raises(RuntimeError, match="in the loop"):
        loop()
    assert rounds.after == 0


def test_a_watch_that_ends_from_outside_is_an_error(script, open_watch):
    rounds = open_watch()
    script.send(Watching(rounds.id, "refused", message="no watch is open here"))
    with pytest.raises(WatchError, match="no watch is open here"):
        next(rounds)


def test_a_watch_that_the_master_cannot_read_is_an_error(script, open_watch):
    rounds = open_watch()
    coverage = Coverage(0, 0)
    script.send(
        Answer(rounds.id, "refused", 0.0, False, coverage, reason="malformed", message="no")
    )
    with pytest.raises(WatchError, match="no"):
        next(rounds)


def test_no_master_is_no_reply(script):
    with Client(script.address) as client, pytest.raises(NoReplyError):
        client.watch(["b1"], interval_s=1.0)
