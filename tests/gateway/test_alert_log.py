"""The log of alerts: nothing lost untold, over restarts, full disks and broken files."""

import sqlite3
from collections import deque

import pytest

from agent.gateway.feed import alert_log as module
from agent.gateway.feed import raised_table
from agent.gateway.feed.alert_log import AlertLog, Logged, Loss, raised_by
from tests.gateway.samples import notification


@pytest.fixture
def said():
    return []


@pytest.fixture
def opened(tmp_path, said):
    """Opens the log, again if it is open."""
    logs = []

    def open_(**options):
        if logs:
            logs.pop().close()
        logs.append(AlertLog(tmp_path / "alerts.sqlite", said.append, **options))
        return logs[-1]

    yield open_
    for log in logs:
        log.close()


def positions(entries):
    return [entry.position for entry in entries]


def test_a_reader_gets_each_entry_once_and_in_order_over_a_restart(opened):
    log = opened()
    for number in range(1, 6):
        assert log.append(notification(number)) == number
    assert positions(log.read(0, 3)) == [1, 2, 3]
    log = opened()
    assert log.newest == 5
    assert positions(log.read(3)) == [4, 5]
    assert log.append(notification(6)) == 6
    assert [entry.notification.origin.sequence for entry in log.read(3)] == [4, 5, 6]
    assert log.read(6) == []


def test_a_node_that_raises_without_end_takes_its_areas_places_only(opened, monkeypatch):
    monkeypatch.setattr(raised_table, "MAX_RAISED_OF_AREA", 2)
    log = opened()
    log.append(notification(1, area="r1", history="honest"))
    for number in range(1, 5):
        log.append(notification(number, trigger=f"t{number}", area="r2", history=f"h{number}"))
    kept = [("r1", "hot"), ("r2", "t3"), ("r2", "t4")]
    assert [(each.area, each.trigger) for each in log.raised] == kept
    assert [(each.area, each.trigger) for each in opened().raised] == kept
    again = notification(9, trigger="t3", area="r2", history="h3", at_ms=8)
    opened().append(again)
    assert sorted((each.area, each.trigger) for each in opened().raised) == kept


def areas(log):
    return [each.area for each in log.raised]


def test_a_node_that_fills_all_places_loses_its_own_oldest(opened, monkeypatch):
    """It may begin a history for each alert, and invent names below its own area."""
    monkeypatch.setattr(raised_table, "MAX_RAISED", 8)
    log = opened()
    log.append(notification(1, area="b1/f1/r1", history="honest"))
    for number in range(20):
        log.append(notification(number, area=f"b1/f9/r{number}", history=f"h{number}"))
    log.append(notification(2, area="b1/f2/r1", history="late"))
    log.append(notification(3, area="b2/f1/r1", history="other house"))
    kept = ["b1/f1/r1", *[f"b1/f9/r{number}" for number in range(15, 20)], "b1/f2/r1", "b2/f1/r1"]
    assert areas(log) == kept
    assert areas(opened()) == kept
    for area in kept[:-1]:
        history = {"b1/f1/r1": "honest", "b1/f2/r1": "late"}.get(area, f"h{area[7:]}")
        opened().append(notification(9, kind="cleared", area=area, history=history))
    assert areas(opened()) == ["b2/f1/r1"], "each has its place until it is over"


def test_an_iad_that_fills_all_places_loses_its_own_oldest(opened, monkeypatch):
    monkeypatch.setattr(raised_table, "MAX_RAISED", 4)
    log = opened()
    for number in range(9):
        told = notification(number, area=f"b1/r{number}")
        iad = "honest" if number < 2 else "evil"
        log.append(type(told)(told.origin, number, {**told.attributes, "iad": iad}))
    assert [(each.iad, each.area) for each in log.raised] == [
        ("honest", "b1/r0"), ("honest", "b1/r1"), ("evil", "b1/r7"), ("evil", "b1/r8"),
    ]  # fmt: skip


def test_the_places_that_an_earlier_version_gave_are_taken_back(opened, monkeypatch):
    log = opened()
    for number in range(10):
        log.append(notification(number, area=f"b1/r{number}", at_ms=number))
    monkeypatch.setattr(raised_table, "MAX_RAISED", 4)
    kept = [f"b1/r{number}" for number in range(6, 10)]
    assert areas(opened()) == kept
    monkeypatch.undo()
    assert areas(opened()) == kept, "they are gone from the file"


