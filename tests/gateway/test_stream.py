"""Streams: a snapshot first, every alert once over any restart, bounded for slow readers, and one
watch of the fleet for all of them."""

import asyncio
import json
import math
import sqlite3
import threading

import pytest

from agent.gateway import tokens
from agent.gateway.feed import alert_feed
from agent.gateway.http import stream
from testkit.waiting import wait_until
from tests.gateway.conftest import Reader, ask
from tests.gateway.fake import FakeFleet, FakeGateway
from tests.gateway.samples import answer, result

EDGE = {"console": {"every_s": 3_600.0}}


@pytest.fixture
def fleet():
    """A fleet that makes a round of a watch when it is told to."""
    made = FakeFleet(3)
    made.every_s = math.inf
    return made


@pytest.fixture
def started(tmp_path, fleet):
    with FakeGateway(tmp_path, fleet) as made:
        made.viewer = made.token("viewer")
        yield made


def numbers(events):
    return [event.data["origin"][2] for event in events if event.name == "alert"]


def test_a_stream_begins_with_all_and_goes_on_with_what_changes(started, fleet):
    with Reader(started, started.viewer) as events:
        assert events.response.getheader("X-Accel-Buffering") == "no", "a proxy would keep it"
        assert events.response.getheader("Cache-Control") == "no-store"
        first = events.until("snapshot", lambda told: told["source"]["state"] == "up")
        rooms = first.data["rooms"]
        assert [room["name"] for room in rooms] == ["Meeting 1.00", "Meeting 1.01", "Meeting 1.02"]
        assert len(rooms[0]["channels"]["temperature"]["spark"]) == 1
        fleet.down.add("b1/f1/r001")
        fleet.rounds.put(None)
        # What is asked beside the rounds may tell that the room is down before the round does.
        told = events.until("rooms", lambda told: told["rooms"] != [1]).data
        assert (told["rooms"], told["dense"], told["states"]) == ([0, 2], True, "lsl")
        assert told["reasons"] == {"1": "node_down"}
        assert len(told["channels"]["humidity"]["values"]) == 3
        fleet.raise_alert("b1/f1/r002")
        alert = events.until("alert")
        assert (alert.data["attributes"]["area"], alert.id) == ("b1/f1/r002", "1")
        raised = events.until("raised").data["raised"]
        assert [each["area"] for each in raised] == ["b1/f1/r002"]


@pytest.mark.parametrize("every_s", [3_600.0, 0.05])
def test_what_is_raised_follows_a_burst_of_alerts_once(started, fleet, monkeypatch, every_s):
    monkeypatch.setattr(stream, "ALERTS_AT_ONCE", 1)
    monkeypatch.setattr(stream, "RAISED_EVERY_S", every_s)
    with Reader(started, started.viewer) as events:
        events.until("snapshot", lambda told: told["source"]["state"] == "up")
        for number in range(20):
            fleet.raise_alert("b1/f1/r002", trigger=f"t{number}")
        if every_s < 1.0:
            last = events.until("raised", lambda told: len(told["raised"]) == 20)
            assert last.name == "raised", "what is raised after the last alert comes, too"
            return
        names = [events.until("alert").name]
        while names.count("alert") < 20:
            names.append(next(events).name)
        assert names.count("raised") == 1


def test_a_compressed_stream_is_the_same(started, fleet):
    with Reader(started, started.viewer, Accept_Encoding="gzip") as events:
        assert events.unpack is not None
        events.until("snapshot", lambda told: len(told["rooms"]) == 3)
        fleet.raise_alert("b1/f1/r000")
        assert events.until("alert").id == "1"
        started.stop()
        while events._more():
            pass
        assert events.unpack.eof, "it ends as a gzip file does, with the right sums"


