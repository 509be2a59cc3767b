"""The Python client: answers to their queries, and one clear error when there is none."""

import gc
import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import zmq
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.client import Client, NoReplyError, Operator
from agent.client.connection import Connection
from agent.wire.codec import Decoder, WireError, encode
from agent.wire.messages import Answer, Coverage, Query, Slo, Window
from agent.wire.operator import IadStatus, OperatorError
from agent.wire.unions import ClientReply, PublicRequest
from agent.wire.watches import Cancel
from fleet.testbed.ports import free_address
from testkit.waiting import PATIENCE_MS
from tests.examples import examples


def answer(query_id: str) -> bytes:
    return encode(Answer(query_id, "complete", 1.0, True, Coverage(0, 0)))


@pytest.fixture
def scripted(context):
    """A master that answers each request with the given frames; yields its address."""
    threads = []

    def start(*rounds):
        socket = context.socket(zmq.ROUTER)
        port = socket.bind_to_random_port("tcp://127.0.0.1")

        def serve():
            for frames in rounds:
                identity, request = socket.recv_multipart()
                for frame in frames(request) if callable(frames) else frames:
                    socket.send_multipart([identity, frame])

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return f"tcp://127.0.0.1:{port}"

    yield start
    for thread in threads:
        thread.join()


def test_a_client_says_what_it_cannot_be_used_for(scripted):
    other: list[BaseException] = []

    def use():
        try:
            client.query(["b1"], last_s=1)
        except RuntimeError as error:
            other.append(error)

    def answered_after_another_thread_has_asked(_request):
        (thread := threading.Thread(target=use)).start()
        thread.join()
        return [answer("q1")]

    address = scripted(answered_after_another_thread_has_asked)
    with Client(address) as client:
        assert client.query(["b1"], last_s=1).id == "q1"
        assert "one for each thread" in str(other[0])
        if (child := os.fork()) == 0:
            use()
            os._exit("make one here" not in str(other[-1]))
        assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(ValueError, match=f"the client of {address} is closed"):
        client.query(["b1"], last_s=1)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"areas": "b1/f4"}, r"areas is a list: \['b1/f4'\]"),
        ({"areas": ["b1"], "channels": "co2"}, r"channels is a list: \['co2'\]"),
        ({"areas": b"b1"}, "areas is a list of texts; got b'b1'"),
        ({"areas": None}, "areas is a list of texts; got None"),
        ({"areas": ["b1", 4]}, r"areas is a list of texts; got \['b1', 4\]"),
        ({"areas": ["b1"], "channels": None}, "channels is a list of texts; got None"),
    ],
)
def test_what_is_no_list_of_texts_is_told(given, told):
    with Client("tcp://127.0.0.1:1") as client:
        with pytest.raises(ValueError, match=told):
            client.query(**given, last_s=1)
        with pytest.raises(ValueError, match=told):
            client.watch(**given, style="periodic", interval_s=1)


def test_a_late_answer_to_an_earlier_query_is_skipped(scripted):
    address = scripted([answer("q1"), answer("stray")], [answer("q1"), answer("q2")])
    with Client(address) as client:
        assert client.query(["b1"], last_s=1).id == "q1"
        assert client.query(["b1"], last_s=1).id == "q2"


def sent(name: str) -> Query:
    return Query(name, ("b1",), Window(last_s=1), Slo(99.0, 500.0))


def test_an_answer_that_comes_while_another_is_waited_for_is_kept(scripted):
    address = scripted([], [], [answer("b"), answer("a"), answer("q1")], [answer("q2")])
    with Client(address) as client:
        client.send(sent("a"))
        client.send(sent("b"))
        assert client.query(["b1"], last_s=1).id == "q1"
        assert client.query(["b1"], last_s=1).id == "q2"
        assert [client.receive(0).id for _ in range(2)] == ["b", "a"]
        with pytest.raises(NoReplyError):
            client.receive(0)


def test_a_message_of_several_parts_is_no_answer_and_is_not_read_on(context):
    with context.socket(zmq.ROUTER) as master:
        address = f"tcp://127.0.0.1:{master.bind_to_random_port('tcp://127.0.0.1')}"
        with Client(address) as client:
            client.send(sent("a"))
            sender, _ = master.recv_multipart()
            master.send_multipart([sender, answer("a"), answer("b"), answer("c")])
            with pytest.raises(WireError, match="a message here is one frame"):
                client.receive(PATIENCE_MS)
            client.send(sent("b"))
            again, _ = master.recv_multipart()
            assert again != sender
            master.send_multipart([again, answer("b")])
            assert client.receive(PATIENCE_MS).id == "b"


def test_no_query_has_the_id_of_one_that_is_under_way(scripted):
    with Client(scripted([], [answer("q1"), answer("q2")])) as client:
        client.send(sent("q1"))
        assert client.query(["b1"], last_s=1).id == "q2"
        assert client.receive(0).id == "q1"


