"""Two operators and one host, and replies that never came: each run decides on its own switch only,
and no plan is carried out on a host that is not as it was planned for."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from fleet.on_host import host as hosts
from fleet.on_host import undo as undoing
from fleet.on_host.change import do
from fleet.on_host.facts import facts
from fleet.on_host.host import Failure
from fleet.on_host.undo import expire
from tests.fleet.on_host.rig import (
    CONFIG,
    SECRET,
    Fake,
    confirm,
    pending,
    push,
    seen,
    start_host,
    switch,
    undo,
)

ALLOWED = "/etc/sanderling/keys/allowed.toml"


@pytest.fixture
def deployed(host: Fake) -> Fake:
    """A host with a release that was confirmed, and one operator's switch on top of it."""
    start_host(host, 0)
    switch(host, "1-a", {CONFIG: "one", SECRET: "key"}, "r1")
    confirm(host)
    host.by = "ada@desk"
    switch(host, "1-b", {CONFIG: "two"}, "r2")
    return host


def after(host: Fake, change: Callable[[Fake], object]) -> str:
    """Why a plan is refused that was made before a change; the host stays as the change made it."""
    planned = seen(host, CONFIG, SECRET, ALLOWED)
    change(host)
    before = host.files, pending(host)
    with pytest.raises(Failure) as caught:
        switch(host, "1-c", {CONFIG: "three"}, "r3", seen=planned)
    assert caught.value.more == {"changed": True}
    assert (host.files, pending(host)) == before
    return str(caught.value)