def test_what_is_raised_for_longer_than_alerts_are_kept_is_so_no_more(opened):
    now_ms = [1]
    clocks = {"now_ms": lambda: now_ms[0], "monotonic": lambda: now_ms[0] / 1e3}
    log = opened(days=1.0, **clocks)
    for number in range(3):
        log.append(notification(number, area=f"b1/r{number}"))
    now_ms[0] = module.DAY_MS
    log.append(notification(9, area="b1/r1", at_ms=9))  # again
    now_ms[0] += 2
    log.append(notification(4, area="b1/r4", at_ms=10))
    assert areas(log) == ["b1/r1", "b1/r4"]
    log = opened(days=1.0, **clocks)
    assert areas(log) == ["b1/r1", "b1/r4"]


def test_what_is_raised_is_sorted_once_for_all_readers(opened):
    log = opened()
    log.append(notification(1, at_ms=9))
    first = log.raised
    log.append(notification(2, kind="cleared", area="b1/r9"))
    assert log.raised is first, "nothing changed"
    log.append(notification(3, area="b1/r2", at_ms=7))
    assert areas(log) == ["b1/r2", "b1/r1"]
    assert log.raised is log.raised


def test_what_is_older_than_memory_comes_from_the_disk(opened, monkeypatch):
    monkeypatch.setattr(module, "MAX_IN_MEMORY", 2)
    log = opened()
    for number in range(1, 8):
        log.append(notification(number))
    for after in range(8):
        assert positions(log.read(after, 3)) == list(range(1, 8))[after : after + 3]


def test_the_newest_come_first_page_by_page(opened):
    log = opened()
    for number in range(1, 6):
        log.append(notification(number))
    assert positions(log.before(None, 2)) == [5, 4]
    assert positions(log.before(4, 10)) == [3, 2, 1]
    assert log.before(1) == []


def test_the_oldest_go_and_who_did_not_have_them_is_told(opened):
    log = opened(most=10)
    for number in range(1, 101):
        log.append(notification(number))
    gap, first, *_ = log.read(4)
    assert gap.notification is None
    assert (gap.loss.first, gap.loss.last) == (5, gap.position)
    assert first.position == gap.position + 1
    assert log.newest - gap.position == 10
    assert log.read(gap.position)[0].loss is None, "it is told once"


def message(number, size=0):
    """Of a topic, from a client."""
    told = notification(number, history="client")
    return type(told)(
        told.origin, 0, {"topic": "notes", **{f"a{n}": "x" * 500 for n in range(size)}}
    )


def kinds(log):
    """The entries kept, as a reader from the beginning on gets them."""
    found, after = [], 0
    while entries := log.read(after, 7):
        found += [
            "gap" if each.loss else "alert" if module.is_alert(each) else "message"
            for each in entries
        ]
        after = entries[-1].position
    return found


def test_messages_of_topics_push_no_alert_out(opened):
    log = opened(most=10)
    for number in range(1, 5):
        log.append(notification(number))
    for number in range(1, 101):
        log.append(message(number))
    for _ in range(2):
        assert log.oldest == 1
        log = opened(most=10)
        assert kinds(log) == ["alert"] * 4 + ["gap"] + ["message"] * 5
        [gap] = [each.loss for each in log.read(0) if each.loss]
        assert (gap.message, gap.first, gap.last) == (
            "95 messages of topics kept no longer", 5, 99,
        )  # fmt: skip
    for number in range(5, 13):
        log.append(notification(number))
    left = [kind for kind in kinds(log) if kind != "gap"]
    assert left == ["alert"] * 10, "alerts have what messages leave, and may have all"
    for number in range(13, 23):
        log.append(notification(number))
        log.append(message(number))
    assert kinds(opened(most=10)).count("alert") >= 9


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_each_missing_message_is_told_once_whatever_is_read_at_a_time(opened, limit):
    log = opened(most=20)
    for number in range(1, 101):
        log.append(notification(number) if number % 10 == 0 else message(number))
    log = opened(most=20)
    positions_read, told, after = [], 0, 0
    while entries := log.read(after, limit):
        assert len(entries) <= limit
        for each in entries:
            if each.loss is None:
                positions_read.append(each.position)
            elif each.loss.message == "kept no longer":
                told += each.loss.last - each.loss.first + 1
            else:
                told += int(each.loss.message.split()[0])
            assert each.position >= after
            after = each.position
    assert positions_read == sorted(set(positions_read))
    assert set(range(10, 101, 10)) <= set(positions_read)
    assert told + len(positions_read) == 100


