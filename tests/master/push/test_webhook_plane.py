"""The glue of inboxes, webhooks and their threads, with posters in the test's hands."""

from __future__ import annotations

import json
import ssl

import pytest

from agent.alerts.limits import Limits
from agent.alerts.webhook import SUBSCRIBE_AGAIN_S
from agent.master.push.webhook_plane import WebhookPlane
from agent.master.push.webhooks import Hook
from agent.master.storage.group_commit import RETRY_S
from agent.runtime.retrying import Answered
from agent.wire.webhook_config import MasterWebhook
from tests.alerts.samples import FILTER
from tests.master.push_plane_rig import FullDisk, Rig
from tests.master.webhook_receiver import KEYS

OK = Answered(200, "200 OK")
DOWN = Answered(0, "nobody there")
WINDOW = Limits().window


class HandThread:
    """What it is told to post waits in `requests`."""

    fileno = object()

    def __init__(self, _name):
        self.requests = []

    def submit(self, job, then):
        [request] = job.args
        self.requests.append(request)
        self.then = then

    def turn(self):
        pass

    def close(self, _within_s):
        pass


class WebhookRig(Rig):
    webhooks = None

    def start(self):
        self.close()
        super().start()
        config = MasterWebhook(name="pager", url="http://h/", filter="*", secret="s")
        hook = Hook(config, FILTER, KEYS[:1], ssl.create_default_context)
        reactor = self.plane._reactor
        self.webhooks = WebhookPlane(
            reactor, [hook], self.plane, lambda: 1_795_352_645.9, self.said.append
        )
        self.thread = self.webhooks._parts["pager"].thread

    def close(self):
        if self.webhooks is not None:
            self.webhooks.close()

    def let_pass(self, seconds=0.0):
        self.now += seconds
        parts = (self.plane, self.webhooks)
        while due := [p for p in parts if p.next_due is not None and p.next_due <= self.now]:
            for part in due:
                part.tick(self.now)

    def answer(self, answered=OK):
        """The next request, which is answered so."""
        request = self.thread.requests.pop(0)
        assert not self.thread.requests
        self.thread.then(answered)
        self.let_pass()
        return request.headers["webhook-id"].partition("_")[2], json.loads(request.body)

    @property
    def id(self):
        return self.webhooks._parts["pager"].machine._id


@pytest.fixture
def rig(monkeypatch):
    monkeypatch.setattr("agent.master.push.webhook_plane.DiskWriterThread", HandThread)
    made = WebhookRig()
    made.let_pass()
    yield made
    made.close()


def test_what_is_posted_is_on_disk_before(rig):
    rig.alert(1)
    assert not rig.thread.requests
    rig.let_pass()
    [request] = rig.thread.requests
    assert request.headers["webhook-timestamp"] == "1795352645"
    assert rig.disk.positions
    number, body = rig.answer()
    assert (number, body["id"], body["position"]) == ("1", "pager", 1)
    assert rig.plane.counters["notifications_waiting"] == 0
    assert rig.webhooks.counters["webhook_delivered"] == 1


def test_the_next_start_goes_on_with_the_same_ids(rig):
    rig.alert(1, 2)
    rig.let_pass()
    rig.answer()
    rig.let_pass(1.0)
    before = rig.id
    rig.start()
    rig.let_pass()
    assert rig.id == before
    assert rig.answer()[0] == "2"


def test_what_is_lost_with_the_disk_never_shares_an_id_with_what_comes_after(rig):
    before = rig.id
    rig.disk = FullDisk()
    rig.start()
    assert rig.id != before


def test_it_subscribes_when_the_disk_takes_it(rig):
    rig.disk = FullDisk()
    rig.disk.full = True
    rig.start()
    rig.let_pass()
    rig.let_pass(SUBSCRIBE_AGAIN_S)
    assert rig.said[-1].startswith("webhook pager: no subscription yet: this master's disk")
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    rig.let_pass(SUBSCRIBE_AGAIN_S)
    rig.alert(1)
    rig.let_pass()
    assert rig.answer()[0] == "1"


def test_an_answer_that_comes_while_the_disk_refuses_counts(rig):
    rig.alert(1, 2)
    rig.let_pass()
    rig.disk.full = True
    rig.alert(3)
    rig.let_pass()
    assert rig.answer()[0] == "1"
    assert rig.answer()[0] == "2"
    rig.disk.full = False
    rig.let_pass(RETRY_S)
    assert rig.answer()[0] == "3"
    assert rig.plane.counters["notifications_waiting"] == 0


def test_of_what_there_is_no_room_for_a_gap_is_posted(rig):
    rig.alert(1)
    rig.let_pass()
    rig.answer(DOWN)
    count = WINDOW + Limits().most + 7
    for number in range(2, count + 1):
        rig.alert(number)
    rig.let_pass()
    rig.let_pass(2.0)
    posted = [rig.answer() for _ in range(WINDOW + 1)]
    assert [number for number, _ in posted[:-1]] == [str(n) for n in range(1, WINDOW + 1)]
    number, gap = posted[-1]
    assert number == f"{WINDOW + 1}_{WINDOW + 7}"
    assert gap == {
        "type": "gap",
        "id": "pager",
        "first": WINDOW + 1,
        "last": WINDOW + 7,
    }
    assert rig.answer()[0] == str(WINDOW + 8)


def test_a_lease_is_renewed_while_the_receiver_is_down(rig):
    rig.alert(1)
    rig.let_pass()
    for _ in range(20):
        rig.answer(DOWN)
        for _ in range(30):
            rig.let_pass(10.0)
    assert rig.webhooks.up == {"pager": False}
    assert [line for line in rig.said if "webhook" in line] == [
        "webhook pager: does not deliver, and will try again: nobody there\n"
    ]
    assert rig.answer()[0] == "1"
    assert rig.webhooks.up == {"pager": True}


def test_what_is_answered_after_the_end_is_posted_again_at_the_next_start(rig):
    rig.alert(1)
    rig.let_pass()
    before = rig.thread
    rig.start()
    before.then(OK)
    rig.let_pass()
    assert len(before.requests) == len(rig.thread.requests) == 1
