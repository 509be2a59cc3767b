"""A client of several masters asks the first that is there, and goes on when that one is away."""

import socket
import threading
from types import SimpleNamespace

import pytest
import zmq

from agent.client import Client, NoReplyError
from agent.client import masters as masters_module
from agent.client import round_trips as round_trips_module
from agent.client.masters import MEASURED_S, Masters
from agent.client.round_trips import round_trips_ms
from agent.wire.base import MAX_MASTERS
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Answer, Coverage, Query, Slo, Window
from agent.wire.push import GivenMaster, Subscribe, Subscribed
from agent.wire.topics import Publish, Published
from agent.wire.unions import PublicRequest
from fleet.testbed.ports import free_address
from testkit.waiting import wait_until

REQUEST = Decoder(PublicRequest)


def reply(request):
    match request:
        case Query():
            return Answer(request.id, "complete", 1.0, True, Coverage(0, 0))
        case Subscribe(id="lost", kept_only=True):
            return Subscribed(request.id, "refused", message="it is not kept at this master")
        case Subscribe():
            return Subscribed(request.id, "open", 0, 60_000.0)
        case Publish():
            return Published(request.id, "accepted", request.sequence)
    raise AssertionError(request)


class Master:
    """Answers so many requests at its address; then it dies of the next, or stays until the end."""

    def __init__(self, address, ends):
        self.address = address
        self.asked = []
        self._ends = ends

    def live(self, answers, dies=False):
        with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
            socket.bind(self.address)
            for _ in range(answers):
                if not self._answer(socket):
                    return
            if not dies:
                self._ends.wait()
            elif self._waits(socket):
                self._read(socket)

    def _waits(self, socket):
        """For a request; False: the test is over."""
        while not socket.poll(50):
            if self._ends.is_set():
                return False
        return True

    def _answer(self, socket):
        if found := self._waits(socket):
            identity, request = self._read(socket)
            socket.send_multipart([identity, encode(reply(request))])
        return found

    def _read(self, socket):
        identity, frame = socket.recv_multipart()
        request, _ = REQUEST.decode(frame)
        self.asked.append(request)
        return identity, request


@pytest.fixture
def masters():
    """Starts masters, each with its lives, one after the other."""
    threads, ends = [], threading.Event()

    def start(*lives):
        master = Master(free_address(), ends)

        def live():
            for life in lives:
                master.live(*life)

        threads.append(threading.Thread(target=live))
        threads[-1].start()
        return master

    yield start
    ends.set()
    for thread in threads:
        thread.join()


def client_of(*addresses):
    """A master that is away costs it little; one that is there may be slow (`patiently`)."""
    made = Client(",".join(addresses))
    made._masters.connect_s = 0.2
    return made


def patiently(ask):
    """What is asked, again as long as no connection comes about."""

    def once():
        try:
            return ask()
        except NoReplyError as error:
            if "no connection to any" not in str(error):
                raise
            return None

    return wait_until(once, lambda found: found is not None)


def query(client):
    return patiently(lambda: client.query(["b1"], last_s=1, timeout_ms=60_000))


def test_the_first_that_is_there_is_asked_and_then_at_once(masters):
    away, there = free_address(), masters((3,))
    with client_of(away, there.address) as client:
        assert query(client).status == "complete"
        assert client._masters.order == (there.address, away)
        assert query(client).status == "complete"
        client.send(Query("mine", ("b1",), Window(last_s=1), Slo(99.0, 500.0)))
        assert client.receive(60_000).id == "mine"
    assert [each.id for each in there.asked] == ["q1", "q2", "mine"]


def test_a_query_whose_master_dies_is_asked_of_the_next(masters):
    first, second = masters((1, True)), masters((2,))
    with client_of(first.address, second.address) as client:
        wait_until(lambda: client.is_connected(0.1))
        for _ in range(3):
            assert query(client).status == "complete"
    assert (len(first.asked), len(second.asked)) == (2, 2)


def test_without_any_it_is_one_clear_error():
    nobody = [free_address(), free_address()]
    with client_of(*nobody) as client, pytest.raises(NoReplyError) as error:
        client.query(["b1"], last_s=1)
    assert str(error.value) == f"no connection to any of {', '.join(nobody)}"


