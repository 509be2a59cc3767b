"""Rooms show the newest values, say when they are old, and tell what changed since a version."""

from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.feed import rooms as module
from agent.gateway.feed.rooms import GONE_MS, SPARK, AreaFacts, Reading, Room, Rooms
from agent.wire.areas import with_parents
from tests.gateway.samples import answer, channel, result

STALE_MS = 30_000


def test_a_room_shows_the_newest_value_with_its_unit_and_time():
    rooms = Rooms(STALE_MS)
    changed = rooms.apply(answer(result("b1/r1", 900, temperature=21.25)), 1_000)
    reading = Reading(21.25, 900, "good", "°C")
    assert changed == [Room("b1/r1", "", "live", "", {"temperature": reading})]
    assert rooms.version == 1
    assert rooms.since(0) == [(0, changed[0])]
    assert rooms.since(1) == []


def test_bad_and_suspect_values_are_marked():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("r", temperature=None, humidity=channel(40.0, suspect=1))), 1_000)
    room = rooms.get("r")
    assert (room.channels["temperature"].value, room.channels["temperature"].quality) == (
        None,
        "bad",
    )
    assert (room.channels["humidity"].value, room.channels["humidity"].quality) == (40.0, "suspect")
    assert room.state == "live"


def test_what_does_not_come_any_more_is_stale_and_keeps_its_values():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("r", temperature=20.0)), 1_000)
    assert rooms.tick(1_000 + STALE_MS - 1) == []
    [room] = rooms.tick(1_000 + STALE_MS)
    assert (room.state, room.reason) == ("stale", module.SILENT)
    assert room.channels["temperature"].value == 20.0
    assert rooms.tick(1_000 + STALE_MS) == [], "it is told once"
    [room] = rooms.apply(answer(result("r", temperature=20.0)), 99_000)
    assert room.state == "live"


def test_rooms_of_a_master_that_is_lost_are_stale_at_once_until_it_answers():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("r", temperature=20.0)), 1_000)
    [room] = rooms.lose(1_001)
    assert (room.state, room.reason) == ("stale", module.LOST)
    assert rooms.lose(1_002) == []
    [room] = rooms.tick(1_000 + STALE_MS)
    assert (room.state, room.reason) == ("stale", module.SILENT)
    [room] = rooms.apply(answer(result("r", temperature=20.0)), 99_000)
    assert room.state == "live"


def test_what_nobody_asked_for_is_not_late():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("r", temperature=20.0)), 1_000)
    rooms.ask(3_600_000)
    assert rooms.tick(3_600_000 + STALE_MS - 1) == []
    [room] = rooms.tick(3_600_000 + STALE_MS)
    assert (room.state, room.reason) == ("stale", module.SILENT)


def test_an_area_without_an_answer_is_stale_at_once_with_the_reason():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("b1/r1", temperature=20.0), result("b1/r2", temperature=20.0)), 1_000)
    [room] = rooms.apply(
        answer(result("b1/r2", temperature=20.0), missing=[("b1/r1", "node_down")]), 1_500
    )
    assert (room.area, room.state, room.reason) == ("b1/r1", "stale", "node_down")
    assert rooms.gaps == {}


def test_a_gap_above_rooms_concerns_all_of_them_and_another_stands_for_itself():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("b1/r1", temperature=20.0)), 1_000)
    gone = answer(missing=[("b1", "iad_unreachable"), ("b2", "no_node")])
    assert [room.state for room in rooms.apply(gone, 2_000)] == ["stale"]
    assert rooms.gaps == {"b2": "no_node"}
    version = rooms.version
    assert rooms.apply(answer(result("b2/r1", temperature=1.0)), 3_000)
    assert rooms.gaps == {}
    assert rooms.version == version + 1


def test_a_gap_that_comes_or_goes_is_a_change_though_no_room_changes():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(missing=[("b2", "no_node")]), 1_000)
    assert rooms.version == 1
    rooms.apply(answer(missing=[("b2", "no_node")]), 2_000)
    assert rooms.version == 1


