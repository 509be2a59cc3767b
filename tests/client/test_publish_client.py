"""Messages to topics: sent until they are taken, each under one number."""

from __future__ import annotations

import threading

import pytest
import zmq

from agent.client import Client, NoReplyError, PublishError, publishing
from agent.client.connection import ConnectionCutError
from agent.wire.codec import Decoder, encode
from agent.wire.messages import Answer, Coverage
from agent.wire.topics import Publish, Published
from agent.wire.unions import PublicRequest


def accepted(asked):
    return Published(asked.id, "accepted", asked.sequence)


@pytest.fixture
def scripted(context):
    """A master that answers each message with what these functions make of it; what came is in
    `scripted.came`."""
    threads = []

    def start(*answers):
        socket = context.socket(zmq.ROUTER)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        decoder = Decoder(PublicRequest)

        def serve():
            for answer in answers:
                identity, request = socket.recv_multipart()
                asked = decoder.decode(request)[0]
                start.came.append(asked)
                for each in answer(asked):
                    socket.send_multipart([identity, encode(each)])

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return f"tcp://127.0.0.1:{port}"

    start.came = []
    yield start
    for thread in threads:
        thread.join()


@pytest.mark.usefixtures("patient_clients")
def test_messages_are_numbered_and_nothing_before_them_comes_again(scripted):
    with Client(scripted(*[lambda asked: [accepted(asked)]] * 2)) as client:
        client.publish("notes", {"vote": 3, "area": "b1", "loud": True})
        client.publish("notes", {"vote": 4})
    first, second = scripted.came
    assert (first.topic, first.attributes) == ("notes", {"vote": 3.0, "area": "b1", "loud": True})
    assert first.id == second.id
    assert [(each.sequence, each.oldest) for each in scripted.came] == [(1, 1), (2, 2)]


def test_what_is_not_answered_is_sent_again_as_the_same_message(scripted, monkeypatch):
    monkeypatch.setattr(publishing, "AGAIN_S", 0.05)
    with Client(scripted(lambda _: [], lambda asked: [accepted(asked)])) as client:
        client.publish("notes", {"vote": 3}, patience_s=60.0)
    assert scripted.came[0] == scripted.came[1]


def test_answers_to_other_messages_are_passed_over(scripted):
    def late(asked):
        return [Published(asked.id, "refused", 99), Published("x", "refused"), accepted(asked)]

    with Client(scripted(late)) as client:
        client.publish("notes", {"vote": 3}, id="mine", sequence=7, patience_s=60.0)
    assert scripted.came == [Publish("mine", "notes", {"vote": 3.0}, 7)]


def test_a_refusal_is_an_error_with_the_master_s_sentence(scripted):
    def refused(asked):
        return [Published(asked.id, "refused", asked.sequence, "try again later")]

    def unknown(asked):
        line = "Invalid value 'publish'"
        return [
            Answer(asked.id, "refused", 0.0, False, Coverage(0, 0), (), (), (), "malformed", line)
        ]

    with Client(scripted(refused, unknown)) as client:
        with pytest.raises(PublishError, match="try again later"):
            client.publish("notes", {"vote": 3}, patience_s=60.0)
        # A master of a version without topics.
        with pytest.raises(PublishError, match="Invalid value 'publish'"):
            client.publish("notes", {"vote": 3}, patience_s=60.0)


@pytest.mark.usefixtures("patient_clients")
def test_a_message_that_is_published_anew_after_an_error_is_the_same_one(scripted):
    """Though it was refused, the master may have it: the disk failed after it was taken in."""

    def refused(asked):
        return [Published(asked.id, "refused", asked.sequence, "try again later")]

    def well(asked):
        return [accepted(asked)]

    with Client(scripted(refused, refused, well, well, refused, well)) as client:
        for vote in (3, 3):
            with pytest.raises(PublishError):
                client.publish("notes", {"vote": vote})
        client.publish("notes", {"vote": 3})
        client.publish("notes", {"vote": 3})
        with pytest.raises(PublishError):
            client.publish("notes", {"vote": 3})
        client.publish("notes", {"vote": True})
    told = [(each.sequence, each.oldest) for each in scripted.came]
    assert told == [(1, 1), (1, 1), (1, 1), (2, 2), (3, 3), (4, 4)]


def test_silence_is_one(scripted, monkeypatch):
    monkeypatch.setattr(publishing, "AGAIN_S", 0.05)
    with (
        Client(scripted(lambda _: [])) as client,
        pytest.raises(NoReplyError, match=r"no reply from \S+ within 0\.2 s"),
    ):
        client.publish("notes", {"vote": 3}, patience_s=0.2)


def test_a_cut_at_the_end_of_the_patience_is_told_as_one():
    class Cut:
        def send_message(self, message):
            pass

        def take(self, timeout_ms, *, until_cut=False):
            raise ConnectionCutError("the connection was cut")

    with pytest.raises(ConnectionCutError, match="was cut"):
        publishing.Publisher(Cut()).publish("notes", {"vote": 3}, None, None, 0.0)


@pytest.mark.parametrize(
    ("topic", "attributes", "options", "says"),
    [
        ("notes", {"Vote": 3}, {}, "'Vote' is no name of an attribute"),
        ("notes", {"vote": None}, {}, "no message for a topic: Expected"),
        ("notes", {"vote": float("nan")}, {}, "no message for a topic"),
        ("notes", {}, {}, "no message for a topic"),
        ("a b", {"vote": 3}, {}, "no message for a topic"),
        ("notes", {"vote": 3}, {"id": "mine"}, "id and sequence go together"),
    ],
)
def test_what_is_no_message_is_not_sent(topic, attributes, options, says):
    with Client("tcp://127.0.0.1:1") as client, pytest.raises(ValueError, match=says):
        client.publish(topic, attributes, **options)


def test_what_cannot_be_written_does_not_stay_in_the_way_of_the_next_message(scripted):
    with Client(scripted(lambda asked: [accepted(asked)])) as client:
        with pytest.raises(ValueError, match=r"no message for a topic: .*surrogates"):
            client.publish("notes", {"name": "\ud800"})
        client.publish("notes", {"vote": 3})
    assert [each.attributes for each in scripted.came] == [{"vote": 3.0}]