def test_a_master_that_stands_still_is_asked_last(context):
    still = context.socket(zmq.ROUTER)
    port = still.bind_to_random_port("tcp://127.0.0.1")
    address, other = f"tcp://127.0.0.1:{port}", free_address()
    with client_of(address, other) as client:
        wait_until(lambda: client.is_connected(0.1))
        with pytest.raises(NoReplyError, match="no reply"):
            client.query(["b1"], last_s=1, timeout_ms=1.0)
        assert client._masters.order == (other, address)


def test_a_message_goes_to_one_that_is_there(masters):
    there = masters((1,))
    with client_of(free_address(), there.address) as client:
        patiently(lambda: client.publish("comfort", {"vote": 3.0}) or True)
    assert len(there.asked) == 1


def test_a_message_that_one_may_have_taken_goes_to_no_other(masters, context):
    first = masters((0, True), (1,))
    second = context.socket(zmq.ROUTER)
    port = second.bind_to_random_port("tcp://127.0.0.1")
    with client_of(first.address, f"tcp://127.0.0.1:{port}") as client:
        wait_until(lambda: client.is_connected(0.1))
        client.publish("comfort", {"vote": 3.0}, patience_s=60.0)
    once, again = first.asked
    assert once == again
    assert not second.poll(0)


def test_a_subscription_opens_at_one_that_is_there(masters):
    there = masters((1,))
    with client_of(free_address(), there.address) as client:
        assert patiently(lambda: client.subscribe("*")).is_open
    assert not there.asked[0].kept_only


def test_a_durable_subscription_is_looked_for_and_not_begun_anew(masters):
    away, there = free_address(), masters((2,))
    with client_of(away, there.address) as client:
        patiently(client.connected)
        client._masters.connect_s = 1.0
        with pytest.raises(NoReplyError) as error:
            client.subscribe("*", id="lost", durable=True)
        assert str(error.value) == (
            f"no connection to {away}; {there.address} says: it is not kept at this master"
        )
        found = client.subscribe("*", id="moved", durable=True)
        assert found.is_open
        asked = Subscribe(
            "moved", found.subscribe.filter, durable=True, short=found.subscribe.short
        )
        assert found.subscribe == asked
    assert [each.kept_only for each in there.asked] == [True, True]
    for request in there.asked:
        here, other = request.masters
        assert (here.address, other.address) == (there.address, away)
        assert other.round_trip_ms is None


def test_a_client_of_one_master_names_none(masters):
    there = masters((1,))
    with client_of(there.address) as client:
        assert client.subscribe("*", id="only", durable=True).is_open
    assert there.asked[0].masters == ()


def test_the_ways_are_measured_once_in_a_while_and_all_are_told_up_to_a_bound(monkeypatch):
    now, asked = [100.0], []

    def measured(addresses):
        asked.append(list(addresses))
        return {"m1": 0.5 * len(asked)}

    monkeypatch.setattr(masters_module, "round_trips_ms", measured)
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(masters_module, "time", clock)
    made = Masters(dict.fromkeys([f"m{n}" for n in range(20)]))
    assert made.given("m2")[:3] == (GivenMaster("m2"), GivenMaster("m0"), GivenMaster("m1", 0.5))
    assert len(made.given("m2")) == MAX_MASTERS
    now[0] += MEASURED_S
    assert made.given("m1")[0] == GivenMaster("m1", 1.0)
    assert asked == [list(made.keys)] * 2


def test_a_round_trip_is_known_of_those_that_accept_a_connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        others = [
            free_address(), "ipc:///run/p", "tcp://127.0.0.1:70000", "tcp://127.0.0.1", "tcp://:x",
        ]  # fmt: skip
        found = wait_until(lambda: round_trips_ms([there, *others]), len)
    assert list(found) == [there]
    assert found[there] >= 0.0


def test_the_least_of_several_round_trips_counts_and_who_does_not_answer_is_not_asked_again(
    monkeypatch,
):
    asked, ways = [], iter([{"a": 3.0, "b": 1.0}, {"a": 2.0}, {"a": 5.0}])

    def connected(targets, _within_s):
        asked.append(list(targets))
        return next(ways)

    monkeypatch.setattr(round_trips_module, "_target", lambda each: each)
    monkeypatch.setattr(round_trips_module, "_connected_ms", connected)
    assert round_trips_ms(["a", "b", "c"]) == {"a": 2.0, "b": 1.0}
    assert asked == [["a", "b", "c"], ["a", "b"], ["a"]]