def test_what_a_service_lacked_is_no_gap_once_it_is_not_asked_any_more():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("b1/r1", humidity=40.0), result("b1/r2", humidity=40.0)), 0, "old")
    rooms.apply(answer(missing=[("b9", "no_node"), ("b1/r1", "node_down")]), 1_000, "old")
    rooms.apply(answer(result("b1/r1", temperature=20.0)), 1_000, "new")
    version = rooms.version
    assert rooms.asks(["old", "new"], 2_000) == []
    assert (rooms.gaps, rooms.version) == ({"b9": "no_node"}, version)
    [other] = rooms.asks(["new"], 2_000)
    assert (rooms.gaps, rooms.version) == ({}, version + 1), "who follows is told"
    assert (other.area, other.state, other.reason) == ("b1/r2", "stale", module.SILENT)
    assert other.channels["humidity"].value == 40.0, "it was heard once"
    [room] = rooms.apply(answer(missing=[("b1/r1", "timeout")]), 3_000, "new")
    assert (room.area, room.reason) == ("b1/r1", "timeout")


def test_services_that_come_and_go_leave_nothing_behind():
    rooms = Rooms(STALE_MS)
    for number in range(100):
        rooms.asks([f"s{number}"], number)
        rooms.apply(
            answer(result("r", humidity=40.0), missing=[("b9", "no_node")]), number, f"s{number}"
        )
        rooms.apply(answer(missing=[("r", "no_data")]), number, f"s{number}")
    [kept] = rooms._kept.values()
    assert (len(kept.heard_ms), len(kept.lacks), len(rooms._gaps_of)) == (2, 1, 1)


def test_very_many_gaps_are_told_by_their_number(monkeypatch):
    monkeypatch.setattr(module, "MAX_GAPS", 3)
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(missing=[(f"b{number}", "no_node") for number in range(10)]), 0)
    assert list(rooms.gaps) == ["b0", "b1", "b2"]
    assert rooms.gaps["b2"] == module.NOT_NAMED.format(why="no_node", count=7)


def test_gaps_are_not_compared_with_each_room(monkeypatch):
    """Another IAD may send 65,536 of them in each round, in one turn of the gateway's loop."""
    looked = []

    def counted(area):
        looked.append(area)
        return with_parents(area)

    monkeypatch.setattr(module, "with_parents", counted)
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(*(result(f"b1/r{number}", temperature=1.0) for number in range(50))), 0)
    gaps = [f"b1/x{number}" for number in range(200)]
    rooms.apply(answer(missing=[(area, "node_down") for area in gaps]), 1_000)
    rooms.learn([], 1_000, gaps)
    assert len(looked) <= 100, "each room once"
    assert len(rooms.gaps) == 200


def test_an_area_of_two_services_is_live_while_one_of_them_gives_readings():
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("r", temperature=20.0)), 1_000, "temperature")
    rooms.apply(answer(result("r", humidity=40.0)), 1_000, "humidity")
    assert set(rooms.get("r").channels) == {"temperature", "humidity"}
    assert rooms.apply(answer(missing=[("r", "timeout")]), 2_000, "temperature") == []
    [room] = rooms.apply(answer(missing=[("r", "no_data")]), 2_000, "humidity")
    assert room.state == "stale"


def test_names_and_units_are_the_masters_and_an_area_it_names_is_missing_until_heard():
    rooms = Rooms(STALE_MS)
    [room] = rooms.learn([AreaFacts("r", "Meeting 4.13", {"temperature": "K"})], 1_000)
    assert (room.name, room.state, room.reason) == ("Meeting 4.13", "missing", module.NEVER_HEARD)
    [room] = rooms.apply(answer(result("r", temperature=294.0)), 2_000)
    assert (room.name, room.channels["temperature"].unit) == ("Meeting 4.13", "K")
    [room] = rooms.learn([AreaFacts("r", "Board room", {"temperature": "°C"})], 3_000)
    assert (room.name, room.channels["temperature"].unit) == ("Board room", "°C")
    assert rooms.learn([AreaFacts("r", "Board room", {"temperature": "°C"})], 3_000) == []


