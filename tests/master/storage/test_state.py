"""What a master finds again: against a dict, after restarts, and on a disk that is broken."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.master.storage import state as states
from agent.master.storage.state import FLUSH_S, RETRY_S, State
from tests.master.held_writer import HeldWriter


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove", "flush", "reopen"]),
        st.sampled_from(["service", "watch"]),
        st.sampled_from(["a", "b", "ü/'%"]),
        st.binary(max_size=8),
    ),
    max_size=30,
)


@given(operations)
def test_it_holds_what_a_dict_would(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("state") / "state.sqlite"
    state, twin = State(path, Clock()), {}
    for step, kind, key, body in steps:
        if step == "put":
            state.put(kind, key, body)
            twin[kind, key] = body
        elif step == "remove":
            state.remove(kind, key)
            twin.pop((kind, key), None)
        elif step == "flush":
            state.flush()
        else:
            state.close()
            state = State(path, Clock())
        for each in ("service", "watch"):
            assert state.all(each) == {k: v for (kd, k), v in twin.items() if kd == each}
    state.close()


def test_what_is_not_flushed_waits_half_a_second(tmp_path):
    clock = Clock()
    state = State(tmp_path / "s", clock)
    assert state.next_due is None
    state.put("watch", "w", b"1")
    clock.now += 0.1
    state.put("watch", "w", b"2")
    assert state.next_due == 100.0 + FLUSH_S
    other = sqlite3.connect(tmp_path / "s")
    assert other.execute("SELECT * FROM document").fetchall() == []
    state.tick(clock.now)
    assert other.execute("SELECT * FROM document").fetchall() == [("watch", "w", b"2")]
    assert state.next_due is None
    other.close()
    state.close()


def test_without_a_path_nothing_is_kept():
    state = State(None, Clock())
    state.put("watch", "w", b"1")
    assert state.next_due is None
    assert state.all("watch") == {}
    state.close()


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b""])
def test_a_broken_file_is_put_aside(tmp_path, content):
    path = tmp_path / "state.sqlite"
    path.write_bytes(content)
    lines = []
    state = State(path, Clock(), lines.append)
    state.put("service", "climate", b"1")
    state.close()
    assert len(lines) == 1
    assert "state.sqlite is broken" in lines[0]
    [aside] = tmp_path.glob("state.sqlite.broken-*")
    assert aside.read_bytes() == content
    assert aside.name in lines[0]
    state = State(path, Clock())
    assert state.all("service") == {"climate": b"1"}
    state.close()


def test_a_file_that_cannot_be_used_is_one_line(tmp_path):
    with pytest.raises(OSError, match=r"cannot use .*nowhere"):
        State(tmp_path / "nowhere" / "s", Clock())


def on_disk(path):
    file = sqlite3.connect(path)
    found = file.execute("SELECT key, body FROM document ORDER BY key").fetchall()
    file.close()
    return dict(found)


def test_a_disk_that_refuses_is_tried_again_and_nobody_is_told_before(tmp_path):
    path, lines, told, clock = tmp_path / "s", [], [], Clock()
    state = State(path, clock, lines.append)
    state.put("service", "a", b"1")
    state.flush()
    blocker = sqlite3.connect(path, isolation_level=None, timeout=0)
    blocker.execute("BEGIN IMMEDIATE")
    state._file.execute("PRAGMA busy_timeout = 0")
    state.put("service", "b", b"2")
    refusals = []
    state.when_durable(lambda: told.append(on_disk(path)))
    state.when_refused(lambda: refusals.append(state.takes))
    for _ in range(3):
        clock.now = state.next_due
        state.tick(clock.now)
        assert (told, state.takes, state.next_due) == ([], False, clock.now + RETRY_S)
    assert refusals == [False] * 3, "whoever can undo a change is told at once"
    assert len(lines) == 1
    assert lines[0].startswith("state: changes (now 1) could not be written")
    state.put("service", "c", b"3")
    state.when_durable(lambda: told.append("after it"))
    assert state.all("service") == {"a": b"1", "b": b"2", "c": b"3"}
    blocker.execute("ROLLBACK")
    blocker.close()
    state.tick(state.next_due)
    assert told == [{"a": b"1", "b": b"2", "c": b"3"}, "after it"]
    assert state.takes
    assert lines[1:] == ["state: changes are written again\n"]
    state.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["s", "s.lock"]


def test_who_waits_is_called_in_order_each_after_what_he_waits_for(tmp_path):
    writer, told, path = HeldWriter(slow=True), [], tmp_path / "s"
    state = State(path, Clock(), writer=writer)
    state.when_durable(lambda: told.append("nothing to do"))
    state.put("watch", "a", b"1")
    state.when_durable(lambda: told.append(on_disk(path)))
    assert state.next_due == Clock.now, "at the end of this turn"
    state.tick(Clock.now)
    state.when_durable(lambda: told.append("the same"))
    state.put("watch", "b", b"2")
    state.when_durable(lambda: told.append(on_disk(path)))
    assert state.next_due is None
    assert told == ["nothing to do"]
    writer.do()
    assert told[1:] == [{"a": b"1"}, "the same"]
    state.tick(state.next_due)
    writer.do()
    assert told[3:] == [{"a": b"1", "b": b"2"}]
    state.close()


def test_behind_a_slow_disk_nothing_new_is_begun_when_many_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(states, "MAX_WAITING", 2)
    writer = HeldWriter(slow=True)
    state = State(tmp_path / "s", Clock(), writer=writer)
    for key in "ab":
        assert state.takes
        state.put("watch", key, b"1")
        state.when_durable(lambda: None)
        state.tick(Clock.now)
    assert not state.takes
    writer.drain()
    assert state.takes
    state.close()


def test_two_masters_do_not_share_a_file(tmp_path):
    first = State(tmp_path / "s", Clock())
    with pytest.raises(OSError, match="in use by another process"):
        State(tmp_path / "s", Clock())
    first.close()
    State(tmp_path / "s", Clock()).close()


def test_a_file_of_a_later_format_is_left_as_it_is(tmp_path):
    path = tmp_path / "state.sqlite"
    State(path, Clock()).close()
    file = sqlite3.connect(path)
    file.execute("PRAGMA user_version = 1")
    file.close()
    before = path.read_bytes()
    with pytest.raises(OSError, match=r"cannot use .*: written by a newer version.*format 1"):
        State(path, Clock())
    assert path.read_bytes() == before


BAD_ROWS = {
    "a name that is no UTF-8": "UPDATE document SET key = CAST(x'ff61' AS TEXT) WHERE key = 'b'",
    "a name that became a blob": "UPDATE document SET key = CAST(key AS BLOB) WHERE key = 'b'",
    "a body that cannot be decoded": "UPDATE document SET body = x'c1' WHERE key = 'b'",
    "a body that is cut": "UPDATE document SET body = x'' WHERE key = 'b'",
}


def damaged(path, statement):
    file = sqlite3.connect(path)
    with file:
        file.execute(statement)
    file.close()


@pytest.mark.parametrize("statement", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_damaged_document_is_left_out_alone_in_a_line_and_stays(tmp_path, statement):
    path, lines = tmp_path / "state.sqlite", []
    state = State(path, Clock())
    for key in "abc":
        state.put("service", key, b"1")
    state.close()
    damaged(path, statement)
    for _ in range(2):
        lines.clear()
        state = State(path, Clock(), lines.append)
        for _ in range(2):
            assert list(state.read("service", int))[:2] == ["a", "c"]
        state.put("service", "d", b"4")
        state.close()
        assert len(lines) == 1, "one line, and again at each start"
        assert lines[0].startswith("service ")
        assert "on disk cannot be read and is left out: " in lines[0]


def test_a_body_that_became_text_is_what_it_was(tmp_path):
    path = tmp_path / "state.sqlite"
    state = State(path, Clock())
    state.put("service", "a", b"\xff1")
    state.close()
    damaged(path, "UPDATE document SET body = CAST(body AS TEXT)")
    state = State(path, Clock())
    assert state.all("service") == {"a": b"\xff1"}
    state.close()


def test_a_file_whose_columns_have_other_names_is_put_aside(tmp_path):
    path, lines = tmp_path / "state.sqlite", []
    state = State(path, Clock())
    state.put("service", "a", b"1")
    state.close()
    path.write_bytes(path.read_bytes().replace(b"body BLOB", b"bodx BLOB"))
    state = State(path, Clock(), lines.append)
    assert state.all("service") == {}
    state.close()
    assert "is broken (no such column: body)" in lines[0]


def test_a_file_of_another_kind_is_put_aside_with_a_line(tmp_path):
    """Such as one that was restored under the wrong name: it was taken for a new one."""
    path, lines = tmp_path / "state.sqlite", []
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE spooled (number INTEGER)")
    other.commit()
    other.close()
    state = State(path, Clock(), lines.append)
    state.put("service", "a", b"1")
    state.close()
    assert len(lines) == 1
    assert "is broken (it has the tables of another file, such as spooled)" in lines[0]
    assert on_disk(path) == {"a": b"1"}
