"""Frames: shared by all streams, readable by any gzip reader, small for a thousand rooms."""

import random
import zlib

import msgspec

from agent.gateway.feed import frames
from agent.gateway.feed.alert_log import Logged, Loss
from agent.gateway.feed.rooms import Rooms
from tests.gateway.samples import answer, notification, result


def thousand(generator, at_ms):
    return answer(
        *(
            result(
                f"b1/f{n // 100}/r{n:03}",
                at_ms - generator.randrange(1_000),
                temperature=generator.gauss(21.5, 1.0),
                humidity=generator.gauss(40.0, 8.0),
            )
            for n in range(1_000)
        )
    )


def body_of(frame):
    [data] = [line for line in frame.plain.splitlines() if line.startswith(b"data: ")]
    return msgspec.json.decode(data.removeprefix(b"data: "))


def test_a_frame_of_a_thousand_rooms_fits_into_12_kb():
    generator, rooms = random.Random(1), Rooms()
    rooms.apply(thousand(generator, 10_000), 10_000)
    rooms.apply(thousand(generator, 15_000), 15_000)
    frame = frames.event("rooms", frames.changes(rooms, 1, 15_000))
    assert len(frame.packed) <= 12_000
    told = body_of(frame)
    assert (told["dense"], told["rooms"]) == (True, [0, 999])
    assert len(told["channels"]["humidity"]["values"]) == 1_000


def test_any_stream_may_begin_with_any_frame():
    made = [frames.event("rooms", {"n": n, "same": "text " * 20}) for n in range(4)]
    for chosen in ((0, 1, 2, 3), (2, 3), (3, 1, 1)):
        packing = frames.Packing()
        stream = packing.begin + b"".join(packing.add(made[n]) for n in chosen) + packing.end
        plain = b"".join(made[n].plain for n in chosen)
        assert zlib.decompress(stream, wbits=31) == plain
        reader, got = zlib.decompressobj(wbits=31), b""
        got = reader.decompress(packing.begin)
        for n in chosen:
            got += reader.decompress(made[n].packed)
            assert got.endswith(made[n].plain), "each frame can be read as soon as it is there"


def test_changes_are_those_since_a_version_in_columns():
    rooms = Rooms(30_000)
    rooms.apply(answer(*(result(f"r{n}", 0, temperature=20.0) for n in range(5))), 0)
    rooms.apply(answer(result("r1", 900, temperature=21.234), missing=[("r4", "node_down")]), 1_000)
    told = frames.changes(rooms, 1, 2_400)
    assert (told.rooms, told.dense, told.states, told.reasons) == (
        [1, 4], False, "ls", {"4": "node_down"},
    )  # fmt: skip
    columns = told.channels["temperature"]
    assert (columns.values, columns.ages_s, columns.quality) == ([21.23, 20.0], [2, 2], "gg")
    assert frames.changes(rooms, 2, 2_400).rooms == []


def test_a_room_without_a_channel_or_value_says_so():
    rooms = Rooms(30_000)
    rooms.apply(answer(result("r0", temperature=None), result("r1", humidity=0.01234)), 0)
    told = frames.changes(rooms, 0, 0)
    assert (told.channels["temperature"].values, told.channels["temperature"].quality) == (
        [None, None],
        "b-",
    )
    assert (told.channels["humidity"].values, told.channels["humidity"].quality) == (
        [None, 0.0123],
        "-g",
    )


def test_alerts_have_their_position_as_id():
    entries = [Logged(7, 1, notification(3)), Logged(9, 2, loss=Loss("kept no longer", 8, 9))]
    alert, gap = map(frames.alert_frame, entries)
    assert alert.plain.startswith(b"id: 7\nevent: alert\ndata: ")
    assert body_of(alert)["origin"] == ["iad1", "h1", 3]
    assert gap.plain.startswith(b"id: 9\nevent: gap\n")
    assert body_of(gap) == {"message": "kept no longer", "first": 8, "last": 9}


def test_no_text_of_the_fleet_breaks_an_event():
    odd = "line\nevent: alert\r\ndata: {}\n\n\u2028"
    frame = frames.event("source", frames.Source("away", odd))
    assert frame.plain.count(b"\n") == 3
    assert b"\r" not in frame.plain
    assert body_of(frame)["message"] == odd
