"""Changes a host, and prints progress as lines of JSON. It has eight actions:

    stage     remove releases that are too many, take a bundle from standard input, check it,
              unpack it to releases/<release>
    switch    have the new release check its configuration; then write files, set `current`,
              restart the unit; undo all at once if that fails
    confirm   the deployment is good: what undoes it is kept, no timer waits any more
    undo      put back the release and the files from before the last switch
    remove    remove releases
    write     write files that agents notice by themselves, such as keys
    boot      the host was started again before the verdict: wait anew, or undo
    expire    the timer has run out: undo what nobody confirmed

Before `switch` touches anything, what undoes it is on the disk, and a timer of systemd is armed
that does so unless `confirm` comes first: a host that lost its operator goes back by itself. The
timer is armed again, for the whole time, when the host is started meanwhile; when it is started a
second time, as one that panics, it goes back before its agent starts.

    /var/lib/sanderling-deploy/pending.json    what undoes a switch that awaits its verdict
                               kept.json       the same of the last one that was confirmed
                               saved-*/        the files for that, as they were
                               written.json    by unit, the files that were ever written
                               undo.py         this archive, for the timer and for the start
                               journal.jsonl   what happened
"""

from __future__ import annotations

import os
import sys
from typing import Any

from fleet.on_host.check import forget_tried
from fleet.on_host.files import write_files
from fleet.on_host.host import Failure, Host, Json, kind_of
from fleet.on_host.places import CONFIGURATION
from fleet.on_host.releases import remove, stage
from fleet.on_host.switch import confirm, switch
from fleet.on_host.undo import boot, expire, undo_run


def write_now(host: Host, request: Json) -> Json:
    """Write files independently of a deployment in progress."""
    if not os.path.isdir(host.at(CONFIGURATION)):
        raise Failure(f"there is no {CONFIGURATION} yet; fleet deploy sets it up")
    with host.lock("files"):
        return {"ok": True, "written": write_files(host, request["unit"], request["files"])}


def do(host: Host, request: Json, archive: bytes, data: Any) -> Json:
    """Carry the request out; Failure."""
    what = request["do"]
    if what == "write":
        return write_now(host, request)
    if what == "expire":
        return expire(host)
    with host.lock():
        forget_tried(host)
        if what == "stage":
            return stage(host, request, data)
        if what == "switch":
            return switch(host, request, archive)
        if what == "confirm":
            return confirm(host, request)
        if what == "remove":
            return remove(host, request["remove"])
        if what == "boot":
            return boot(host)
        return undo_run(host, request)


def main(request: Json, archive: bytes) -> None:
    """Do it and print how it ended."""
    os.umask(0o022)
    host = Host(request.get("root", "/"), request.get("tools", ""), request.get("by", ""))
    host.beat()
    try:
        host.say(**do(host, request, archive, sys.stdin.buffer))
    except Failure as error:
        host.say(error=str(error), kind=error.kind, **error.more)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        host.say(error=f"{where}{error.strerror or error}", kind=kind_of(error))
    except Exception as error:  # noqa: BLE001 - one line instead of a traceback, whatever it is
        host.say(error=f"{type(error).__name__}: {error}", kind="failed")
