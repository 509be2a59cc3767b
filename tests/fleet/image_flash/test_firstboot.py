"""The first boot's program, with the power cut at every step of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import types
from pathlib import Path

import pytest

from fleet.image.inject import NodeData, payload
from fleet.image.wifi import network
from fleet.inventory.files import HostFile
from fleet.keys.ssh import HostKey

PROGRAM = Path(__file__).parents[3] / "images/firstboot/sanderling-firstboot"
SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----\nnode's own\n-----END OPENSSH PRIVATE KEY-----\n"
NODE_SECRET = b"curve secret\n"
HOME = network("IEEE", "DE", "password")
# Before each of these the power may fail.
CHANGES = {
    *("open", "write", "fsync", "close", "fchmod", "fchown"),
    *("rename", "unlink", "mkdir", "rmdir"),
}


def data(**changes):
    made = NodeData(
        node="iad4/n3",
        hostname="iad4-n3",
        user="fleet",
        authorized_keys=("ssh-ed25519 AAAA operator",),
        host_key=HostKey(SECRET, "ssh-ed25519 BBBB"),
        files=(
            HostFile("edge.toml", b'[node]\nname = "n3"\n'),
            HostFile("keys/node.secret", NODE_SECRET, 0o600, "sanderling", False),
            HostFile("keys/master.public", b"public\n"),
        ),
        wifi=HOME,
    )
    return made._replace(**changes)


CODE = compile(PROGRAM.read_text(), str(PROGRAM), "exec")


def load(system=os):
    """The program as a module, with `system` as its os."""
    module = types.ModuleType("firstboot")
    exec(CODE, module.__dict__)  # it is a program, not a package's module
    module.os = system
    return module


class Card:
    """A boot partition and a root file system, as folders."""

    def __init__(self, folder, written=None, number="a1"):
        self.boot, self.root = folder / "boot", folder / "root"
        (self.boot / "sanderling").mkdir(parents=True)
        (self.boot / "sanderling/image.json").write_text("{}")
        me = f"{os.getuid()}:{os.getgid()}"
        for name, content in {
            "etc/passwd": f"root:x:{me}::/root:/bin/sh\nsanderling:x:{me}::/:/bin/sh\n"
            f"fleet:x:{me}::/home/fleet:/bin/bash\n",
            "etc/hosts": "127.0.0.1\tlocalhost\n127.0.1.1\tsanderling\n",
            "etc/hostname": "sanderling\n",
            "etc/ssh/ssh_host_rsa_key": "not pinned",
            "etc/ssh/ssh_host_rsa_key.pub": "not pinned",
        }.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.inject(written or data(), number)

    def inject(self, written, number):
        for name, content in payload(written, number).items():
            path = self.boot / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def start(self, system=os):
        return load(system).main(["--boot", str(self.boot), "--root", str(self.root)])

    def left(self):
        """What is in the card's folder."""
        folder = self.boot / "sanderling"
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))

    def applied(self):
        """What the node is now: content and mode of each file."""
        found = {}
        for path in sorted(self.root.rglob("*")):
            if path.is_file():
                found[str(path.relative_to(self.root))] = (
                    path.read_bytes(),
                    stat.S_IMODE(path.stat().st_mode),
                )
        return found


def assert_done(card):
    found = card.applied()
    assert found["etc/hostname"][0] == b"iad4-n3\n"
    assert found["etc/hosts"][0] == b"127.0.0.1\tlocalhost\n127.0.1.1\tiad4-n3\n"
    assert found["etc/ssh/ssh_host_ed25519_key"] == (SECRET, 0o600)
    assert found["etc/ssh/ssh_host_ed25519_key.pub"] == (b"ssh-ed25519 BBBB\n", 0o644)
    assert found["home/fleet/.ssh/authorized_keys"] == (b"ssh-ed25519 AAAA operator\n", 0o600)
    assert found["etc/sanderling/edge.toml"] == (b'[node]\nname = "n3"\n', 0o644)
    assert found["etc/sanderling/keys/node.secret"] == (NODE_SECRET, 0o600)
    joined, mode = found["etc/wpa_supplicant/wpa_supplicant-wlan0.conf"]
    assert (f"psk={HOME.key}".encode() in joined, mode) == (True, 0o600)
    assert not [name for name in found if "rsa" in name or name.endswith(".firstboot")]
    assert stat.S_IMODE((card.root / "home/fleet/.ssh").stat().st_mode) == 0o700
    assert card.left() == ["image.json"]