def test_every_alert_comes_once_over_restarts_of_the_gateway(tmp_path, fleet):
    got, last_id = [], None
    for life in range(4):
        with FakeGateway(tmp_path, fleet) as made:
            token = made.token("viewer", f"life{life}")
            headers = {} if last_id is None else {"Last_Event_ID": last_id}
            fleet.raise_alert("b1/f1/r000")  # before it is read
            if life == 0:
                wait_until(lambda made=made: made.gateway.alerts.newest, lambda n: n == 1)
            with Reader(made, token, **headers) as events:
                first = events.until("snapshot")
                last_id = first.id if last_id is None else last_id
                fleet.raise_alert("b1/f1/r001")
                wanted = 2 * (life + 1)
                for event in events:
                    last_id = event.id
                    if event.name == "alert":
                        got.append(event.data["origin"][2])
                        if got[-1] == wanted:
                            break
    # The first was there before the first snapshot, which has it as raised.
    assert got == list(range(2, 9))


def test_the_snapshots_id_resumes_a_reader_that_saw_no_alert(tmp_path, fleet):
    with FakeGateway(tmp_path, fleet) as made:
        fleet.raise_alert("b1/f1/r000")
        wait_until(lambda: made.gateway.alerts.newest, lambda newest: newest == 1)
        with Reader(made, made.token("viewer")) as events:
            events.until("snapshot", lambda told: told["source"]["state"] == "up")
            fleet.rounds.put(None)
            assert events.until("rooms").id == "1"
    fleet.raise_alert("b1/f1/r001")
    with (
        FakeGateway(tmp_path, fleet) as made,
        Reader(made, made.token("viewer", "again"), Last_Event_ID="1") as events,
    ):
        assert numbers([events.until("alert")]) == [2]


def test_what_was_lost_is_told_at_its_place(tmp_path, fleet):
    fleet.alerts += [None, None]
    with FakeGateway(tmp_path, fleet, alerts={"most": 5}) as made:
        viewer = made.token("viewer")
        with Reader(made, viewer, Last_Event_ID="0") as events:
            assert "more than the master keeps" in events.until("gap").data["message"]
        for _ in range(100):
            fleet.raise_alert("b1/f1/r000")
        wait_until(lambda: made.gateway.alerts.newest, lambda newest: newest == 102)
        with Reader(made, viewer, Last_Event_ID="3") as events:
            gap = events.until("gap").data
            assert (gap["first"], gap["message"]) == (4, "kept no longer")
            assert events.until("alert").id == str(gap["last"] + 1)
        with Reader(made, viewer, Last_Event_ID="999999") as events:
            assert "another one" in events.until("gap").data["message"]


@pytest.mark.parametrize("last_id", ["", "-1", "x", "1.5", "9" * 30, "\xb2"])
def test_an_id_that_is_none_begins_at_the_end(started, last_id):
    with Reader(started, started.viewer, Last_Event_ID=last_id) as events:
        assert events.response.status == 200
        assert events.until("snapshot")


def test_one_watch_serves_all_and_none_is_open_when_nobody_looks(started, fleet):
    assert (fleet.watched, ask(started, "/healthz").status) == (0, 200)
    readers = [Reader(started, started.viewer) for _ in range(8)]
    for events in readers:
        events.until("snapshot", lambda told: told["source"]["state"] == "up")
    wait_until(lambda: fleet.watches, lambda open_: open_ == 1)
    fleet.rounds.put(None)
    for events in readers:
        assert events.until("rooms").data["dense"]
    assert (fleet.watches, fleet.watched) == (1, 1)
    assert len(fleet.queries) == 1, "the first answer is for all of them, too"
    for events in readers[1:]:
        events.__exit__()
    wait_until(started.gateway.streams.total, lambda streams: streams == 1)
    assert fleet.watches == 1
    readers[0].__exit__()
    wait_until(lambda: fleet.watches, lambda open_: open_ == 0)
    wait_until(lambda: started.gateway.hub.source.state, lambda state: state == "idle")