def test_the_log_is_bounded_in_bytes_and_alerts_go_last(opened):
    options = {"most": 1_000, "most_bytes": 20_000}
    log = opened(**options)
    for number in range(1, 11):
        log.append(notification(number))
    for number in range(1, 101):
        log.append(message(number, 6))
    log = opened(**options)
    assert kinds(log).count("alert") == 10
    assert kinds(log).count("message") == 3, "of half of it"
    for number in range(11, 501):
        log.append(notification(number))
    log = opened(**options)
    found = kinds(log)
    assert "message" not in found
    assert 20_000 // 200 < found.count("alert") < 20_000 // 50


def test_each_entry_is_visited_a_bounded_number_of_times(opened):
    read = []
    log = opened(most=50)
    is_message = log._bounds.is_message
    log._bounds = log._bounds._replace(is_message=lambda body: read.append(1) or is_message(body))
    for number in range(1, 301):
        log.append(message(number) if number % 2 else notification(number))
    assert 300 <= len(read) <= 600


def test_what_is_too_old_goes(opened):
    now_ms = [0]
    log = opened(days=1.0, now_ms=lambda: now_ms[0], monotonic=lambda: now_ms[0] / 1e3)
    for number in range(1, 4):
        log.append(notification(number))
    now_ms[0] = 2 * module.DAY_MS
    for number in range(4, 6):
        log.append(notification(number))
    assert log.read(0)[0].loss.last == 3


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_is_set_to_2099_and_back_deletes_nothing(opened, restarted):
    now_ms, lived_s = [1_800_000_000_000], [5.0]
    clocks = {"now_ms": lambda: now_ms[0], "monotonic": lambda: lived_s[0]}
    log = opened(days=1.0, **clocks)
    for number in range(1, 4):
        log.append(notification(number, area=f"b1/r{number}"))
    now_ms[0] = 4_080_000_000_000
    if restarted:
        log = opened(days=1.0, **clocks)
    log.append(notification(4, area="b1/r4"))
    now_ms[0], lived_s[0] = 1_800_000_060_000, 65.0
    log.append(notification(5, area="b1/r5"))
    assert positions(log.read(0)) == [1, 2, 3, 4, 5]
    assert len(log.raised) == 5


def test_a_position_beyond_the_end_is_one_of_another_log(opened):
    log = opened()
    log.append(notification(1))
    first, second = log.read(500)
    assert "another one" in first.loss.message
    assert second.position == 1


def test_a_loss_stands_at_a_position_of_its_own(opened):
    log = opened()
    log.append(None, Loss("3 alerts were lost before"))
    log.append(notification(1))
    assert [entry.loss is None for entry in log.read(0)] == [False, True]
    assert [entry.loss is None for entry in opened().read(0)] == [False, True]


def test_what_is_raised_survives_a_restart_until_it_is_cleared(opened):
    log = opened()
    log.append(notification(1, area="r1", at_ms=5))
    log.append(notification(2, area="r2", at_ms=3))
    log.append(notification(3, area="r1", history="h2", at_ms=6))  # another node of that area
    expected = [("r2", 3, 31.5), ("r1", 5, 31.5)]
    assert [(each.area, each.since_ms, each.value) for each in log.raised] == expected
    log = opened()
    assert [(each.area, each.since_ms, each.value) for each in log.raised] == expected
    log.append(notification(4, kind="cleared", area="r1"))
    assert [(each.area, each.since_ms) for each in log.raised] == [("r2", 3), ("r1", 6)]
    log.append(notification(5, kind="cleared", area="r1", history="h2"))
    log.append(notification(6, kind="cleared", area="nowhere"))
    assert [each.area for each in opened().raised] == ["r2"]


def test_what_is_no_triggers_alert_raises_nothing():
    plain = notification()
    for attributes in ({}, {"kind": "raised"}, {"kind": "raised", "trigger": 3}, {"kind": True}):
        changed = type(plain)(plain.origin, plain.time_ms, attributes)
        assert raised_by(Logged(1, 0, changed)) is None
    odd = type(plain)(plain.origin, 0, {"kind": "raised", "trigger": "t", "value": True})
    assert raised_by(Logged(1, 0, odd)).raised.value is None
    assert raised_by(Logged(1, 0, loss=Loss("gone"))) is None
    message = notification()
    message.attributes["topic"] = "x"
    assert raised_by(Logged(1, 0, message)) is None


def test_the_place_at_the_master_is_saved_with_the_alert(opened):
    log = opened()
    place = log.place("*")
    assert place.after is None
    log.append(notification(1), after=17)
    assert log.place("*") == (after := type(place)(place.id, 17))
    log = opened()
    assert log.place("*") == after
    other = log.place('kind = "raised"')
    assert (other.after, other.id == place.id) == (None, False)