def test_an_area_that_is_neither_named_nor_heard_goes_after_a_while():
    rooms = Rooms(STALE_MS)
    facts = [AreaFacts(area) for area in ("b1/r1", "b1/r2", "b2/r1")]
    rooms.learn(facts, 0, ())
    rooms.apply(answer(result("b1/r1", humidity=40.0)), 0)
    shape, version = rooms.shape, rooms.version
    rooms.learn(facts[1:], 10, ())
    assert (rooms.shape, len(rooms)) == (shape, 3), "the master may only have been restarted"
    rooms.learn(facts[1:], 9 + GONE_MS, ())
    rooms.learn(facts[1:], 10 + GONE_MS)
    rooms.learn(facts[1:], 10 + GONE_MS, ["b1"])
    assert len(rooms) == 3, "not yet, and not while it is not known what there is"
    rooms.learn(facts[1:], 20 + GONE_MS, ())
    rooms.apply(answer(result("b1/r1", humidity=40.0)), 30 + GONE_MS)
    rooms.learn(facts[1:], 20 + 2 * GONE_MS, ())
    assert len(rooms) == 3, "it was heard"
    assert rooms.learn(facts[1:], 20 + 3 * GONE_MS, ()) == []
    assert [room.area for room in rooms] == ["b1/r2", "b2/r1"]
    assert rooms.shape > shape
    assert rooms.version > version
    assert rooms.units("b1/r1") == {}
    [again] = rooms.learn(facts[:1], 20 + 3 * GONE_MS)
    assert (again.state, again.channels) == ("missing", {})


def test_sparks_are_the_last_means():
    rooms = Rooms(STALE_MS)
    for number in range(SPARK + 5):
        mean = None if number == SPARK else number
        rooms.apply(answer(result("r", temperature=mean)), number)
    sparks = rooms.sparks("r")["temperature"]
    assert len(sparks) == SPARK
    assert sparks[-5] is None
    assert sparks[-1] == SPARK + 4
    assert rooms.sparks("unknown") == {}


def test_rooms_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_ROOMS", 2)
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(*(result(f"r{number}", temperature=1.0) for number in range(4))), 0)
    assert [room.area for room in rooms] == ["r0", "r1"]
    assert rooms.gaps == {"r2": module.NOT_SHOWN.format(most=2, count=2)}, "it is no secret"
    rooms.apply(answer(result("r4", temperature=1.0)), 0)
    assert rooms.gaps == {"r2": module.NOT_SHOWN.format(most=2, count=2)}, "so are the others"
    rooms.learn([AreaFacts("r0"), AreaFacts("r1"), AreaFacts("r4")], 0, ())
    assert rooms.gaps == {"r4": module.NOT_SHOWN.format(most=2, count=1)}, "the others have gone"
    rooms.learn([AreaFacts("r0"), AreaFacts("r1")], 0, ())
    assert rooms.gaps == {}


def test_a_node_that_names_other_channels_each_time_does_not_grow_its_room(monkeypatch):
    monkeypatch.setattr(module, "MAX_CHANNELS", 2)
    rooms = Rooms(STALE_MS)
    rooms.apply(answer(result("r", temperature=1.0)), 0)
    for number in range(5):
        rooms.apply(answer(result("r", **{f"c{number}": 1.0, "temperature": 2.0})), 1)
    room = rooms.get("r")
    assert {name: each.value for name, each in room.channels.items()} == {
        "temperature": 2.0,
        "c0": 1.0,
    }
    assert rooms.sparks("r").keys() == {"temperature", "c0"}
    assert rooms.shape == 3, "the room, and two channels"


AREAS = st.sampled_from(["b1/r1", "b1/r2", "b1", "b2/r1"])
STEP = st.one_of(
    st.tuples(st.just("heard"), AREAS, st.sampled_from("ab"), st.none() | st.floats(-50, 50)),
    st.tuples(st.just("gap"), AREAS, st.sampled_from("ab"), st.just("timeout")),
    st.tuples(st.just("wait"), st.integers(0, 2 * STALE_MS), st.none(), st.none()),
)


@given(st.lists(STEP, max_size=30))
def test_whoever_follows_versions_has_what_is_shown(steps):
    """A reader that sleeps over some versions and takes what is newer sees the same in the end."""
    rooms, seen, known, now_ms = Rooms(STALE_MS), {}, 0, 0
    for number, (kind, what, service, value) in enumerate(steps):
        if kind == "heard":
            rooms.apply(answer(result(what, now_ms, temperature=value)), now_ms, service)
        elif kind == "gap":
            rooms.apply(answer(missing=[(what, value)]), now_ms, service)
        else:
            now_ms += what
            rooms.tick(now_ms)
        if number % 3 == 0:
            seen.update(dict(rooms.since(known)))
            known = rooms.version
    seen.update(dict(rooms.since(known)))
    assert [seen[place] for place in sorted(seen)] == list(rooms)
    for room in rooms:
        assert (room.state == "live") == (not room.reason)
        assert (room.state == "missing") == (not room.channels)
