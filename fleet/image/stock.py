"""First-boot customization of stock Raspberry Pi OS images.

cloud-init's NoCloud (Raspberry Pi OS from Trixie on) reads user-data and meta-data from the boot
partition; JSON is YAML, so both are written as JSON. Before that, Raspberry Pi Imager leaves a
script firstrun.sh there and has the kernel's command line start it once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from shlex import quote
from typing import Any, Final, Literal

import msgspec

from fleet.common.exits import CommandError
from fleet.image.inject import MARK, ImageMark, NodeData, authorized
from fleet.image.wifi import network_config, set_wlan

Kind = Literal["sanderling", "cloud-init", "firstrun"]
# Files that are read to recognise an image.
TELLING: Final = (MARK, "user-data", "meta-data", "cmdline.txt", "issue.txt")
FIRST_BOOT: Final = re.compile(r"\binit=/usr/lib/raspberrypi-sys-mods/firstboot\b")
STARTED: Final = re.compile(r"\s+systemd\.(run|run_success_action|unit)=\S*")
RUN: Final = (
    " systemd.run=/boot/firmware/firstrun.sh systemd.run_success_action=reboot"
    " systemd.unit=kernel-command-line.target"
)


class UnknownImageError(CommandError):
    """The image follows no known first-boot convention; the text is one line."""


def recognise(files: Mapping[str, bytes | None]) -> tuple[Kind, ImageMark | None]:
    """The convention that an image follows, by its files among TELLING (None: missing), and the
    self-description of one of our images. UnknownImageError if it is unknown."""
    if (mark := files.get(MARK)) is not None:
        try:
            return "sanderling", msgspec.json.decode(mark, type=ImageMark)
        except msgspec.DecodeError as error:
            raise UnknownImageError(
                f"the image's {MARK} is of another version: {error}; build it again"
            ) from None
    if files.get("user-data") is not None and files.get("meta-data") is not None:
        return "cloud-init", None
    command_line = (files.get("cmdline.txt") or b"").decode(errors="replace")
    issue = files.get("issue.txt") or b""
    if FIRST_BOOT.search(command_line) or (
        command_line and issue.startswith(b"Raspberry Pi reference")
    ):
        return "firstrun", None
    raise UnknownImageError(
        "the image is neither one of `fleet image build` nor a Raspberry Pi OS with cloud-init "
        "(user-data, meta-data) or firstrun.sh"
    )


def cloud_init(data: NodeData, number: str) -> dict[str, bytes]:
    """Files for NoCloud. `number` makes it an instance that is new to cloud-init.

    cloud-init leaves user-data in place, and the host key in it. Therefore its last commands
    replace it, and network-config, by ones without secrets, of the same instance.
    """
    lasting: dict[str, Any] = {
        "hostname": data.hostname,
        "manage_etc_hosts": True,
        "ssh_pwauth": False,
        "ssh_deletekeys": False,
        "users": [
            {
                "name": data.user,
                "gecos": "Sanderling",
                "shell": "/bin/bash",
                "lock_passwd": True,
                "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "ssh_authorized_keys": list(data.authorized_keys),
            }
        ],
    }
    once: dict[str, Any] = {
        "ssh_deletekeys": True,
        "ssh_keys": {
            "ed25519_private": data.host_key.private.decode(),
            "ed25519_public": data.host_key.public,
        },
        "runcmd": [
            ["systemctl", "enable", "--now", "ssh"],
            ["sh", "-c", _HIDE.format(name="user-data", kept="sanderling-user-data")],
        ],
    }
    files = {
        "sanderling-user-data": _cloud_config(lasting),
        "meta-data": _json(
            {"instance-id": f"sanderling-{number}", "local-hostname": data.hostname}
        ),
    }
    if data.wifi:
        # Read once for an instance; so later boots of this one need neither name nor key.
        files["sanderling-network-config"] = _json({"network": {"config": "disabled"}})
        files["network-config"] = network_config(data.wifi)
        hide = _HIDE.format(name="network-config", kept="sanderling-network-config")
        once["runcmd"].append(["sh", "-c", hide])
    return {**files, "user-data": _cloud_config({**lasting, **once})}


# Overwritten before it is replaced: the content of an unlinked file can still be read from the
# card.
_HIDE: Final = (
    "cd /boot/firmware && head -c $(stat -c %s {name}) /dev/zero "
    "| dd of={name} conv=notrunc,fsync status=none && mv -f {kept} {name} && sync"
)


def firstrun(data: NodeData, command_line: bytes) -> dict[str, bytes]:
    """Files for Raspberry Pi Imager's convention: the script, and the kernel command line that
    starts it."""
    before = STARTED.sub("", command_line.decode().strip())
    script = _FIRSTRUN.format(
        hostname=quote(data.hostname),
        user=quote(data.user),
        keys=quote(authorized(data)),
        private=quote(data.host_key.private.decode()),
        public=quote(data.host_key.public),
        wifi=set_wlan(data.wifi) if data.wifi else "",
    )
    return {"firstrun.sh": script.encode(), "cmdline.txt": f"{before}{RUN}\n".encode()}


# Everything is in a function, which the shell has read completely before the file is overwritten.
_FIRSTRUN: Final = """\
#!/bin/bash
# Written by `fleet image flash`; runs once, as root, and removes itself.
set +e

main() {{
    name={hostname}
    user={user}
    echo "$name" >/etc/hostname
    hostname "$name"
    sed -i '/^127\\.0\\.1\\.1\\s/d' /etc/hosts
    printf '127.0.1.1\\t%s\\n' "$name" >>/etc/hosts

    # The first user of Raspberry Pi OS is renamed; its own tool also ends the wizard for that.
    if ! id "$user" >/dev/null 2>&1 && [ -x /usr/lib/userconf-pi/userconf ]; then
        /usr/lib/userconf-pi/userconf "$user" '*'
    fi
    id "$user" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$user"
    usermod --lock "$user"
    printf '%s ALL=(ALL) NOPASSWD:ALL\\n' "$user" >/etc/sudoers.d/010_sanderling
    chmod 440 /etc/sudoers.d/010_sanderling

    home=$(getent passwd "$user" | cut -d: -f6)
    install -d -m 700 -o "$user" -g "$user" "$home/.ssh"
    printf '%s' {keys} >"$home/.ssh/authorized_keys"
    chown "$user:$user" "$home/.ssh/authorized_keys"
    chmod 600 "$home/.ssh/authorized_keys"

    systemctl disable regenerate_ssh_host_keys.service 2>/dev/null
    rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub
    (umask 077 && printf '%s' {private} >/etc/ssh/ssh_host_ed25519_key)
    printf '%s\\n' {public} >/etc/ssh/ssh_host_ed25519_key.pub
    printf 'PasswordAuthentication no\\n' >/etc/ssh/sshd_config.d/10-sanderling.conf
    systemctl enable ssh
{wifi}
    sed -i -E 's/ systemd\\.(run|run_success_action|unit)=[^ ]*//g' /boot/firmware/cmdline.txt
    sync
    head -c "$(stat -c %s /boot/firmware/firstrun.sh)" /dev/zero |
        dd of=/boot/firmware/firstrun.sh conv=notrunc,fsync status=none
    rm -f /boot/firmware/firstrun.sh
    sync
    exit 0
}}

main
"""


def _cloud_config(document: dict[str, Any]) -> bytes:
    return b"#cloud-config\n" + _json(document)


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()
