"""What a deployment has left on a host may be damaged, or something else may be in its place: each
action says so in one line or goes on without it, and waits for nothing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.on_host.change import do
from fleet.on_host.facts import facts
from fleet.on_host.host import Failure
from tests.fleet.on_host.rig import CONFIG, SECRET, Fake, confirm, push, start_host, switch, undo

FOLDER = "var/lib/sanderling-deploy"


def every_value(value: object) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), value)))

    return change


def instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(path: Path) -> None:
        path.unlink()
        make(path)

    return change


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(4_096)),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "deep": lambda path: path.write_text("[" * 100_000),
    "an object": lambda path: path.write_text("{}"),
    "lists": every_value([1]),
    "nulls": every_value(None),
    "texts": every_value("x"),
    "a pipe": instead(os.mkfifo),
    "a device": instead(lambda path: path.symlink_to("/dev/zero")),
    "a folder": instead(os.mkdir),
    "a loop": instead(lambda path: path.symlink_to(path.name)),
}
ACTIONS: dict[str, Callable[[Fake], object]] = {
    "undo": undo,
    "undo the last": lambda host: undo(host, "kept"),
    "confirm": confirm,
    "boot": lambda host: start_host(host, 7),
    "switch": lambda host: switch(host, "1-c", {CONFIG: "c"}, run="r3"),
    "remove": lambda host: do(host, {"do": "remove", "remove": ["1-a", "1-b"]}, b"", None),
    "write": lambda host: push(host, {SECRET: "t"}),
    "facts": lambda host: facts(str(host.folder)),
}


# All of it takes minutes.
OTHERS = ("kept.json", "written.json", "journal.jsonl", "saved")
CASES = [
    *[("pending.json", damage, action) for damage in DAMAGE for action in ACTIONS],
    *[
        (name, damage, action)
        for name in OTHERS
        for damage in ("zeros", "deep", "lists", "a pipe", "a device")
        for action in ("undo", "undo the last", "confirm", "write", "facts")
    ],
    *[(name, "a pipe", action) for name in ("lock", "files") for action in ("undo", "write")],
]


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """What waits for a pipe fails."""

    def waits(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, waits)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def awaiting(host: Fake) -> Fake:
    """A host with a switch that was confirmed, and one that awaits its verdict."""
    switch(host, "1-a", {CONFIG: "a", SECRET: "s"})
    confirm(host)
    switch(host, "1-b", {CONFIG: "b", SECRET: "s"}, run="r2")
    return host


@pytest.mark.parametrize(("name", "damage", "action"), CASES)
def test_it_is_one_line_or_nothing(awaiting: Fake, name: str, damage: str, action: str) -> None:
    folder = awaiting.folder / FOLDER
    path = next(folder.glob("saved-*/0")) if name == "saved" else folder / name
    try:
        DAMAGE[damage](path)
    except (ValueError, AttributeError):
        return  # it is no object of JSON
    said = ""
    try:
        ACTIONS[action](awaiting)
    except (Failure, OSError) as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.parametrize("damage", ["empty", "cut", "nulls"])
def test_a_damaged_undo_record_is_told_and_the_next_deployment_replaces_it(
    awaiting: Fake, damage: str
) -> None:
    """It was taken for none, as if the host had gone back."""
    DAMAGE[damage](awaiting.folder / FOLDER / "pending.json")
    for action in ("undo", "confirm", "boot"):
        with pytest.raises(Failure, match=r"pending\.json is damaged, .* fleet deploy sets"):
            ACTIONS[action](awaiting)
    switch(awaiting, "1-c", {CONFIG: "c"}, run="r3")
    confirm(awaiting)
    undo(awaiting, "kept")
    assert awaiting.files["etc/sanderling/edge.toml"] == b"b"
    assert awaiting.files["current"] == b"releases/1-b"


@pytest.mark.parametrize("folder", ["../../../etc", "saved-1/../..", "", "saved-"])
def test_an_undo_record_removes_no_other_folder(awaiting: Fake, folder: str) -> None:
    path = awaiting.folder / FOLDER / "pending.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"folder": folder}))
    before = awaiting.files
    with pytest.raises(Failure, match="is damaged"):
        undo(awaiting)
    assert awaiting.files == before


def test_a_record_of_an_earlier_version_is_whole(awaiting: Fake) -> None:
    confirm(awaiting)
    path = awaiting.folder / FOLDER / "kept.json"
    record = json.loads(path.read_text())
    del record["boots"], record["window_s"]
    path.write_text(json.dumps(record))
    assert undo(awaiting, "kept")["ok"]
