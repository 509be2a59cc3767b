"""Images of others: told apart by their files, and told in their own words who they are.

The files are laid out like those of Raspberry Pi OS; no real one is started here.
"""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from fleet.image.inject import MARK, ImageMark, NodeData
from fleet.image.stock import UnknownImageError, cloud_init, firstrun, recognise
from fleet.keys.ssh import HostKey

PRIVATE = b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
DATA = NodeData(
    node="iad4/n3",
    hostname="iad4-n3",
    user="fleet",
    authorized_keys=("ssh-ed25519 AAAA fleet campus", "ssh-ed25519 BBBB it's $(me)"),
    host_key=HostKey(PRIVATE, "ssh-ed25519 CCCC iad4/n3"),
)
FIRST = (
    b"console=tty1 root=PARTUUID=1-02 rootwait quiet init=/usr/lib/raspberrypi-sys-mods/firstboot\n"
)
IMAGER = FIRST.strip() + (
    b" systemd.run=/boot/firstrun.sh systemd.run_success_action=reboot"
    b" systemd.unit=kernel-command-line.target\n"
)


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({MARK: b'{"format":1,"release":"0.1.0-3f9c2a1b","model":"pi4"}'}, "sanderling"),
        ({"user-data": b"", "meta-data": b"", "cmdline.txt": FIRST}, "cloud-init"),
        ({"cmdline.txt": FIRST}, "firstrun"),
        ({"cmdline.txt": b"root=x\n", "issue.txt": b"Raspberry Pi reference 2024"}, "firstrun"),
    ],
)
def test_images_are_told_apart_by_their_files(files, kind):
    assert recognise(files)[0] == kind


def test_an_image_of_ours_says_what_it_is():
    mark = b'{"format":1,"release":"0.1.0-3f9c2a1b","model":"pi4"}'
    assert recognise({MARK: mark})[1] == ImageMark(1, "0.1.0-3f9c2a1b", "pi4")


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({}, "neither one of `fleet image build` nor"),
        ({"user-data": b""}, "neither one of"),
        ({"cmdline.txt": b"root=/dev/mmcblk0p2\n"}, "neither one of"),
        ({MARK: b'{"format":2,"release":"","model":""}'}, "is of another version"),
        ({MARK: b"{"}, "is of another version"),
    ],
)
def test_what_is_none_of_them_is_refused(files, line):
    with pytest.raises(UnknownImageError, match=line):
        recognise(files)


def config(content):
    text = content.decode()
    assert text.startswith("#cloud-config\n")
    return json.loads(text.partition("\n")[2])


def test_cloud_init_gets_user_keys_and_name():
    files = cloud_init(DATA, "a1")
    told = config(files["user-data"])
    assert told["hostname"] == "iad4-n3"
    assert told["ssh_keys"] == {
        "ed25519_private": PRIVATE.decode(),
        "ed25519_public": "ssh-ed25519 CCCC iad4/n3",
    }
    [user] = told["users"]
    assert user["ssh_authorized_keys"] == list(DATA.authorized_keys)
    assert user["lock_passwd"]
    assert not told["ssh_pwauth"]
    assert json.loads(files["meta-data"])["instance-id"] == "sanderling-a1"


def test_what_cloud_init_leaves_on_the_card_has_no_secret_and_keeps_the_host_key():
    files = cloud_init(DATA, "a1")
    kept = config(files["sanderling-user-data"])
    assert PRIVATE not in files["sanderling-user-data"]
    assert b"PRIVATE" not in files["sanderling-user-data"]
    assert kept["ssh_deletekeys"] is False
    [*_, (shell, option, script)] = config(files["user-data"])["runcmd"]
    assert (shell, option) == ("sh", "-c")
    assert "mv -f sanderling-user-data user-data" in script


def test_cloud_inits_last_command_does_what_it_says(tmp_path):
    files = cloud_init(DATA, "a1")
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    [*_, (shell, option, script)] = config(files["user-data"])["runcmd"]
    script = script.replace("/boot/firmware", str(tmp_path))
    subprocess.run([shell, option, script], check=True)
    assert (tmp_path / "user-data").read_bytes() == files["sanderling-user-data"]
    assert not (tmp_path / "sanderling-user-data").exists()


@pytest.mark.parametrize("before", [FIRST, IMAGER, IMAGER.strip()])
def test_the_kernel_starts_the_script_once(before):
    line = firstrun(DATA, before)["cmdline.txt"].decode()
    assert line.count("\n") == 1
    words = line.split()
    assert words[: len(FIRST.split())] == FIRST.decode().split()
    assert words[len(FIRST.split()) :] == [
        "systemd.run=/boot/firmware/firstrun.sh",
        "systemd.run_success_action=reboot",
        "systemd.unit=kernel-command-line.target",
    ]


STUBS = {
    "id": "exit 1",
    "getent": 'echo "fleet:x:1000:1000::$ROOT/home/fleet:/bin/bash"',
    "install": 'for last; do :; done; mkdir -p "$last"',
    **dict.fromkeys(("hostname", "useradd", "usermod", "chown", "systemctl"), ":"),
}


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_the_script_makes_a_node_and_removes_itself(tmp_path):
    for folder in ("bin", "boot/firmware", "etc/sudoers.d", "etc/ssh/sshd_config.d"):
        (tmp_path / folder).mkdir(parents=True)
    for name, text in STUBS.items():
        stub = tmp_path / "bin" / name
        stub.write_text(f"#!/bin/sh\necho {name} $* >>$ROOT/log\n{text}\n")
        stub.chmod(0o755)
    for name, content in firstrun(DATA, FIRST).items():
        text = content.decode()
        for folder in ("/etc/", "/boot/", "/usr/lib/"):
            text = text.replace(folder, f"{tmp_path}{folder}")
        (tmp_path / "boot/firmware" / name).write_text(text)
    (tmp_path / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1\traspberrypi\n")
    (tmp_path / "etc/ssh/ssh_host_rsa_key").touch()
    done = subprocess.run(
        ["bash", tmp_path / "boot/firmware/firstrun.sh"],
        env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "ROOT": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    assert done.stderr == b""
    etc = tmp_path / "etc"
    assert (etc / "hostname").read_text() == "iad4-n3\n"
    assert (etc / "hosts").read_text() == "127.0.0.1 localhost\n127.0.1.1\tiad4-n3\n"
    assert [path.name for path in sorted((etc / "ssh").glob("ssh_host*"))] == [
        "ssh_host_ed25519_key",
        "ssh_host_ed25519_key.pub",
    ]
    key = etc / "ssh/ssh_host_ed25519_key"
    assert (key.read_bytes(), key.stat().st_mode & 0o777) == (PRIVATE, 0o600)
    authorized = (tmp_path / "home/fleet/.ssh/authorized_keys").read_text()
    assert authorized.splitlines() == list(DATA.authorized_keys)
    assert "systemctl enable ssh" in (tmp_path / "log").read_text()
    assert (tmp_path / "boot/firmware/cmdline.txt").read_text() == (
        FIRST.decode().replace("/usr/lib/", f"{tmp_path}/usr/lib/")
    )
    assert not (tmp_path / "boot/firmware/firstrun.sh").exists()
