"""Switches a host to a release and its configuration, and applies the verdict."""

from __future__ import annotations

import contextlib
import os
import shutil

from fleet.on_host.check import check
from fleet.on_host.files import (
    current,
    record,
    set_current,
    sync_folder,
    write_files,
)
from fleet.on_host.host import Failure, Host, Json, kind_of
from fleet.on_host.pending import prepare, recorded, require_unit
from fleet.on_host.places import JOURNAL, SYSUSERS
from fleet.on_host.undo import undo
from fleet.on_host.units import arm, disarm, last_word, start, unit_state


def switch(host: Host, request: Json, archive: bytes) -> Json:
    """Make the changes, unless the new agent rejects them; if one fails, undo all."""
    check(host, request)
    pending = prepare(host, request)
    try:
        arm(host, request["window_s"], archive)
        make(host, request)
    except Exception as error:  # noqa: BLE001 - whatever it is, the host goes back at once
        try:
            undo(host, "pending", f"could not be switched to: {error}")
        except (Failure, OSError) as trouble:
            raise Failure(f"{error}; {trouble}", kind_of(error)) from None
        raise Failure(str(error), kind_of(error), rolled_back=pending["before"]) from None
    return {"ok": True, "before": pending["before"]}


def make(host: Host, request: Json) -> None:
    of_users = [file for file in request["files"] if file["path"] == SYSUSERS]
    others = [file for file in request["files"] if file["path"] != SYSUSERS]
    with host.lock("files"):
        write_files(host, request["unit"], of_users)
        if of_users or request["users"]:
            host.run("systemd-sysusers")
        write_files(host, request["unit"], others)
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
    """The verdict is good."""
    found = recorded(host, "pending")
    if found is None or found["release"] != request["release"]:
        raise Failure("it went back by itself before the verdict came", rolled_back="")
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