def test_a_plan_is_not_mixed_with_the_switch_of_another_operator(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one"}, "r1")
    confirm(host)
    host.by = "ada@desk"
    said = after(host, lambda host: switch(host, "1-b", {SECRET: "hers"}, "r2"))
    assert said == "ada@desk (run r2) switched it since it was looked at"


def test_nor_with_one_that_was_confirmed_meanwhile(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one"}, "r1")
    confirm(host)

    def another(host: Fake) -> None:
        switch(host, "1-a", {SECRET: "hers"}, "r2")
        confirm(host)

    assert after(host, another) == f"{SECRET} was changed since it was looked at"


def test_nor_with_what_the_timer_put_back(deployed: Fake) -> None:
    assert after(deployed, undo) == "its last switch was undone since it was looked at"


def test_a_key_that_was_revoked_after_the_plan_does_not_come_back(host: Fake) -> None:
    """The plan has the allow-list as it was before: it would let the revoked party in again."""
    switch(host, "1-a", {CONFIG: "one", ALLOWED: "n1"}, "r1")
    confirm(host)
    planned = seen(host, CONFIG, ALLOWED)
    push(host, {ALLOWED: ""})
    with pytest.raises(Failure, match=f"{ALLOWED} was changed since it was looked at"):
        switch(host, "1-a", {ALLOWED: "n1 n2"}, "r2", seen=planned)
    assert host.files["etc/sanderling/keys/allowed.toml"] == b""
    assert pending(host) is None


def test_nor_one_that_is_revoked_while_the_new_agent_checks_its_configuration(
    host: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch(host, "1-a", {ALLOWED: "n1"}, "r1")
    confirm(host)
    planned = seen(host, ALLOWED)
    monkeypatch.setattr(
        "fleet.on_host.switch.check", lambda host, request: push(host, {ALLOWED: ""})
    )
    with pytest.raises(Failure, match="was changed") as caught:
        switch(host, "1-a", {ALLOWED: "n1 n2"}, "r2", seen=planned)
    assert caught.value.more == {"changed": True}
    assert host.files["etc/sanderling/keys/allowed.toml"] == b""


def test_a_release_that_was_removed_meanwhile_is_said(host: Fake) -> None:
    switch(host, "1-a", {CONFIG: "one"}, "r1")
    confirm(host)
    request = {"do": "switch", "release": "1-z", "seen": seen(host, CONFIG)}
    with pytest.raises(Failure, match="release 1-z was removed since it was looked at") as caught:
        do(host, request, b"", None)
    assert caught.value.more == {"changed": True}


def test_a_plan_for_the_host_as_it_is_is_carried_out(deployed: Fake) -> None:
    switch(deployed, "1-c", {CONFIG: "three"}, "r3", seen=seen(deployed, CONFIG, SECRET, ALLOWED))
    assert pending(deployed)["run"] == "r3"


def test_a_verdict_counts_for_its_own_run_only(deployed: Fake) -> None:
    """Also where both switched to one release, with other files."""
    deployed.by = "bob@lab"
    switch(deployed, "1-b", {CONFIG: "bob's"}, "r3")
    before = deployed.files
    words = r"bob@lab \(run r3\) deployed to it"
    with pytest.raises(Failure, match=words):
        confirm(deployed, "r2")
    with pytest.raises(Failure, match=words):
        undo(deployed, run="r2")
    assert deployed.files == before
    assert pending(deployed)["run"] == "r3"
    assert confirm(deployed, "r3") == {"ok": True}


def test_a_verdict_whose_reply_was_lost_may_be_repeated(deployed: Fake) -> None:
    assert confirm(deployed, "r2") == {"ok": True}
    assert confirm(deployed, "r2") == {"ok": True}
    assert undo(deployed, "kept", "r2")["release"] == "1-a"
    before = deployed.files
    assert undo(deployed, "kept", "r2")["release"] == "1-a"
    assert deployed.files == before


def test_a_verdict_after_the_timer_says_why_it_went_back(deployed: Fake) -> None:
    """As of a laptop that slept: it must not take a switch that was undone for one that stays."""
    path = deployed.folder / "var/lib/sanderling-deploy/pending.json"
    path.write_text(json.dumps(pending(deployed) | {"deadline_s": 0.0}))
    do(deployed, {"do": "expire"}, b"", None)
    with pytest.raises(Failure, match=r"verdict came: nobody confirmed it in time") as caught:
        confirm(deployed, "r2")
    assert caught.value.more == {"rolled_back": "1-a"}


def test_a_rollback_does_not_reach_below_a_switch_that_came_meanwhile(deployed: Fake) -> None:
    confirm(deployed)
    deployed.by = "bob@lab"
    switch(deployed, "1-c", {CONFIG: "three"}, "r3")
    before = deployed.files, pending(deployed)
    with pytest.raises(Failure, match=r"bob@lab \(run r3\) deployed to it since; that stays"):
        undo(deployed, "kept", "r2")
    assert (deployed.files, pending(deployed)) == before
    confirm(deployed)
    with pytest.raises(Failure, match=r"bob@lab \(run r3\) deployed to it since; that stays"):
        undo(deployed, "kept", "r2")


def test_facts_tell_whose_switch_it_is_and_which_run_can_be_undone(deployed: Fake) -> None:
    assert facts(str(deployed.folder))["pending"] | {"seconds_left": 0} == {
        "run": "r2",
        "by": "ada@desk",
        "release": "1-b",
        "before": "1-a",
        "seconds_left": 0,
    }
    confirm(deployed)
    assert facts(str(deployed.folder))["releases"]["run"] == "r2"


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens at each time that a program sleeps; the clock goes on by what it slept."""
    coming: list[Callable[[], object]] = []
    began_s, slept_s = time.monotonic(), [0.0]

    class Time:
        @staticmethod
        def monotonic() -> float:
            return began_s + slept_s[0]

        @staticmethod
        def sleep(pause_s: float) -> None:
            slept_s[0] += pause_s
            coming.pop(0)()

    for module in (hosts, undoing):
        monkeypatch.setattr(module, "time", Time)
    return coming


def test_who_has_the_lock_is_told(host: Fake, sleeps: list[Callable[[], object]]) -> None:
    host.by = "ada@desk"
    sleeps += [lambda: None] * 1_000
    with host.lock():
        other = hosts.Host(host.root, host.tools, "bob@lab")
        with pytest.raises(Failure, match=r"^ada@desk is deploying to it; wait for its end$"):
            do(other, {"do": "remove", "remove": []}, b"", None)
    assert do(other, {"do": "remove", "remove": []}, b"", None) == {"ok": True}


def test_the_timer_waits_for_an_upload_of_any_length(
    deployed: Fake, sleeps: list[Callable[[], object]]
) -> None:
    """It is started once: an undo that gave up would never come."""
    upload = deployed.lock()
    upload.__enter__()
    sleeps += [lambda: None] * 1_000 + [lambda: upload.__exit__(None, None, None)]
    assert expire(deployed)["release"] == "1-a"
    assert deployed.files["etc/sanderling/edge.toml"] == b"one"
    assert sleeps == []


def test_the_timer_leaves_a_later_switch_the_whole_of_its_time(
    deployed: Fake, sleeps: list[Callable[[], object]]
) -> None:
    first = pending(deployed)["deadline_s"]
    switch(deployed, "1-c", {CONFIG: "three"}, "r3")
    assert pending(deployed)["deadline_s"] >= first
    sleeps += [lambda: None, lambda: confirm(deployed)]
    assert expire(deployed) == {"ok": True}
    assert deployed.files["etc/sanderling/edge.toml"] == b"three"


def test_the_timer_undoes_a_later_switch_when_its_time_is_over(
    deployed: Fake, sleeps: list[Callable[[], object]]
) -> None:
    sleeps += [lambda: None] * 20
    assert expire(deployed)["release"] == "1-a"
    assert sleeps == []