def test_a_card_becomes_its_node_and_keeps_no_secret(tmp_path):
    card = Card(tmp_path)
    assert card.start() == 0
    assert_done(card)


def test_a_disk_that_takes_a_part_of_each_write_gets_all_of_it(tmp_path):
    card = Card(tmp_path)

    class System:
        def __getattr__(self, name):
            return getattr(os, name)

        def write(self, file, content):
            return os.write(file, content[:7])

    assert card.start(System()) == 0
    assert_done(card)


@pytest.mark.parametrize("link", [".ssh", ".ssh/.authorized_keys.firstboot"])
def test_a_link_in_a_users_folder_leads_to_nothing(tmp_path, link):
    card = Card(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/file").write_text("mine")
    (card.root / "home/fleet/.ssh").parent.mkdir(parents=True)
    target = tmp_path / ("mine" if link == ".ssh" else "mine/file")
    place = card.root / "home/fleet" / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(target)
    assert card.start() == 1
    assert "error.txt" in card.left()
    assert [each.name for each in (tmp_path / "mine").iterdir()] == ["file"]
    assert (tmp_path / "mine/file").read_text() == "mine"


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"format": 1, "files": [{"name": 3}]}'])
def test_a_manifest_that_cannot_be_read_is_told(tmp_path, capsys, text):
    card = Card(tmp_path)
    (card.boot / "sanderling/manifest.json").write_text(text)
    before = card.applied()
    assert card.start() == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert "manifest cannot be read" in (card.boot / "sanderling/error.txt").read_text()
    assert card.applied() == before


def test_a_second_boot_changes_nothing(tmp_path):
    card = Card(tmp_path)
    card.start()
    before = card.applied()
    assert card.start() == 0
    assert card.applied() == before


def test_a_card_that_was_injected_again_becomes_the_other_node(tmp_path):
    card = Card(tmp_path)
    card.start()
    card.inject(data(hostname="iad4-n4"), "b2")
    assert card.start() == 0
    assert (card.root / "etc/hostname").read_text() == "iad4-n4\n"
    assert (card.root / "etc/hosts").read_text().count("127.0.1.1") == 1
    assert card.left() == ["image.json"]


def test_it_runs_as_the_unit_starts_it(tmp_path):
    card = Card(tmp_path)
    command = [PROGRAM, "--boot", card.boot, "--root", card.root]
    done = subprocess.run([sys.executable, "-IS", *command], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert_done(card)


def test_the_unit_comes_before_whoever_uses_what_it_writes():
    unit = PROGRAM.with_name("sanderling-firstboot.service").read_text()
    [before] = [line for line in unit.splitlines() if line.startswith("Before=sysinit.target")]
    assert {"ssh.service", "sanderling-edge.service"} <= set(before.split())
    assert "DefaultDependencies=no" in unit  # or it would wait for sysinit.target itself
    assert "RequiresMountsFor=/boot/firmware" in unit


# --- what cannot be applied -----------------------------------------------------------------------


def _drop(card):
    (card.boot / "sanderling/files/edge.toml").unlink()


def _spoil(card):
    (card.boot / "sanderling/ssh_host_ed25519_key").write_bytes(SECRET[:-9])


def _later(card):
    _edit(card, lambda manifest: manifest.update(format=2))


def _escape(card):
    _edit(card, lambda manifest: manifest["files"][-1].update(name="files/../../shadow"))


def _stranger(card):
    _edit(card, lambda manifest: manifest["files"][-1].update(owner="nobody-here"))


def _half(card):
    path = card.boot / "sanderling/manifest.json"
    path.write_bytes(path.read_bytes()[:100])


def _edit(card, change):
    path = card.boot / "sanderling/manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        (_drop, "files/edge.toml is missing"),
        (_spoil, "ssh_host_ed25519_key is not what was written"),
        (_later, "its manifest has format 2, not 1"),
        (_escape, "its manifest names 'files/../../shadow'"),
        (_stranger, "there is no user nobody-here here"),
        (_half, "its manifest cannot be read"),
    ],
)
def test_what_cannot_be_applied_is_told_and_changes_nothing(tmp_path, capsys, harm, line):
    card = Card(tmp_path)
    harm(card)
    before = card.applied()
    assert card.start() == 1
    assert card.applied() == before
    said = capsys.readouterr().err
    assert line in said
    assert said.count("\n") == 1
    assert line in (card.boot / "sanderling/error.txt").read_text()


def test_after_a_failure_a_good_card_is_applied_and_the_note_removed(tmp_path):
    card = Card(tmp_path)
    _drop(card)
    card.start()
    card.inject(data(), "b2")
    assert card.start() == 0
    assert_done(card)