def test_a_room_that_is_gone_leaves_the_page(started, fleet, monkeypatch):
    monkeypatch.setattr("agent.gateway.feed.watching.ABOUT_EVERY_S", 0.01)
    monkeypatch.setattr("agent.gateway.feed.rooms.GONE_MS", 0)
    with Reader(started, started.viewer) as events:
        events.until("snapshot", lambda told: len(told["rooms"]) == 3)
        del fleet.areas["b1/f1/r001"]
        rooms = events.until("snapshot", lambda told: len(told["rooms"]) == 2).data["rooms"]
        assert [room["area"] for room in rooms] == ["b1/f1/r000", "b1/f1/r002"]
        shown = ask(started, "/api/v1/areas", token=started.viewer).json["areas"]
        assert [each["area"] for each in shown] == ["b1/f1/r000", "b1/f1/r002"]


def test_a_master_that_goes_and_comes_back_is_a_state(started, fleet, monkeypatch):
    monkeypatch.setattr("agent.gateway.feed.watching.MAX_PAUSE_S", 0.02)
    monkeypatch.setattr("agent.gateway.feed.alert_feed.MAX_PAUSE_S", 0.02)
    with Reader(started, started.viewer) as events:
        events.until("snapshot", lambda told: told["source"]["state"] == "up")
        fleet.is_away = True
        away = events.until("source", lambda told: told["state"] == "away").data
        assert "no word from the master" in away["message"] or "no reply" in away["message"]
        shown = ask(started, "/api/v1/now", token=started.viewer)
        assert (shown.status, shown.json["source"]["state"]) == (200, "away")
        assert len(shown.json["rooms"]) == 3
        started.asker = started.token("asker")
        body = {"areas": ["b1"], "window": {"last_s": 1}, "slo": {"percentile": 9, "latency_ms": 9}}
        got = ask(started, "/api/v1/query", "POST", token=started.asker, body=body)
        assert (got.status, got.reason) == (504, "no_reply")
        fleet.is_away = False
        events.until("source", lambda told: told["state"] == "up")
        fleet.raise_alert("b1/f1/r001")
        assert events.until("alert")
    assert started.said == []


def test_a_revoked_token_ends_its_streams(started, monkeypatch):
    monkeypatch.setattr(stream, "KEEP_ALIVE_S", 0.01)
    guest = started.token("viewer", "guest")
    with Reader(started, guest) as events, Reader(started, started.viewer) as other:
        events.until("snapshot")
        tokens.revoke_token(started.access, "guest")
        list(events)
        assert events.response.isclosed(), "it ended, and was not cut"
        assert other.until("snapshot")
        wait_until(started.gateway.streams.total, lambda streams: streams == 1)


def test_a_revoked_token_ends_a_stream_that_is_never_quiet(started, monkeypatch):
    monkeypatch.setattr(stream, "KEEP_ALIVE_S", 0.0)
    guest = started.token("viewer", "guest")
    caller = started.gateway.access.find(guest)
    tokens.revoke_token(started.access, "guest")

    async def run():
        hub, sent, goes = started.gateway.hub, [], asyncio.Event()
        hub.watcher = None  # rounds are the test's own

        async def send(message):
            sent.append(message)
            hub.rooms.apply(answer(result("r1", temperature=len(sent))), len(sent))
            if len(sent) > 500:
                goes.set()
            await asyncio.sleep(0)

        async def receive():
            await goes.wait()
            return {"type": "http.disconnect"}

        made = stream._Stream(started.gateway, caller, 0, takes_gzip=False)
        await made.serve({}, receive, send)
        return sent

    sent = asyncio.run_coroutine_threadsafe(run(), started.loop).result()
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert len(sent) < 10


