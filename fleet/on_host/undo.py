"""Undoes a switch: by the operator, by the timer, or because the host does not stay up."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time

from fleet.on_host.files import ended, record, set_current, write_json
from fleet.on_host.host import COMMAND_S, Failure, Host, Json, kind_of
from fleet.on_host.pending import boot_id, of_whom, put_back, recorded, require_unit
from fleet.on_host.places import JOURNAL, RELEASES
from fleet.on_host.units import disarm, last_word, start, stop

# Number of boots without a verdict after which a switch is undone; one may be a power cut.
MAX_BOOTS = 1
# How soon a timer that waits notices that its switch was confirmed.
LOOK_S = 5.0


def undo_run(host: Host, request: Json) -> Json:
    """Undo a run as its operator asks for it. It may have been undone before: by its timer, or by a
    request whose reply was lost. Failure if another run came after it."""
    which, run = request["which"], request["run"]
    found = recorded(host, which)
    later = None
    if which == "kept":
        with contextlib.suppress(Failure):  # a damaged one stands in no way
            later = recorded(host, "pending")
    if found is not None and found["run"] == run and later is None:
        return undo(host, which, request["reason"], request["unit"])
    end = ended(host, run)
    if end is not None and end.get("outcome") == "rolled_back":
        return {"ok": True, "release": end.get("before"), "word": ""}
    if other := later or found:
        raise Failure(f"{of_whom(other)} deployed to it since; that stays")
    raise Failure("nothing is there to go back to")


def undo(host: Host, which: str, reason: str, unit: str = "", *, at_boot: bool = False) -> Json:
    """Restore the state before a switch: `pending`, or `kept`, the last confirmed one. `at_boot`:
    units wait for this to end."""
    found = recorded(host, which)
    if found is None:
        raise Failure("nothing is there to go back to")
    if unit:
        require_unit(found, unit)
    before = found["before"]
    if before and not os.path.exists(host.at(f"{RELEASES}/{before}/RELEASE")):
        raise Failure(f"release {before}, which was there before, is gone")
    word = last_word(host, found["unit"])
    errors = restore(host, found, reason)
    if any(kind_of(error) == "disk_full" for error in errors):
        make_room(host, found, at_boot=at_boot)
        errors = restore(host, found, reason)
    problems = [f"{error.filename}: {error.strerror}" for error in errors]
    if not problems:  # else it can be tried again
        os.unlink(host.at(f"{JOURNAL}/{which}.json"))
        shutil.rmtree(host.at(f"{JOURNAL}/{found['folder']}"), ignore_errors=True)
    try:
        resume(host, found, at_boot=at_boot)
    except Failure as error:
        problems.append(str(error))
    disarm(host)
    if problems:
        raise Failure(f"rolled back with trouble: {'; '.join(problems)}")
    return {"ok": True, "release": before, "was_active": found["was_active"], "word": word}


def restore(host: Host, found: Json, reason: str) -> list[OSError]:
    """Put back the files and the release, and record that; returns what could not be done."""
    errors = []
    with host.lock("files"):
        for file in found["files"]:
            try:
                put_back(host, f"{JOURNAL}/{found['folder']}", file)
            except OSError as error:
                error.filename = file["path"]
                errors.append(error)
    entry = {name: found[name] for name in ("run", "release", "before")} | {"by": host.by}
    try:
        set_current(host, found["before"])
        # Before the unit: the files stay restored, whatever happens to that.
        record(host, **entry, outcome="rolled_back", reason=reason)
    except OSError as error:
        errors.append(error)
    return errors


def make_room(host: Host, found: Json, *, at_boot: bool) -> None:
    """The agent may be what fills the disk, or takes all its inodes: end it, and remove the release
    that is undone."""
    if not at_boot:  # else it waits for this
        stop(host, found["unit"])
    folder = host.at(f"{RELEASES}/{found['release']}")
    if found["release"] != found["before"] and os.path.isfile(f"{folder}/RELEASE"):
        shutil.rmtree(folder, ignore_errors=True)


def resume(host: Host, found: Json, *, at_boot: bool) -> None:
    """Let the unit be as it was."""
    unit = found["unit"]
    if not found["was_enabled"]:
        with contextlib.suppress(Failure):
            host.run("systemctl", "disable", "--quiet", unit)
    host.run("systemctl", "daemon-reload")
    if found["was_active"] and at_boot:
        host.run("systemctl", "--no-block", "restart", unit)
    elif found["was_active"]:
        start(host, unit, COMMAND_S)
    else:
        stop(host, unit)
        with contextlib.suppress(Failure):  # its unit file may be gone
            host.run("systemctl", "reset-failed", unit)


def expire(host: Host) -> Json:
    """The timer has run out: undo the switch that nobody confirmed.

    It waits as long as another program holds the host, which may be one that uploads a release: it
    is started once only. A switch that was made meanwhile has its own time, which this waits for,
    too: its timer cannot start what runs already.
    """
    while True:
        with host.lock(patience_s=math.inf):
            found = recorded(host, "pending")
            if found is None:
                return {"ok": True}
            if (left_s := left_of(host, found)) <= 0:
                return undo(host, "pending", "nobody confirmed it in time")
        time.sleep(min(left_s, LOOK_S))


def left_of(host: Host, found: Json) -> float:
    """The time that a switch has left; none if its deadline is that of another boot."""
    deadline_s = found.get("deadline_s")
    if found["boot_id"] != boot_id(host) or not isinstance(deadline_s, int | float):
        return 0.0
    most_s: float = found["window_s"]
    return min(deadline_s - time.monotonic(), most_s)


def boot(host: Host) -> Json:
    """The host has booted. If a switch is unconfirmed, restart its timer; but undo it after
    repeated boots, because a host that keeps rebooting would never let the timer run out."""
    found = recorded(host, "pending")
    now = boot_id(host)
    if found is None or found["boot_id"] == now:
        return {"ok": True}
    boots = found["boots"] + 1
    if boots > MAX_BOOTS:
        reason = f"it was started {boots} times before anybody confirmed it"
        return undo(host, "pending", reason, at_boot=True)
    deadline_s = time.monotonic() + found["window_s"]
    found |= {"boots": boots, "boot_id": now, "deadline_s": deadline_s}
    write_json(host, f"{JOURNAL}/pending.json", found)
    return {"ok": True}