def test_what_nobody_receives_is_bounded(monkeypatch):
    monkeypatch.setattr("agent.client.client.MAX_KEPT", 3)
    with Client(free_address()) as client:
        monkeypatch.setattr(client, "send_message", lambda _query: None)
        for number in range(10):
            client.send(sent(str(number)))
            client._hand_over(Answer(str(number), "complete", 1.0, True, Coverage(0, 0)))
        assert [client.receive(0).id for _ in range(3)] == ["7", "8", "9"]
        for number in range(10):
            client.send(sent(str(number)))
        assert len(client._due) == 3


class ClientMachine(RuleBasedStateMachine):
    """Queries sent and asked in any order over a master that answers in any order, twice or late:
    no answer to what was sent is lost, and none to what was asked comes later."""

    def __init__(self):
        super().__init__()
        self.client = Client("inproc://nowhere")
        self.network: list[str] = []
        self.due: list[str] = []
        self.kept: list[str] = []
        self.asked: set[str] = set()
        self.client.send_message = self.sent
        self.client.receive_message = self.receive

    def sent(self, query):
        self.network.append(query.id)
        self.last = query.id

    def receive(self, _timeout_ms, *, until_cut=False):
        if not self.script:
            raise NoReplyError("nothing comes")
        arrived = self.script.pop(0)
        if arrived in self.network:  # a master answers each query once
            self.network.remove(arrived)
        return Answer(arrived, "complete", 1.0, True, Coverage(0, 0))

    def arriving(self, data, *more):
        """Some of the answers that are due come now, in any order, and strays between them."""
        coming = data.draw(st.permutations([*self.network, *more, "stray", "q1"]))
        count = data.draw(st.integers(0, len(coming)))
        return list(coming[:count])

    @rule(name=st.sampled_from(["a", "b", "q1", "q2", "q3"]))
    def send(self, name):
        self.client.send(Query(name, ("b1",), Window(last_s=1), Slo(99.0, 500.0)))
        self.due.append(name)

    @rule(data=st.data())
    def ask(self, data):
        def sent(query):
            self.last = query.id
            self.asked.add(query.id)
            assert query.id not in self.client._due
            self.script = self.arriving(data, query.id)

        self.client.send_message = sent
        try:
            answer = self.client.query(["b1"], last_s=1)
            assert answer.id == self.last
        except NoReplyError:
            pass
        finally:
            self.client.send_message = self.sent

    @rule(data=st.data())
    def receive_one(self, data):
        self.script = self.arriving(data)
        try:
            answer = self.client.receive(0)
        except NoReplyError:
            return
        if answer.id in self.due:
            self.due.remove(answer.id)
        else:
            assert answer.id not in self.asked, "its query was given up, or answered before"

    @invariant()
    def what_is_due_is_kept_or_waited_for(self):
        kept = [answer.id for answer in self.client._answers]
        waited = [name for name, count in self.client._due.items() for _ in range(count)]
        assert Counter(self.due) <= Counter(kept + waited)
        assert Counter(waited) <= Counter(self.due)

    def teardown(self):
        self.client.close()


TestClientModel = ClientMachine.TestCase
TestClientModel.settings = settings(
    max_examples=examples(40), stateful_step_count=20, deadline=None
)


def test_without_the_key_that_a_master_wants_nothing_waits_for_ever(context):
    """libzmq mostly drops an endpoint with another handshake. Where the master has hung up first it
    keeps the endpoint, and takes messages that nobody gets: so the wait for a drop has an end."""
    server = context.socket(zmq.ROUTER)
    server.curve_secretkey = zmq.curve_keypair()[1]
    server.curve_server = True
    port = server.bind_to_random_port("tcp://127.0.0.1")
    with Connection(f"tcp://127.0.0.1:{port}", ClientReply, None) as connection:
        for _ in range(2):
            connection.send_message(Cancel("w1"))
            given_up_s = time.monotonic() + 1
            while connection.socket.poll(0, zmq.POLLOUT) and time.monotonic() < given_up_s:
                connection.socket.poll(10)
        with pytest.raises(NoReplyError):
            connection.receive_message(10)


def test_a_refusal_without_an_id_is_the_answer(scripted):
    refusal = encode(
        Answer("", "refused", 0.0, False, Coverage(0, 0), reason="malformed", message="no")
    )
    with Client(scripted([refusal])) as client:
        assert client.query(["b1"], last_s=1).message == "no"


def test_what_a_query_asks_is_what_is_sent(scripted):
    seen = []

    def reply(request):
        query, _ = Decoder(PublicRequest).decode(request)
        seen.append(query)
        return [answer(query.id)]

    with Client(scripted(reply)) as client:
        client.query(["b1/f4"], last_s=60, percentile=95, latency_ms=40, channels=["temperature"])
    [query] = seen
    assert (query.areas, query.channels, query.slo.percentile) == (("b1/f4",), ("temperature",), 95)
    assert (query.window.last_s, query.slo.latency_ms, query.form) == (60, 40, "series")