def test_there_are_only_so_many_streams(tmp_path, fleet):
    with FakeGateway(tmp_path, fleet, access={"most_streams": 1}) as made:
        token = made.token("viewer")
        with Reader(made, token) as events:
            events.until("snapshot")
            got = ask(made, "/api/v1/stream", token=token)
            assert (got.status, got.reason) == (503, "busy")
        wait_until(made.gateway.streams.total, lambda streams: streams == 0)
        with Reader(made, token) as events:
            assert events.until("snapshot")


def test_a_token_has_only_so_many_of_them(tmp_path, fleet):
    with FakeGateway(tmp_path, fleet, access={"most_streams_each": 1}) as made:
        token, other = made.token("viewer"), made.token("viewer", "other")
        with Reader(made, token) as events:
            events.until("snapshot")
            got = ask(made, "/api/v1/stream", token=token)
            assert (got.status, got.reason) == (429, "over_rate")
            with Reader(made, other) as more:
                assert more.until("snapshot")
        wait_until(lambda: made.gateway.streams, lambda streams: not streams)
        with Reader(made, token) as events:
            assert events.until("snapshot")


def test_the_gateway_ends_though_streams_are_open_and_one_is_not_read(started, fleet):
    unread = Reader(started, started.viewer)
    with Reader(started, started.viewer) as events:
        events.until("snapshot")
        started.stop()
        rest = list(events)
        assert events.response.isclosed(), "it ended, and was not cut"
        assert [event.name for event in rest if event.name == "alert"] == []
    unread.__exit__()


# --- a slow reader -------------------------------------------------------------------------------


class SlowReader:
    """The far end of a stream, which takes a part only when it is let."""

    def __init__(self):
        self.parts = []
        self.may = asyncio.Semaphore(0)
        self.goes = asyncio.Event()

    async def send(self, message):
        await self.may.acquire()
        self.parts.append(message)

    async def receive(self):
        await self.goes.wait()
        return {"type": "http.disconnect"}

    def events(self):
        text = b"".join(part.get("body", b"") for part in self.parts).decode()
        blocks = [block.split("\n") for block in text.split("\n\n")]
        return [
            (lines[-2].removeprefix("event: "), json.loads(lines[-1].removeprefix("data: ")))
            for lines in blocks
            if lines[-1].startswith("data: ")
        ]


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_slow_reader_gets_the_newest_of_each_area_and_every_alert(tmp_path, started, fleet):
    async def run():
        hub, log = started.gateway.hub, started.gateway.alerts
        hub.watcher = None  # rounds are the test's own
        hub.rooms.apply(answer(result("r1", temperature=0), result("r2", temperature=0)), 1)
        reader = SlowReader()
        caller = started.gateway.access.find(started.viewer)
        made = stream._Stream(started.gateway, caller, log.newest, takes_gzip=False)
        serving = asyncio.ensure_future(made.serve({}, reader.receive, reader.send))
        reader.may.release()
        reader.may.release()
        await settle()
        for value in range(1, 500):
            room = "r1" if value % 5 else "r2"
            hub.rooms.apply(answer(result(room, temperature=value)), value)
            hub._wake()
            if value % 100 == 0:
                log.append(fleet.alerts[0])
            await settle()
        assert len(reader.parts) == 2, "it took nothing meanwhile"
        assert len(hub._changes) <= 2, "and nothing is kept for it"
        for _ in range(6):
            reader.may.release()
            await settle()
        reader.goes.set()
        reader.may.release()
        await asyncio.wait_for(serving, 60)
        return reader.events()

    fleet.raise_alert("r1")
    wait_until(lambda: started.gateway.alerts.newest, lambda newest: newest == 1)
    events = started.in_loop(lambda: asyncio.ensure_future(run()))

    async def result_of():
        return await events

    got = asyncio.run_coroutine_threadsafe(result_of(), started.loop).result()
    rooms = [data for name, data in got if name == "rooms"]
    assert len(rooms) <= 3
    newest = {}
    for data in rooms:
        places = data["rooms"]
        if data["dense"]:
            places = range(places[0], places[1] + 1)
        newest.update(zip(places, data["channels"]["temperature"]["values"], strict=True))
    assert 499 in newest.values()
    assert 495 in newest.values()
    assert [data["position"] for name, data in got if name == "alert"] == [2, 3, 4, 5]