def test_cursors_begin_at_the_end_and_stay(opened):
    log = opened()
    log.append(notification(1))
    assert log.cursor("mqtt") == 1
    log.append(notification(2))
    assert log.cursor("mqtt") == 1
    log.move_cursor("mqtt", 2)
    log = opened()
    assert log.cursor("mqtt") == 2
    log.append(notification(3))
    log.keep_cursors(["ntfy"])
    assert log.cursor("mqtt") == 3, "it was forgotten"


def test_listeners_are_called_after_the_commit(opened):
    log, seen = opened(), []
    stop = log.listen(lambda: seen.append(log.newest))
    log.append(notification(1))
    log.append(notification(2))
    stop()
    stop()
    log.append(notification(3))
    assert seen == [1, 2]


def test_a_full_disk_changes_nothing_and_is_one_error(opened):
    log = opened()
    log.append(notification(1))
    log.place("*")
    (pages,) = log._file.execute("PRAGMA page_count").fetchone()
    log._file.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OSError, match="full"):
        deque(log.append(notification(n, area="r" * 400), after=n) for n in range(2, 1_000))
    reached = log.newest
    assert positions(log.read(0, 1_000)) == list(range(1, reached + 1))
    assert log.place("*").after == (reached if reached > 1 else None)
    log._file.execute("PRAGMA max_page_count = 100000")
    assert log.append(notification(reached + 1), after=99) == reached + 1
    assert log.place("*").after == 99


def test_every_write_that_a_full_disk_refuses_is_an_oserror(opened):
    log = opened()
    log._file.execute("PRAGMA query_only = 1")
    for write in (
        lambda: log.append(notification(1)),
        lambda: log.place("*"),
        lambda: log.cursor("mqtt"),
        lambda: log.move_cursor("mqtt", 1),
    ):
        with pytest.raises(OSError, match="readonly"):
            write()
    log._file.execute("PRAGMA query_only = 0")
    assert log.place("*").after is None


@pytest.mark.parametrize(
    "damage",
    [
        "ALTER TABLE logged RENAME TO gone; ALTER TABLE subscription RENAME TO gone_too",
        "UPDATE logged SET body = x'c1'; UPDATE subscription SET filter = CAST(x'ff' AS TEXT)",
    ],
)
def test_every_read_of_what_is_damaged_is_an_oserror(opened, monkeypatch, tmp_path, damage):
    """A thread that follows the log ends by any other."""
    monkeypatch.setattr(module, "MAX_IN_MEMORY", 2)
    log = opened()
    for number in range(10):
        log.append(notification(number))
    log.place("*")
    with sqlite3.connect(tmp_path / "alerts.sqlite") as other:
        other.executescript(damage)
    other.close()
    for read in (lambda: log.place("*"), lambda: log.read(0), lambda: log.before(None)):
        with pytest.raises(OSError, match="cannot be read"):
            read()
    assert len(log.read(log.newest - 1)) == 1, "what is in memory is still told"


def test_a_broken_file_is_put_aside_and_every_reader_is_told(opened, tmp_path, said):
    log = opened()
    log.append(notification(1))
    log.move_cursor("mqtt", 1)
    log.close()
    (tmp_path / "alerts.sqlite").write_bytes(b"nonsense" * 1_000)
    log = opened()
    assert "kept as alerts.sqlite.broken-" in said[0]
    entries = log.read(1)
    assert "broken" in entries[-1].loss.message
    assert entries[-1].position > 1_000_000


@pytest.mark.parametrize(
    "damage",
    [
        "ALTER TABLE cursor RENAME COLUMN position TO qosition",
        "ALTER TABLE subscription RENAME COLUMN after TO aftep",
        "UPDATE raised SET key = CAST(x'ff' AS TEXT)",
        "UPDATE subscription SET filter = CAST(x'ff' AS TEXT)",
        "DROP TABLE cursor",
    ],
)
def test_damage_that_no_check_of_the_file_finds_is_put_aside(opened, tmp_path, said, damage):
    log = opened()
    log.append(notification(1))
    log.place("*")
    log.move_cursor("mqtt", 1)
    log.close()
    with sqlite3.connect(tmp_path / "alerts.sqlite") as other:
        other.execute(damage)
    other.close()
    log = opened()
    assert "kept as alerts.sqlite.broken-" in said[0]
    assert log.cursor("mqtt") == log.newest
    assert log.place("*").after is None


def test_a_file_of_something_else_or_in_use_is_an_error_in_one_line(opened, tmp_path):
    opened()
    with pytest.raises(OSError, match="in use by another gateway"):
        AlertLog(tmp_path / "alerts.sqlite", print)
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(OSError, match="no log of alerts"):
        AlertLog(tmp_path / "other.sqlite", print)
