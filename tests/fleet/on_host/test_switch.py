"""Switches: every step, cut short anywhere, undone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from fleet.on_host.change import do
from fleet.on_host.host import Failure
from tests.fleet.on_host.rig import (
    CONFIG,
    SECRET,
    UNIT,
    Fake,
    confirm,
    pending,
    push,
    replace,
    switch,
    undo,
    units,
)


def test_a_switch_that_is_confirmed_stays_and_can_be_undone_later(host: Fake) -> None:
    before = host.files
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    calls = host.calls
    assert "systemctl restart sanderling-edge.service" in calls
    armed = calls.index("systemctl start sanderling-deploy-undo.timer")
    assert "\nOnActiveSec=100\n" in (units(host) / "sanderling-deploy-undo.timer").read_text()
    # Read by systemd before it is armed, and armed before anything else is done.
    assert calls.index("systemctl daemon-reload") < armed
    assert armed < calls.index("systemctl enable --quiet sanderling-edge.service")
    path = host.folder / "etc/sanderling/edge.toml"
    assert path.read_text() == "one"
    assert path.stat().st_mode & 0o777 == 0o600
    confirm(host)
    one = host.files
    switch(host, "1-b", {"/etc/sanderling/edge.toml": "two", "/etc/sanderling/new": "x"}, "r2")
    confirm(host)
    assert [(each["release"], each["outcome"]) for each in host.journal] == [
        ("1-a", "kept"),
        ("1-b", "kept"),
    ]
    assert undo(host, "kept")["release"] == "1-a"
    assert host.files == one
    with pytest.raises(Failure, match="nothing is there to go back to"):
        undo(host, "kept")
    assert before == {}


def test_a_unit_that_does_not_start_is_undone_at_once_with_its_own_last_word(host: Fake) -> None:
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    confirm(host)
    before = host.files
    (host.folder / "broken").touch()
    with pytest.raises(Failure, match="upside down") as caught:
        switch(host, "1-b", {"/etc/sanderling/edge.toml": "two"}, "r2")
    assert caught.value.more == {"rolled_back": "1-a"}
    assert host.files == before
    assert host.journal[-1]["outcome"] == "rolled_back"
    assert "upside down" in host.journal[-1]["reason"]


def test_two_switches_without_a_verdict_are_undone_to_where_the_first_began(host: Fake) -> None:
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    confirm(host)
    before = host.files
    switch(host, "1-b", {"/etc/sanderling/edge.toml": "two"}, "r2")
    switch(host, "1-c", {"/etc/sanderling/edge.toml": "3", "/etc/sanderling/new": "x"}, "r3")
    undo(host)
    assert host.files == before


def test_a_verdict_that_comes_too_late_is_refused(host: Fake) -> None:
    switch(host, "1-a", {})
    undo(host)
    with pytest.raises(Failure, match="went back before the verdict came"):
        confirm(host)


def test_an_agent_that_ended_meanwhile_is_undone_instead_of_confirmed(host: Fake) -> None:
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    host.active(False)
    with pytest.raises(Failure, match="upside down") as caught:
        confirm(host)
    assert "rolled_back" in caught.value.more
    assert host.files == {}


STEPS = 16  # of a switch


@pytest.mark.parametrize("cut", range(STEPS + 1))
def test_a_switch_that_is_cut_anywhere_is_undone_whole(
    host: Fake, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {"/etc/sanderling/edge.toml": "one"})
    confirm(host)
    before = host.files
    left = cut
    shutil.rmtree(units(host))  # all steps, as on a host of its own

    class PowerCut(BaseException):
        pass

    def failing(original: Any) -> Any:
        def step(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCut
            return original(*args, **options)

        return step

    for name in ("write", "set_current", "start", "arm", "save", "enable"):
        replace(monkeypatch, name, failing)
    files = {"/etc/sanderling/edge.toml": "two", "/etc/sanderling/new": "x"}
    with pytest.raises(PowerCut) if cut < STEPS else _nothing():
        switch(host, "1-b", files, "r2")
    monkeypatch.undo()
    if (host.folder / "var/lib/sanderling-deploy/pending.json").exists():
        undo(host)
    assert host.files == before


class _nothing:  # noqa: N801 - as contextlib's own
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def test_a_key_that_was_rotated_since_survives_a_rollback(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one", SECRET: "key 1"})
    confirm(host)
    switch(host, "1-b", {CONFIG: "two", SECRET: "key 2"}, "r2")
    confirm(host)
    assert push(host, {SECRET: "key 3"})["written"] == [SECRET]
    undo(host, "kept")
    assert host.files["etc/sanderling/edge.toml"] == b"one"
    assert host.files["etc/sanderling/keys/node.secret"] == b"key 3"


def test_a_power_cut_within_a_confirmation_leaves_all_that_undoes(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host)
    before = host.files
    switch(host, "1-b", {CONFIG: "two", SECRET: "key"}, "r2")
    for name in ("replace", "rename", "rmdir", "unlink"):
        real = getattr(os, name)

        def cut(*args: Any, real: Any = real, **options: Any) -> None:
            real(*args, **options)
            raise KeyboardInterrupt

        monkeypatch.setattr(os, name, cut)
    with pytest.raises(KeyboardInterrupt):
        confirm(host)
    monkeypatch.undo()
    there = host.folder / "var/lib/sanderling-deploy/pending.json"
    undo(host, "pending" if there.exists() else "kept")
    assert host.files == before


def test_stale_files_go_after_the_restart_and_come_back_with_a_rollback(host: Fake) -> None:
    stale = "/etc/sanderling/keys/iad-b.public"
    switch(host, "1-a", {CONFIG: "one", stale: "key of b"})
    confirm(host)
    before = host.files
    switch(host, "1-a", {CONFIG: "two"}, "r2", gone=(stale, "/etc/sanderling/never"))
    assert set(before) - set(host.files) == {stale[1:]}
    confirm(host)
    undo(host, "kept")
    assert host.files == before
    written = host.folder / "var/lib/sanderling-deploy/written.json"
    assert json.loads(written.read_text()) == {UNIT: [CONFIG, stale]}


def test_a_host_with_two_agents_is_only_undone_for_the_one_that_was_switched(host: Fake) -> None:
    other = "sanderling-master.service"
    switch(host, "1-a", {CONFIG: "one"})
    for act, *args in ((undo, "pending"), (confirm, "r1"), (switch, "1-a", {})):
        with pytest.raises(Failure, match=f"was that of {UNIT}"):
            act(host, *args, unit=other)
    confirm(host)
    with pytest.raises(Failure, match=f"was that of {UNIT}"):
        undo(host, "kept", unit=other)


def test_nothing_is_put_back_where_the_release_before_is_gone(host: Fake) -> None:
    for release in ("1-a", "1-b"):
        switch(host, release, {CONFIG: release}, release)
        confirm(host)
    (host.folder / "opt/sanderling/releases/1-a/RELEASE").unlink()
    before = host.files
    with pytest.raises(Failure, match="1-a, which was there before, is gone"):
        undo(host, "kept")
    assert host.files == before


def test_a_file_that_cannot_be_put_back_can_be_tried_again(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host)
    before = host.files
    switch(host, "1-b", {CONFIG: "two"}, "r2")

    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    replace(monkeypatch, "put_back", lambda _: full)
    with pytest.raises(Failure, match=r"rolled back with trouble: .*No space left"):
        undo(host)
    monkeypatch.undo()
    undo(host)
    assert host.files == before


def test_an_agent_that_leaves_no_room_is_ended_and_its_release_removed(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host)
    before = host.files
    switch(host, "1-b", {CONFIG: "two", SECRET: "new"}, "r2")
    release = host.folder / "opt/sanderling/releases/1-b"

    def full(real: Any) -> Any:
        def unless_removed(*args: Any) -> Any:
            if release.exists():
                raise OSError(28, "No space left on device")
            assert f"systemctl stop {UNIT}" in host.log.read_text()
            return real(*args)

        return unless_removed

    assert host.calls
    for name in ("write", "set_current"):
        replace(monkeypatch, name, full)
    assert undo(host)["ok"]
    monkeypatch.undo()
    assert host.files == before
    assert pending(host) is None
    assert host.journal[-1]["outcome"] == "rolled_back"
    assert f"systemctl restart {UNIT}" in host.calls


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("write_files", KeyError("getpwnam(): name not found: 'sanderling'")),
        ("arm", Failure("systemctl daemon-reload: Transport endpoint is not connected")),
    ],
)
def test_whatever_breaks_a_switch_it_is_undone_at_once(
    host: Fake, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host)
    before = host.files

    def odd(*args: Any) -> None:
        raise error

    replace(monkeypatch, step, lambda _: odd)
    with pytest.raises(Failure, match=r"getpwnam|daemon-reload") as caught:
        switch(host, "1-b", {CONFIG: "two"}, "r2")
    monkeypatch.undo()
    assert caught.value.more == {"rolled_back": "1-a"}
    assert host.files == before
    assert pending(host) is None
    assert host.journal[-1]["outcome"] == "rolled_back"


@pytest.mark.parametrize("act", ["undo", "expire", "confirm"])
def test_an_agent_s_last_word_may_be_any_bytes(host: Fake, act: str) -> None:
    switch(host, "1-a", {CONFIG: "one"})
    confirm(host)
    before = host.files
    switch(host, "1-b", {CONFIG: "two"}, "r2")
    tool = host.folder.parent / "tools/journalctl"
    tool.write_text("#!/bin/sh\nprintf 'out of \\377\\376 memory\\n'\n")
    if act == "undo":
        assert undo(host)["word"] == "out of \ufffd\ufffd memory"
    elif act == "expire":
        found = {**pending(host), "deadline_s": 0.0}
        Path(host.at("/var/lib/sanderling-deploy/pending.json")).write_text(json.dumps(found))
        do(host, {"do": "expire"}, b"", None)
    else:
        host.active(False)
        with pytest.raises(Failure, match="it ended again: out of"):
            confirm(host)
    assert host.files == before


STUCK = """#!/bin/sh
echo "systemctl $*" >> {log}
case "$*" in
    "show -p ActiveState"*) if test -e {stuck}; then echo ActiveState=deactivating; fi ;;
    restart*|stop*) if test -e {stuck}; then exit 1; fi ;;
    kill*) rm {stuck} ;;
esac
"""


@pytest.mark.parametrize("was_active", [True, False])
def test_an_agent_that_has_systemd_wait_for_its_end_is_killed(host: Fake, was_active: bool) -> None:
    host.active(was_active)
    switch(host, "1-a", {CONFIG: "one"})
    stuck = host.folder.parent / "stuck"
    stuck.touch()
    tool = host.folder.parent / "tools/systemctl"
    tool.write_text(STUCK.format(log=host.log, stuck=stuck))
    assert host.calls
    assert undo(host)["ok"]
    calls = [each.split()[1:] for each in host.calls if each.endswith(UNIT)]
    stop, kill = ["stop", UNIT], ["kill", "--signal=KILL", UNIT]
    done = [each for each in calls if each[0] in {"restart", *stop, *kill}]
    assert done == [stop, kill, stop, *([["restart", UNIT]] if was_active else [])]