# --- the disk ------------------------------------------------------------------------------------


def test_a_full_disk_is_one_line_and_nothing_is_acknowledged(started, fleet, monkeypatch):
    monkeypatch.setattr(alert_feed, "DISK_AGAIN_S", 0.01)
    log = started.gateway.alerts
    fleet.raise_alert("b1/f1/r000")
    wait_until(lambda: fleet.acknowledged, lambda position: position == 1)
    (pages,) = log._file.execute("PRAGMA page_count").fetchone()
    with log._lock:
        log._file.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(300):
        fleet.raise_alert("b1/" + "r" * 60 + "/r000")
    [line] = wait_until(lambda: started.said)
    assert "they wait at the master" in line
    assert "full" in line
    reached = log.newest
    assert reached < 300
    assert fleet.acknowledged <= reached
    assert started.gateway.feed.state.state == "away"
    with Reader(started, started.viewer, Last_Event_ID=str(reached - 1)) as events:
        assert events.until("alert").id == str(reached)
        why = "alerts cannot be logged: database or disk is full"
        assert ask(started, "/api/v1/now", token=started.viewer).json["source"]["alerts"] == why
        with Reader(started, started.viewer) as later:
            later.until("snapshot", lambda told: told["source"].get("alerts") == why)
        with log._lock:
            log._file.execute("PRAGMA max_page_count = 1000000")
        events.until("source", lambda told: "alerts" not in told)
        assert events.until("alert").id == str(reached + 1)
    wait_until(lambda: log.newest, lambda newest: newest == 301)
    entries = log.read(0, 200)
    entries += log.read(200, 200)
    assert [entry.notification.origin.sequence for entry in entries] == list(range(1, 302))
    assert len(started.said) == 2, "one line when it fails, one when it is well again"


def test_alerts_come_again_after_the_log_could_not_be_read(started, fleet, monkeypatch):
    monkeypatch.setattr("agent.gateway.feed.alert_feed.MAX_PAUSE_S", 0.02)
    log, is_damaged = started.gateway.alerts, threading.Event()
    place = log._file.execute

    class File:
        """The log's file, of which a device gives nothing for a while."""

        def execute(self, *words):
            if is_damaged.is_set() and words[0].startswith("SELECT filter"):
                raise sqlite3.OperationalError("disk I/O error")
            return place(*words)

        def __getattr__(self, name):
            return getattr(file, name)

    file = log._file
    wait_until(lambda: started.gateway.feed.state.state, lambda state: state == "up")
    monkeypatch.setattr(log, "_file", File())
    is_damaged.set()
    fleet.is_away = True
    with fleet.more:
        fleet.more.notify_all()
    wait_until(lambda: started.gateway.feed.state.message, lambda why: "no word" in why)
    fleet.is_away = False
    wait_until(lambda: started.gateway.feed.state.message, lambda why: "disk I/O error" in why)
    is_damaged.clear()
    wait_until(lambda: started.gateway.feed.state.state, lambda state: state == "up")


def test_a_gateway_that_ends_while_the_disk_is_full_acknowledges_nothing(tmp_path, fleet):
    with FakeGateway(tmp_path, fleet) as made:
        log = made.gateway.alerts
        with log._lock:
            log._file.execute("PRAGMA query_only = 1")
        fleet.raise_alert("b1/f1/r000")
        wait_until(lambda: made.said)
    assert fleet.acknowledged == 0
    with FakeGateway(tmp_path, fleet) as made:
        wait_until(lambda: made.gateway.alerts.newest, lambda newest: newest == 1)
    assert fleet.acknowledged == 1