def test_a_very_long_slo_gives_a_timeout_that_a_message_may_say(scripted):
    seen = []

    def reply(request):
        query, _ = Decoder(PublicRequest).decode(request)
        seen.append(query.timeout_ms)
        return [answer(query.id)]

    with Client(scripted(reply)) as client:
        client.query(["b1"], last_s=1, latency_ms=3_000_000)
    assert seen == [3_600_000]


def test_silence_is_one_clear_error():
    address = free_address()
    with Client(address) as client, pytest.raises(NoReplyError, match=f"no reply from {address}"):
        client.receive(1.0)
    with Operator(address) as operator, pytest.raises(NoReplyError, match="is a master running"):
        operator.status(1.0)


class Masters:
    """Masters at one address, one after the other; each reads one request."""

    def __init__(self):
        self.address = free_address()
        self.asked = []

    def serve(self, *endings):
        """Answer each request that is read with its ending; "cut" closes the connection instead,
        and the next master takes over."""
        for ending in endings:
            # The end of a context waits until the address is free again.
            with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
                socket.bind(self.address)
                identity, request = socket.recv_multipart()
                query, _ = Decoder(PublicRequest).decode(request)
                self.asked.append(query)
                if ending == "answered":
                    socket.send_multipart([identity, answer(query.id)])


@pytest.fixture
def masters():
    """Starts masters."""
    made = Masters()
    threads = []

    def start(*endings):
        threads.append(threading.Thread(target=made.serve, args=endings))
        threads[-1].start()
        return made

    yield start
    for thread in threads:
        thread.join()


def test_a_query_under_way_at_a_master_that_restarts_is_asked_once_more(masters):
    running = masters("cut", "answered")
    with Client(running.address) as client:
        assert client.query(["b1"], last_s=1, timeout_ms=60_000).status == "complete"
    first, again = running.asked
    assert first == again


def test_a_query_whose_connections_are_cut_twice_is_not_asked_for_ever(masters):
    running = masters("cut", "cut")
    with Client(running.address) as client, pytest.raises(NoReplyError, match="no reply"):
        client.query(["b1"], last_s=1, timeout_ms=4_000.0)
    assert len(running.asked) == 2


def test_a_client_that_nobody_closes_does_not_stop_the_program_when_it_is_collected():
    def use():
        Client("tcp://127.0.0.1:1")
        gc.collect()

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    thread.join(PATIENCE_MS / 1e3)
    assert not thread.is_alive()


def test_an_address_that_is_none():
    with pytest.raises(ValueError, match="cannot use address 'nonsense'"):
        Client("nonsense")


@pytest.mark.parametrize("none", ["", [], None])
def test_no_address_is_told_as_that(none):
    with pytest.raises(ValueError, match="no address of a master; give one, such as tcp://"):
        Client(none)


@pytest.mark.parametrize("bad", ["x" * 65, 5])
def test_an_id_that_no_message_can_have_is_told_at_once(bad):
    with Client("tcp://127.0.0.1:1") as client:
        for use in (
            lambda: client.subscribe("*", id=bad),
            lambda: client.unsubscribe(bad),
            lambda: client.watch(["b1"], interval_s=1, resume=(bad, 3)),
        ):
            with pytest.raises(ValueError, match=r"id: Expected `str`"):
                use()


class Number:
    """As those of numpy."""


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        (
            {"last_s": Number()},
            TypeError,
            r"cannot send tests\.client\.test_client\.Number; convert it, such as with int\(\)",
        ),
        (
            {"last_s": 1, "window": Window(last_s=60)},
            ValueError,
            "last_s and window do not go together",
        ),
        ({"last_s": 1, "form": "buckets", "buckets": 0}, ValueError, "buckets is at least 1"),
    ],
)
def test_what_no_query_can_ask_is_told_in_words(given, error, told):
    with Client("tcp://127.0.0.1:1") as client, pytest.raises(error, match=told):
        client.query(["b1"], **given)


def status(iad: str) -> bytes:
    return encode(IadStatus(iad, "edfq", (), (), 0, 0, {}))


@pytest.mark.parametrize("late", [status("before"), encode(OperatorError("before"))])
def test_a_late_reply_is_not_taken_as_that_to_the_next_request(context, late):
    """States and errors have no id."""
    with context.socket(zmq.ROUTER) as master:
        port = master.bind_to_random_port("tcp://127.0.0.1")
        with Operator(f"tcp://127.0.0.1:{port}") as operator, ThreadPoolExecutor() as threads:
            for _ in range(2):
                with pytest.raises(NoReplyError, match="no reply"):
                    operator.status(1.0)
                unanswered, _ = master.recv_multipart()
                # What a master does that stood still.
                master.send_multipart([unanswered, late])
            asked = threads.submit(operator.status, PATIENCE_MS)
            newest, _ = master.recv_multipart()
            master.send_multipart([newest, status("now")])
            assert asked.result().iad == "now"


def test_an_operators_refusal_is_raised(scripted):
    address = scripted([encode(OperatorError("not today"))])
    with Operator(address) as operator, pytest.raises(ValueError, match="not today"):
        operator.set_policy("fifo")