# --- power cuts -----------------------------------------------------------------------------------


class PowerCutError(BaseException):
    """The machine is off."""


class FailingSystem:
    """The module os, until the power fails at the step `at`.

    What no fsync has made sure of is lost, or is not: `lost` says which. A file that was not
    synced is cut to half its length; a rename or a removal whose folder was not synced is undone.
    """

    def __init__(self, at, lost):
        self.at, self.lost, self.steps = at, lost, 0
        self.dead = False
        self.files = {}  # descriptor → path
        self.unsynced = []  # (path, what undoes a change to it), first to last

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in CHANGES:
            return real

        def step(*arguments, **named):
            self._count()
            return getattr(self, f"_{name}", real)(*arguments, **named)

        return step

    def _count(self):
        if self.dead or self.steps == self.at:
            self._cut()
        self.steps += 1

    def _cut(self):
        if not self.dead and self.lost:
            for _, undo in reversed(self.unsynced):
                undo()
        self.dead = True
        raise PowerCutError

    def _open(self, path, flags, mode=0o777):
        created = flags & os.O_CREAT and not Path(path).exists()
        file = os.open(path, flags, mode)
        self.files[file] = str(path)
        if created:
            folder = str(Path(path).parent)
            self._later(folder, lambda: Path(path).unlink(missing_ok=True))
        return file

    def _write(self, file, content):
        path = Path(self.files[file])
        before = path.read_bytes()

        def undo():
            if path.exists():
                path.write_bytes(before[: len(before) // 2] or content[: len(content) // 2])

        self._later(str(path), undo)
        return os.write(file, content)

    def _fsync(self, file):
        self.unsynced = [each for each in self.unsynced if each[0] != self.files[file]]

    def _close(self, file):
        del self.files[file]
        os.close(file)

    def _rename(self, old, new):
        before = Path(new).read_bytes() if Path(new).exists() else None
        content = Path(old).read_bytes()
        Path(old).rename(new)

        def undo():
            Path(old).write_bytes(content)
            if before is None:
                Path(new).unlink()
            else:
                Path(new).write_bytes(before)

        self._later(str(Path(new).parent), undo)

    def _unlink(self, path):
        content = Path(path).read_bytes()
        Path(path).unlink()
        self._later(str(Path(path).parent), lambda: Path(path).write_bytes(content))

    def _rmdir(self, path):
        Path(path).rmdir()
        # With the folder above it gone for good, there is nothing to come back to.
        self.unsynced = [each for each in self.unsynced if each[0] != str(path)]
        self._later(str(Path(path).parent), lambda: Path(path).mkdir(exist_ok=True))

    def _later(self, path, undo):
        self.unsynced.append((path, undo))


def unharmed():
    """A system whose power stays; it waits for no disk."""
    return FailingSystem(-1, lost=False)


def steps_of_all(tmp_path):
    system = unharmed()
    Card(tmp_path).start(system)
    return system.steps


def assert_secret_is_somewhere(card):
    on_card = card.boot / "sanderling/ssh_host_ed25519_key"
    if not on_card.exists() or on_card.read_bytes() != SECRET:
        found = card.applied()
        assert found["etc/ssh/ssh_host_ed25519_key"] == (SECRET, 0o600)
        assert "var/lib/sanderling-firstboot/applied" in found


@pytest.mark.parametrize(
    "lost",
    [pytest.param(False, marks=pytest.mark.long, id="kept"), pytest.param(True, id="lost")],
)
def test_after_a_cut_at_any_step_the_next_boot_goes_on(tmp_path, lost):
    steps = steps_of_all(tmp_path / "whole")
    assert steps > 100
    for at in range(steps):
        card = Card(tmp_path / str(at))
        with pytest.raises(PowerCutError):
            card.start(FailingSystem(at, lost))
        assert_secret_is_somewhere(card)
        assert card.start(unharmed()) == 0, at
        assert_done(card)


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_after_two_cuts_the_next_boot_goes_on(tmp_path, lost):
    steps = steps_of_all(tmp_path / "whole")
    for first in range(0, steps, 37):
        for second in range(0, steps, 41):
            card = Card(tmp_path / f"{first}-{second}")
            with pytest.raises(PowerCutError):
                card.start(FailingSystem(first, lost))
            try:
                assert card.start(FailingSystem(second, lost)) == 0
            except PowerCutError:
                assert card.start(unharmed()) == 0, (first, second)
            assert_done(card)
