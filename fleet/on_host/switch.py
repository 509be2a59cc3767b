"""Switches a host to a release and its configuration, and applies the verdict."""

from __future__ import annotations

import contextlib
import os
import shutil

from fleet.on_host.check import check
from fleet.on_host.files import (
    current,
    ended,
    record,
    set_current,
    sync_folder,
    write_files,
)
from fleet.on_host.host import Failure, Host, Json, kind_of
from fleet.on_host.pending import of_whom, prepare, recorded, require_as_seen, require_unit
from fleet.on_host.places import JOURNAL, SYSUSERS
from fleet.on_host.undo import undo
from fleet.on_host.units import arm, disarm, last_word, start, unit_state


def switch(host: Host, request: Json, archive: bytes) -> Json:
    """Make the changes, unless the new agent rejects them; if one fails, undo all."""
    require_as_seen(host, request)
    check(host, request)
    pending = None
    try:
        with host.lock("files"):
            require_as_seen(host, request)  # keys may have been written during the check
            pending = prepare(host, request)
            arm(host, request["window_s"], archive)
            write_all(host, request)
        make(host, request)
    except Exception as error:
        if pending is None:  # nothing was begun
            raise
        try:
            undo(host, "pending", f"could not be switched to: {error}")
        except (Failure, OSError) as trouble:
            raise Failure(f"{error}; {trouble}", kind_of(error)) from None
        raise Failure(str(error), kind_of(error), rolled_back=pending["before"]) from None
    return {"ok": True, "before": pending["before"]}


def write_all(host: Host, request: Json) -> None:
    """Write the files, after the user that owns some of them is made."""
    of_users = [file for file in request["files"] if file["path"] == SYSUSERS]
    others = [file for file in request["files"] if file["path"] != SYSUSERS]
    write_files(host, request["unit"], of_users)
    if of_users or request["users"]:
        host.run("systemd-sysusers")
    write_files(host, request["unit"], others)


def make(host: Host, request: Json) -> None:
    """Make the other changes."""
    if request["rules"]:
        with contextlib.suppress(Failure):  # a host without devices of its own has no udev
            host.run("udevadm", "control", "--reload")
            host.run("udevadm", "trigger", "--subsystem-match=gpio")
    if request["release"] != current(host):
        set_current(host, request["release"])
    if request["units"]:
        host.run("systemctl", "daemon-reload")
    if request["enable"]:
        host.run("systemctl", "enable", "--quiet", request["unit"])
    if request["restart"]:
        host.say(at="restarting")
        start(host, request["unit"], request["start_s"])
    # The agent may already have reloaded these files, under its former configuration.
    with host.lock("files"):
        for path in request["gone"]:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(host.at(path))


def confirm(host: Host, request: Json) -> Json:
    """The verdict on a run is good. It may have been given before, and its reply lost."""
    found = recorded(host, "pending")
    if found is None or found["run"] != request["run"]:
        return passed(host, request["run"], found)
    require_unit(found, request["unit"])
    if request["check"] and not unit_state(host, found["unit"])[0]:
        word = last_word(host, found["unit"])
        undo(host, "pending", f"it ended after it had been healthy: {word}")
        raise Failure(f"it ended again: {word}", rolled_back=found["before"])
    disarm(host)
    os.replace(host.at(f"{JOURNAL}/pending.json"), host.at(f"{JOURNAL}/kept.json"))
    sync_folder(host.at(JOURNAL))
    for name in os.listdir(host.at(JOURNAL)):
        if name.startswith("saved-") and name != found["folder"]:
            shutil.rmtree(host.at(f"{JOURNAL}/{name}"), ignore_errors=True)
    record(host, run=found["run"], release=found["release"], before=found["before"], outcome="kept")
    return {"ok": True}


def passed(host: Host, run: str, found: Json | None) -> Json:
    """What came of a run that awaits no verdict any more; `found` is another one that does.
    Failure unless it was confirmed."""
    end = ended(host, run)
    if end is not None and end.get("outcome") == "kept":
        return {"ok": True}
    if end is not None:
        by = f" ({end['by']})" if end.get("by") else ""
        reason = f"it went back before the verdict came: {end.get('reason')}{by}"
        raise Failure(reason, rolled_back=end.get("before"))
    if found is not None:
        raise Failure(f"{of_whom(found)} deployed to it before the verdict came")
    raise Failure("it went back before the verdict came", rolled_back="")
