"""Snapshots of thousands of rooms: made off the gateway's loop, once for all who open a stream."""

import asyncio
import json
import threading

import pytest

from agent.gateway.feed import frames
from agent.gateway.feed.hub import Hub
from agent.gateway.feed.raised_table import RaisedTable
from agent.gateway.feed.rooms import Rooms
from agent.wire.messages import Slo
from tests.gateway.samples import answer, result

READERS = 20


class Log:
    """The part of the log of alerts that a snapshot shows."""

    newest = 0
    triggers = RaisedTable()


@pytest.fixture
def hub():
    made = Hub(Rooms(), Log(), every_s=5.0, slo=Slo(0.9, 1_000), now_ms=lambda: 2_000)
    made.took(
        "default", answer(*[result(f"b1/r{number}", temperature=20.0) for number in range(8)])
    )
    return made


@pytest.fixture
def encoded(monkeypatch):
    """The threads that encoded a room, an entry for each."""
    threads, room_item = [], frames.room_item

    def counted(room, sparks):
        threads.append(threading.get_ident())
        return room_item(room, sparks)

    monkeypatch.setattr(frames, "room_item", counted)
    return threads


def rooms_of(shown):
    return json.loads(shown.frame.plain.split(b"data: ")[1])["rooms"]


def test_many_who_come_together_get_one_snapshot_made_off_the_loop(hub, encoded):
    async def come():
        return await asyncio.gather(*[hub.snapshot() for _ in range(READERS)])

    found = asyncio.run(come())
    assert len(encoded) == len(rooms_of(found[0])) == 8
    assert threading.get_ident() not in encoded
    assert all(each.frame is found[0].frame for each in found)


def test_who_comes_while_one_is_made_gets_it_and_what_changed_since(hub, encoded, monkeypatch):
    may_go_on, counted = threading.Event(), frames.room_item

    def held(room, sparks):
        assert may_go_on.wait(30)
        return counted(room, sparks)

    monkeypatch.setattr(frames, "room_item", held)

    async def come():
        first = asyncio.ensure_future(hub.snapshot())
        await asyncio.sleep(0)
        hub.took("default", answer(result("b1/r3", temperature=30.0)))
        second = asyncio.ensure_future(hub.snapshot())
        await asyncio.sleep(0)
        first.cancel()  # it does not take it from the second
        may_go_on.set()
        shared = await second
        since = json.loads(hub.changes_frame(shared.version).plain.split(b"data: ")[1])
        newer = await hub.snapshot()
        return shared, since, newer

    shared, since, newer = asyncio.run(come())
    assert len(encoded) == 16
    assert (since["rooms"], since["channels"]["temperature"]["values"]) == ([3], [30.0])
    assert rooms_of(shared)[3] != rooms_of(newer)[3]
    assert newer.version == hub.rooms.version > shared.version


def test_a_new_room_or_source_is_not_answered_by_an_earlier_snapshot(hub):
    async def come():
        before = asyncio.ensure_future(hub.snapshot())
        await asyncio.sleep(0)
        hub.took("default", answer(result("b1/new", temperature=1.0)))
        return await before, await hub.snapshot()

    before, after = asyncio.run(come())
    assert (len(rooms_of(before)), len(rooms_of(after))) == (8, 9)
    assert before.shape != after.shape


def test_all_rooms_in_json_are_encoded_once_a_version(hub):
    async def ask():
        return [bytes(each) for each in await asyncio.gather(hub.rooms_json(), hub.rooms_json())]

    first, second = asyncio.run(ask())
    assert first == second
    assert [room["area"] for room in json.loads(first)] == [f"b1/r{n}" for n in range(8)]
    hub.took("default", answer(result("b1/r0", temperature=31.0)))
    changed = json.loads(asyncio.run(ask())[0])
    assert changed[0]["channels"]["temperature"]["value"] == 31.0


def test_one_that_failed_is_made_again(hub, monkeypatch):
    def broken(room, sparks):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(frames, "room_item", broken)
        with pytest.raises(MemoryError):
            asyncio.run(hub.snapshot())
    assert len(rooms_of(asyncio.run(hub.snapshot()))) == 8


@pytest.mark.parametrize("by_ms", [864_000_000, -10_800_000])
def test_a_wall_clock_that_is_set_makes_no_room_stale(by_ms):
    now_ms, now_s = [1_800_000_000_000], [100.0]
    clocks = {"now_ms": lambda: now_ms[0], "clock": lambda: now_s[0]}
    hub = Hub(Rooms(30_000.0), Log(), every_s=5.0, slo=Slo(0.9, 1_000), **clocks)

    async def set_it():
        end = hub.look()
        hub.took("default", answer(result("b1/r1", temperature=20.0)))
        now_ms[0] += by_ms
        hub._tick()
        states = [each.state for each in hub.all_rooms()]
        now_s[0] += 30.0
        hub._tick()
        end()
        hub.close()
        return states + [each.state for each in hub.all_rooms()]

    assert asyncio.run(set_it()) == ["live", "stale"]
