"""The model of the disk: against a naive twin, and on cases known by hand."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.torture.disk import Disk, Rules, Survival, drawn, replayed
from tests.torture.recording import (
    CLOSE,
    MADE,
    OPEN,
    RENAME,
    SYNC,
    TRUNCATE,
    UNLINK,
    WRITE,
    Operation,
)

NONE = Survival("none", 0.5, 0.0, garbage=False)
ALL = Survival("all", 0.5, 0.0, garbage=False)
SCATTERED = Survival("scattered", 0.5, 0.0, garbage=False)


def opened(fd: int, path: str, made: int = MADE) -> Operation:
    return Operation(OPEN, made, fd, 0, 0, path, b"")


def wrote(fd: int, offset: int, data: bytes) -> Operation:
    return Operation(WRITE, 0, fd, 0, offset, "", data)


def cut(fd: int, size: int) -> Operation:
    return Operation(TRUNCATE, 0, fd, 0, size, "", b"")


def synced(fd: int, error: int = 0) -> Operation:
    return Operation(SYNC, 0, fd, error, 0, "", b"")


def renamed(path: str, to: str) -> Operation:
    return Operation(RENAME, 0, -1, 0, 0, path, to.encode())


def removed(path: str) -> Operation:
    return Operation(UNLINK, 0, -1, 0, 0, path, b"")


FOLDER = opened(9, "", 0)


class NaiveFile:
    """Every value that each byte may have after a cut, and every length of the file."""

    def __init__(self) -> None:
        self.now = b""
        self.sure = b""
        self.since: list[Operation] = []

    def do(self, done: Operation) -> None:
        if done.kind == SYNC:
            self.sure, self.since = self.now, []
            return
        self.since.append(done)
        if done.kind == TRUNCATE:
            self.now = self.now[: done.offset].ljust(done.offset, b"\0")
        else:
            before = self.now[: done.offset].ljust(done.offset, b"\0")
            self.now = before + done.data + self.now[done.offset + len(done.data) :]

    def allows(self, image: bytes) -> bool:
        ends = {done.offset + len(done.data) for done in self.since}
        shortest = min([len(self.sure), *ends])
        if not shortest <= len(image) <= max([len(self.sure), *ends]):
            return False
        shrinks = [done.offset for done in self.since if done.kind == TRUNCATE]
        for at, value in enumerate(image):
            may = {self.sure[at]} if at < len(self.sure) else {0}
            may |= {0} if any(at >= size for size in shrinks) else set()
            may |= {
                done.data[at - done.offset]
                for done in self.since
                if done.offset <= at < done.offset + len(done.data)
            }
            if value not in may:
                return False
        return True


changes = st.one_of(
    st.builds(wrote, st.just(3), st.integers(0, 2000), st.binary(min_size=1, max_size=1500)),
    st.builds(cut, st.just(3), st.integers(0, 3000)),
    st.just(synced(3)),
)


@given(st.lists(changes, max_size=12), st.integers(0, 1 << 32))
def test_contents_are_what_the_naive_twin_allows(done: list[Operation], seed: int) -> None:
    disk, naive = Disk("strict"), NaiveFile()
    for operation in [opened(3, "a"), FOLDER, synced(9)]:
        disk.apply(operation)
    draw = Random(seed)
    for operation in done:
        disk.apply(operation)
        naive.do(operation)
        assert disk.image(draw, NONE) == {"a": naive.sure}
        assert disk.image(draw, ALL) == {"a": naive.now}
        for _ in range(3):
            survival = drawn(draw)._replace(garbage=False)
            assert naive.allows(disk.image(draw, survival)["a"]), survival


def test_later_writes_may_survive_earlier_ones_and_be_torn_by_sectors() -> None:
    disk = replayed(
        "ordered", [opened(3, "a"), synced(3), wrote(3, 0, b"x" * 1536), wrote(3, 1536, b"y")]
    )
    draw = Random(1)
    seen = {
        disk.image(draw, Survival("scattered", 0.5, 0.5, garbage=False))["a"] for _ in range(400)
    }
    assert b"" in seen
    assert b"x" * 1536 + b"y" in seen
    assert bytes(1536) + b"y" in seen  # reordered
    assert b"x" * 512 in seen  # a torn first write
    assert bytes(512) + b"x" * 512 + bytes(512) + b"y" in seen


def test_garbage_is_only_where_something_was_being_written() -> None:
    disk = replayed("ordered", [opened(3, "a"), wrote(3, 0, b"s" * 700), synced(3)])
    disk.apply(wrote(3, 600, b"w" * 300))
    draw = Random(1)
    images = [
        disk.image(draw, Survival("scattered", 1.0, 1.0, garbage=True))["a"] for _ in range(200)
    ]
    assert all(image[:600] == b"s" * 600 for image in images)
    assert any(set(image[600:]) - set(b"sw\0") for image in images)


def test_a_failed_sync_leaves_doubt_that_no_later_one_ends() -> None:
    disk = replayed("ordered", [opened(3, "a"), synced(3), wrote(3, 0, b"lost")])
    disk.apply(synced(3, error=5))
    disk.apply(synced(3))
    disk.apply(wrote(3, 4, b"kept"))
    disk.apply(synced(3))
    assert disk.image(Random(1), NONE) == {"a": bytes(4) + b"kept"}
    assert disk.image(Random(1), ALL) == {"a": b"lostkept"}
    disk.apply(wrote(3, 0, b"anew"))
    disk.apply(synced(3))
    assert disk.image(Random(1), NONE) == {"a": b"anewkept"}


@pytest.mark.parametrize(("rules", "there"), [("strict", [{}]), ("ordered", [{"a": b"x"}])])
def test_a_new_file_without_a_sync_of_its_folder(rules: Rules, there: list[object]) -> None:
    disk = replayed(rules, [opened(3, "a"), wrote(3, 0, b"x"), synced(3)])
    assert [disk.image(Random(1), NONE)] == there
    disk.apply(FOLDER)
    disk.apply(synced(9))
    assert disk.image(Random(1), NONE) == {"a": b"x"}


def test_names_in_order_or_each_by_itself() -> None:
    log = [renamed("a", "c"), removed("b"), opened(4, "d")]
    draw = Random(1)
    seen = {}
    for rules in ("strict", "ordered"):
        disk = replayed(rules, log, {"a": b"1", "b": b"2"})  # type: ignore[arg-type]
        seen[rules] = {frozenset(disk.image(draw, SCATTERED)) for _ in range(200)}
    assert seen["ordered"] == {
        frozenset("ab"),
        frozenset("bc"),
        frozenset("c"),
        frozenset("cd"),
    }
    assert len(seen["strict"]) == 8
    assert seen["strict"] > seen["ordered"]


def test_a_renamed_file_keeps_what_is_written_to_its_descriptor() -> None:
    disk = replayed(
        "ordered",
        [opened(3, "a", 0), renamed("a", "b"), wrote(3, 0, b"new"), synced(3)],
        {"a": b"old"},
    )
    disk.apply(Operation(CLOSE, 0, 3, 0, 0, "", b""))
    assert disk.image(Random(1), NONE) == {"b": b"new"}
