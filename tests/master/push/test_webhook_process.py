"""Webhooks of real masters: each alert arrives, in order and signed, whoever fails or is killed."""

from __future__ import annotations

import itertools
import json
import signal

import pytest

from testkit.agent_process import AgentProcess
from tests.master.push_rig import Node, PushMaster
from tests.master.webhook_receiver import KEYS, Receiver, write_keys


@pytest.fixture
def receive():
    made = []

    def start(*answers, port=None):
        made.append(Receiver(*answers, port=port))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(port, *, filter_="value > 30", keys=KEYS[:1], more=""):
        write_keys(tmp_path / "hook.secret", keys)
        text = (
            f'[[webhook]]\nname = "pager"\nurl = "http://127.0.0.1:{port}/hook?q=1"\n'
            f"filter = '{filter_}'\nsecret = \"hook.secret\"\nlongest_pause_s = 0.1\n{more}"
        )
        started.append(PushMaster(tmp_path, "iad1", overlay=text))
        return started[-1]

    yield begin
    for master in started:
        master.stop(signal.SIGKILL)


def delivered(master, count):
    return master.wait_until(lambda counters: counters["webhook_delivered"] == count)


def test_an_alert_is_posted_signed_and_as_subscribers_get_it(receive, start, context):
    receiver = receive(204)
    master = start(receiver.port, keys=KEYS)
    Node(context, master).tell(7)
    post = receiver.next()
    assert post.path == "/hook?q=1"
    assert post.headers["content-type"] == "application/json"
    assert all(post.is_signed(key) for key in KEYS)
    assert post.id.endswith("_1")
    history = post.message["notification"]["origin"][1]
    assert post.message == {
        "type": "notified",
        "id": "pager",
        "position": 1,
        "notification": {
            "origin": ["iad1", history, 7 * 16],
            "time_ms": 1_007,
            "attributes": {
                "iad": "iad1",
                "kind": "raised",
                "trigger": "hot",
                "metric": "temperature",
                "value": 31.5,
                "area": "b1/f4/r1",
            },
        },
    }
    # A signature may have any letters.
    told = [value for name, value in post.headers.items() if name != "webhook-signature"]
    assert "n1" not in f"{post.body} {told}"
    counters = delivered(master, 1)
    assert counters["webhook_failed"] == 0
    assert counters["notifications_waiting"] == 0


def test_a_receiver_that_fails_and_hangs_gets_all_in_order(receive, start, context):
    receiver = receive(500, 301, None, 404, b"nonsense", 200)
    master = start(receiver.port, more="timeout_s = 5.0\n")
    Node(context, master).tell(1, 2, 3)
    posts = [receiver.next() for _ in range(8)]
    assert [post.message["position"] for post in posts] == [1, 1, 1, 1, 1, 1, 2, 3]
    assert len({post.id for post in posts}) == 3
    assert all(post.is_signed(KEYS[0]) for post in posts)
    counters = delivered(master, 3)
    assert counters["webhook_failed"] == 5
    _, said = master.stop()
    assert [line.partition(": ")[2] for line in said.splitlines()] == [
        "webhook pager: does not deliver, and will try again: 500 Internal Server Error",
        "webhook pager: delivers again",
    ]


def test_what_comes_while_the_receiver_is_down_waits_and_a_kill_loses_nothing(
    receive, start, context
):
    receiver = receive(200)
    port = receiver.port
    master = start(port)
    node = Node(context, master)
    node.tell(1)
    first = receiver.next()
    delivered(master, 1)
    receiver.close()
    node.tell(2)
    master.wait_until(lambda counters: counters["webhook_failed"] > 1)
    node.await_taken(1)
    node.await_taken(2)
    master.stop(signal.SIGKILL)
    master.start()
    Node(context, master).tell(3)
    master.wait_until(lambda counters: counters["notifications_waiting"] >= 2)
    again = receive(200, port=port)
    posts = [again.next(), again.next()]
    if posts[0].id == first.id:  # the cursor has half a second to reach the disk
        posts = [posts[1], again.next()]
    sequences = [post.message["notification"]["origin"][2] // 16 for post in posts]
    assert sequences == [2, 3]
    assert [post.message["position"] for post in posts] == [2, 3]
    master.wait_until(lambda counters: counters["notifications_waiting"] == 0)


def test_killed_while_the_receiver_thinks_it_posts_the_same_again(receive, start, context):
    receiver = receive(None, 200)
    master = start(receiver.port)
    node = Node(context, master)
    node.tell(1)
    first = receiver.next()
    node.await_taken(1)
    master.stop(signal.SIGKILL)
    master.start()
    second = receiver.next()
    assert (second.id, second.body) == (first.id, first.body)
    delivered(master, 1)


def test_thirty_alerts_whoever_is_killed(receive, start, context):
    """The receiver fails every third time, sometimes after it took what came."""
    answers = itertools.cycle([200, 500, 200, b"", 200, 200, 429])
    receiver = receive(lambda: next(answers))
    master = start(receiver.port)
    for turn in range(3):
        node = Node(context, master)
        for number in range(turn * 10 + 1, turn * 10 + 11):
            node.tell(number)
            node.await_taken(number)
        if turn < 2:
            master.stop(signal.SIGKILL)
            master.start()
    master.wait_until(lambda counters: counters["notifications_waiting"] == 0)
    by_id = {}
    while not receiver.posts.empty():
        post = receiver.next()
        assert post.is_signed(KEYS[0])
        assert by_id.setdefault(post.id, post.body) == post.body
    messages = [json.loads(body) for body in by_id.values()]
    assert [message["position"] for message in messages] == list(range(1, 31))
    origins = [message["notification"]["origin"][2] // 16 for message in messages]
    assert origins == list(range(1, 31))


def test_gone_ends_it_with_one_line(receive, start, context):
    receiver = receive(410)
    master = start(receiver.port)
    node = Node(context, master)
    node.tell(1)
    receiver.next()
    master.wait_until(lambda counters: counters["open_subscriptions"] == 0)
    node.tell(2)
    master.wait_until(lambda counters: counters["spooled_settled"] == 2)
    _, said = master.stop()
    assert said.count("\n") == 1
    assert "webhook pager: ended" in said
    assert receiver.posts.empty()


def test_the_master_answers_while_its_receiver_does_not(receive, start, context):
    receiver = receive(None)
    master = start(receiver.port, more="timeout_s = 300.0\n")
    Node(context, master).tell(1)
    receiver.next()
    for _ in range(20):
        assert master.status().counters["webhook_delivered"] == 0
    assert master.stop() == (0, "")


class Unusable(AgentProcess):
    command = PushMaster.command


def test_what_is_wrong_is_said_before_the_master_starts(tmp_path):
    write_keys(tmp_path / "hook.secret").chmod(0o644)
    made = Unusable()
    made.config = tmp_path / "master.toml"
    made.config.write_text(
        '[iad]\nname = "iad1"\n[sockets]\npublic = "ipc:///run/p"\noperator = "ipc:///run/o"\n'
        '[[webhook]]\nname = "w"\nurl = "http://h/"\nfilter = "*"\nsecret = "hook.secret"\n'
    )
    made.start()
    code, said = made.stop(signal.SIGCONT)
    assert code == 2
    assert said.count("\n") == 1
    assert "chmod 600" in said
