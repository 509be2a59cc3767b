"""The undo record of a switch, on stable storage before anything is changed."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import stat
import time
from typing import Any

from fleet.on_host.files import current, digest_of, read, read_json, write, write_json
from fleet.on_host.host import Failure, Host, Json
from fleet.on_host.places import JOURNAL, RELEASES
from fleet.on_host.units import unit_state

# What an undo record has, and of what type; those of earlier versions lack `boots` and `window_s`.
FIELDS: dict[str, Any] = {
    "before": str, "folder": str, "files": list, "unit": str, "was_active": bool,
    "was_enabled": bool, "run": str, "release": str, "boot_id": str,
}  # fmt: skip


def recorded(host: Host, which: str) -> Json | None:
    """An undo record: `pending`, or `kept`; None if there is none. Failure if it is damaged."""
    path = f"{JOURNAL}/{which}.json"
    if not os.path.lexists(host.at(path)):
        return None
    found = read_json(host, path)
    if found is None or not _whole(found):
        what = "so that what was there before is not known; fleet deploy sets the host up again"
        raise Failure(f"{path} is damaged, {what}")
    return found


def _whole(found: Json) -> bool:
    files = found.get("files")
    return (
        all(isinstance(found.get(name), kind) for name, kind in FIELDS.items())
        and isinstance(found.setdefault("boots", 0), int)
        and isinstance(found.setdefault("window_s", 0.0), int | float)
        and re.fullmatch("saved-[0-9]+", found["folder"]) is not None
        and "/" not in found["before"] + found["release"]
        and isinstance(files, list)
        and all(isinstance(file, dict) and {"path", "saved", "wrote"} <= {*file} for file in files)
    )


def of_whom(found: Json) -> str:
    """Whose switch it is; records of earlier versions do not say."""
    return f"{found.get('by') or 'another operator'} (run {found['run']})"


def require_as_seen(host: Host, request: Json) -> None:
    """Failure, with `changed` among its details, if the host is not as it was when its changes were
    planned: another operator deployed to it, a timer undid a switch, or keys were written. What was
    planned would then be only half of what it needs, or bring back keys that were revoked."""
    seen = request.get("seen")
    if seen is None:
        return
    found = read_json(host, f"{JOURNAL}/pending.json") or {}
    release = request["release"]
    what = ""
    if found.get("run", "") != seen["run"]:
        what = f"{of_whom(found)} switched it" if found.get("run") else "its last switch was undone"
    elif current(host) != seen["current"]:
        what = f"its release became {current(host) or 'none'}"
    elif not os.path.exists(host.at(f"{RELEASES}/{release}/RELEASE")):
        what = f"release {release} was removed"
    else:
        changed = [path for path, was in seen["files"].items() if digest_of(host, path) != was]
        what = f"{changed[0]} was changed" if changed else ""
    if what:
        raise Failure(f"{what} since it was looked at", changed=True)


def prepare(host: Host, request: Json) -> Json:
    """Store the undo record before anything is changed. If an earlier switch is still unconfirmed,
    its record stays: undoing returns to the state before that. A damaged one is replaced."""
    found = None
    with contextlib.suppress(Failure):
        found = recorded(host, "pending")
    if found is None:
        active, enabled = unit_state(host, request["unit"])
        found = {
            "before": current(host),
            "folder": f"saved-{time.time_ns()}",
            "files": [],
            "unit": request["unit"],
            "was_active": active,
            "was_enabled": enabled,
        }
    require_unit(found, request["unit"])
    folder = f"{JOURNAL}/{found['folder']}"
    os.makedirs(host.at(folder), mode=0o700, exist_ok=True)
    becomes = {
        file["path"]: hashlib.sha256(base64.b64decode(file["content"])).hexdigest()
        for file in request["files"]
    }
    saved = {file["path"]: file for file in found["files"]}
    for path in (*becomes, *request["gone"]):
        if path not in saved:
            saved[path] = save(host, folder, path, len(saved))
            found["files"].append(saved[path])
        saved[path]["wrote"].append(becomes.get(path))
    found |= {
        "run": request["run"],
        "by": host.by,
        "release": request["release"],
        "boots": 0,
        "boot_id": boot_id(host),
        "window_s": request["window_s"],
        "deadline_s": time.monotonic() + request["window_s"],
    }
    write_json(host, f"{JOURNAL}/pending.json", found)
    return found


def require_unit(found: Json, unit: str) -> None:
    """Failure if a switch of another unit is pending: of two agents on a host one is undone at a
    time."""
    if found["unit"] != unit:
        raise Failure(f"the last deployment on it was that of {found['unit']}")


def save(host: Host, folder: str, path: str, number: int) -> Json:
    """Save a file as it is. `wrote` gets the digests of the files that replace it."""
    try:
        content, status = read(host.at(path))
    except FileNotFoundError:
        return {"path": path, "saved": None, "wrote": []}
    write(host, f"{folder}/{number}", content, 0o600)
    owner = [status.st_uid, status.st_gid]
    mode = stat.S_IMODE(status.st_mode)
    return {"path": path, "saved": str(number), "mode": mode, "owner": owner, "wrote": []}


def put_back(host: Host, folder: str, file: Json) -> None:
    """Restore a file, unless it was changed by something else since, such as a key rotation."""
    try:
        if hashlib.sha256(read(host.at(file["path"]))[0]).hexdigest() not in file["wrote"]:
            return
    except FileNotFoundError:
        pass
    if file["saved"] is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(host.at(file["path"]))
        return
    saved = read(host.at(f"{folder}/{file['saved']}"))[0]
    write(host, file["path"], saved, file["mode"], tuple(file["owner"]))


def boot_id(host: Host) -> str:
    try:
        with open(host.at("/proc/sys/kernel/random/boot_id"), encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
