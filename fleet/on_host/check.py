"""Configuration check: the new release's agent validates its configuration before any change."""

from __future__ import annotations

import base64
import contextlib
import os
import shutil

from fleet.on_host.files import has_user, user, write
from fleet.on_host.host import COMMAND_S, Failure, Host, Json
from fleet.on_host.places import CONFIGURATION, RELEASES, STATE, TRIED, USER

# ProtectSystem=strict is not among them: where state is elsewhere, a drop-in of the unit says so.
CONFINED = (
    f"User={USER}",
    f"RuntimeMaxSec={COMMAND_S:g}",
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "DevicePolicy=closed",
    "PrivateTmp=yes",
    "ProtectHome=yes",
    "ProtectSystem=full",
    "ProtectControlGroups=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "SystemCallArchitectures=native",
)


def check(host: Host, request: Json) -> None:
    """Let the agent of the new release check its future configuration while the old agent, if any,
    keeps running. Failure with the agent's message; nothing is changed.

    Before a host's first deployment the agents' user and their state folder are missing. The check
    then runs as root, and the folder exists for its duration.
    """
    wanted = request.get("check")
    if not wanted:
        return
    program = host.at(f"{RELEASES}/{request['release']}/bin/{wanted['program']}")
    config = host.at(f"{TRIED}/{wanted['config']}")
    state = host.at(STATE)
    first = not os.path.isdir(state)
    try:
        lay_out(host, request)
        if first:
            os.makedirs(state, 0o755)
        command = (program, "--config", config, "--check", "--leave-sensors")
        host.run(*confined(host), *command, cwd="/")
    except Failure as error:
        text = str(error)
        said = text.partition(": error: ")[2] or text[max(0, text.find(program)) :]
        if said.startswith("option --leave-sensors not recognized"):
            return  # releases before this one have no such check
        said = said.replace(host.at(TRIED), CONFIGURATION)
        what = f"nothing was touched, as {request['release']} refuses: {said}"
        raise Failure(what, refused=True) from None
    finally:
        forget_tried(host)
        if first:
            with contextlib.suppress(OSError):
                os.rmdir(state)


def forget_tried(host: Host) -> None:
    """Remove the files of a check that may have been killed: they include keys."""
    shutil.rmtree(host.at(TRIED), ignore_errors=True)


def confined(host: Host) -> list[str]:
    """What runs a command as the agents' user, within much of what their units allow: the agent
    that runs has all rights over a process of its user, and would leave its own sandbox through it.
    Empty if the user does not exist yet."""
    if host.root or not has_user(USER):
        return []
    words = ["systemd-run", "--quiet", "--wait", "--pipe", "--collect"]
    return [*words, *(f"--property={each}" for each in CONFINED), "--"]


def lay_out(host: Host, request: Json) -> None:
    """Write the configuration folder as it would be after the switch."""
    top, tried = host.at(CONFIGURATION), host.at(TRIED)
    os.makedirs(tried, 0o755)
    for folder, folders, names in os.walk(top):
        beside = tried + folder[len(top) :]
        for name in folders:
            if not os.path.islink(f"{folder}/{name}"):
                os.mkdir(f"{beside}/{name}", 0o755)
        for name in names + [each for each in folders if os.path.islink(f"{folder}/{each}")]:
            if f"{folder}/{name}"[len(host.root) :] not in request["gone"]:
                os.symlink(f"{folder}/{name}", f"{beside}/{name}")
    for file in request["files"]:
        if file["path"].startswith(f"{CONFIGURATION}/"):
            path = TRIED + file["path"][len(CONFIGURATION) :]
            content = base64.b64decode(file["content"])
            owner = user(host, file["owner"]) if has_user(file["owner"]) else (0, 0)
            write(host, path, content, file["mode"], owner)
