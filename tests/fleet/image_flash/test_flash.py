"""`fleet image flash` into a file that stands for a card."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from fleet.cli.commands import run as fleet_command
from fleet.common import exits
from fleet.image import flash as flashing
from fleet.image import target
from fleet.image.devices import Unfit
from fleet.image.fat import Fat
from fleet.image.inject import ImageMark
from fleet.inventory.files import files_of
from fleet.inventory.folder import Folder
from fleet.inventory.loader import load
from fleet.inventory.parties import hostname_of, hosts
from fleet.keys.store import Store
from tests.fleet.image_flash.cards import make_bmap, make_image, needs_tools

pytestmark = needs_tools

FLEET = """
name = "campus"
[[iad]]
name = "iad4"
[iad.master]
address = "127.0.0.1"
local = true
listen = "127.0.0.1"
nodes_address = "10.0.2.2"
[[iad.node]]
name = "n3"
address = "10.0.0.3"
areas = ["b1/f4"]
[[iad.node.sensor]]
driver = "synthetic"
[[iad.node]]
name = "n4"
address = "10.0.0.4"
model = "pi3"
areas = ["b1/f5"]
[[iad.node.sensor]]
driver = "synthetic"
"""
MARK = msgspec.json.encode(ImageMark(1, "0.1.0-3f9c2a1b", "pi4"))
CMDLINE = b"console=tty1 root=PARTUUID=1-02 rootwait init=/usr/lib/raspberrypi-sys-mods/firstboot\n"
OURS = {"sanderling/image.json": MARK, "cmdline.txt": b"root=LABEL=rootfs\n"}
TRIXIE = {
    "user-data": b"#cloud-config\n",
    "meta-data": b"instance-id: rpi\n",
    "network-config": b"{}",
}
BOOKWORM = {"cmdline.txt": CMDLINE, "issue.txt": b"Raspberry Pi reference 2024-11-19\n"}


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "fleet")
    made.root.mkdir()
    made.inventory.write_text(FLEET)
    Store(made).ensure(load(made))
    return made


@pytest.fixture
def image(tmp_path):
    path = make_image(tmp_path / "pi4.img", OURS)
    make_bmap(path)
    return path


def flash(folder, image, card, *more, node="iad4/n3"):
    words = ["image", "flash", str(image), "--node", node, "--device", str(card)]
    return fleet_command([*words, "--fleet", str(folder.root), *more])


def test_a_card_carries_its_nodes_data(folder, image, tmp_path, capsys):
    card = tmp_path / "n3.img"
    assert flash(folder, image, card, "--yes", "--json") == exits.DONE
    done = json.loads(capsys.readouterr().out)
    fleet, store = load(folder), Store(folder)
    [host] = [each for each in hosts(fleet) if each.name == "iad4/n3"]
    fat = Fat(card)
    assert fat.read("sanderling/hostname") == b"iad4-n3\n"
    assert fat.read("sanderling/ssh_host_ed25519_key") == store.host_key("iad4/n3").private
    assert fat.read("sanderling/authorized_keys") == f"{store.operator_public}\n".encode()
    expected = files_of(fleet, host, store)
    for each in expected:
        assert fat.read(f"sanderling/files/{each.path}") == each.content
    manifest = json.loads(fat.read("sanderling/manifest.json"))
    owners = {each["name"]: (each["owner"], each["mode"]) for each in manifest["files"]}
    assert owners["files/keys/node.secret"] == ("sanderling", 0o600)
    assert owners["authorized_keys"] == ("fleet", 0o600)
    for each in manifest["files"]:
        content = fat.read(f"sanderling/{each['name']}")
        assert hashlib.sha256(content).hexdigest() == each["sha256"]
    assert done["host_key"] == store.host_key("iad4/n3").public
    assert (done["kind"], done["release"]) == ("sanderling", "0.1.0-3f9c2a1b")
    assert set(done["files"]) == {f"sanderling/{name}" for name in owners} | {
        "sanderling/manifest.json"
    }


def test_behind_the_fat_a_card_is_the_image(folder, image, tmp_path):
    card = tmp_path / "n3.img"
    assert flash(folder, image, card, "--yes") == exits.DONE
    assert card.stat().st_size == image.stat().st_size
    assert card.read_bytes()[9 << 20 :] == image.read_bytes()[9 << 20 :]
    assert card.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not shutil.which("bmaptool"), reason="no bmaptool (Debian: bmap-tools)")
def test_it_writes_what_bmaptool_writes(image, tmp_path):
    subprocess.run(["bmaptool", "create", "-o", f"{image}.bmap", image], check=True)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    copied = ["bmaptool", "-q", "copy", "--bmap", f"{image}.bmap", image, theirs]
    subprocess.run(copied, check=True)
    found = flashing.examine(image)
    assert 0 < found.map.mapped < found.map.size
    card = target.open_file(ours, found.map.size)
    with image.open("rb") as file:
        flashing.writing.write(file, found.map, card, lambda step: None)
    card.close()
    assert ours.read_bytes() == theirs.read_bytes()


def test_two_flashings_have_manifests_with_ids_of_their_own(folder, image, tmp_path):
    card = tmp_path / "n3.img"
    ids = set()
    for _ in range(2):
        assert flash(folder, image, card, "--yes") == exits.DONE
        ids.add(json.loads(Fat(card).read("sanderling/manifest.json"))["id"])
    assert len(ids) == 2


def test_cloud_init_is_told_in_its_own_way(folder, tmp_path, capsys):
    image, card = make_image(tmp_path / "stock.img", TRIXIE), tmp_path / "card.img"
    assert flash(folder, image, card, "--yes") == exits.DONE
    fat = Fat(card)
    text = fat.read("user-data").decode()
    assert text.startswith("#cloud-config\n")
    told = json.loads(text.partition("\n")[2])
    store = Store(folder)
    assert told["hostname"] == "iad4-n3"
    assert told["ssh_keys"]["ed25519_private"].encode() == store.host_key("iad4/n3").private
    assert told["users"][0]["ssh_authorized_keys"] == [store.operator_public]
    kept = fat.read("sanderling-user-data").decode()
    assert "PRIVATE KEY" not in kept
    assert json.loads(kept.partition("\n")[2])["users"] == told["users"]
    assert fat.read("network-config") == b"{}"
    assert fat.names("sanderling") == []
    assert "fleet deploy --limit iad4/n3" in capsys.readouterr().err


def test_firstrun_is_told_in_its_own_way(folder, tmp_path):
    image, card = make_image(tmp_path / "stock.img", BOOKWORM), tmp_path / "card.img"
    assert flash(folder, image, card, "--yes") == exits.DONE
    fat = Fat(card)
    line = fat.read("cmdline.txt").decode()
    assert line.startswith(CMDLINE.decode().strip())
    assert line.count("systemd.run=/boot/firmware/firstrun.sh") == 1
    assert b"iad4-n3" in fat.read("firstrun.sh")


def test_an_image_of_nobody_is_refused(folder, tmp_path, capsys):
    image = make_image(tmp_path / "other.img", {"cmdline.txt": b"root=/dev/mmcblk0p2\n"})
    assert flash(folder, image, tmp_path / "card.img", "--yes") == exits.USAGE
    assert "neither one of `fleet image build` nor" in capsys.readouterr().err
    assert not (tmp_path / "card.img").exists()


@pytest.mark.parametrize(
    ("node", "line"),
    [("iad4/n4", "pi4.img is for pi4, iad4/n4 is a pi3"), ("iad4/n5", "there is no node iad4/n5")],
)
def test_a_card_for_another_node_is_refused(folder, image, tmp_path, capsys, node, line):
    assert flash(folder, image, tmp_path / "card.img", "--yes", node=node) == exits.USAGE
    assert line in capsys.readouterr().err
    assert not (tmp_path / "card.img").exists()


def test_without_a_terminal_nobody_is_asked(folder, image, tmp_path, capsys):
    assert flash(folder, image, tmp_path / "card.img") == exits.USAGE
    assert "--yes" in capsys.readouterr().err
    assert not (tmp_path / "card.img").exists()


def test_a_no_writes_nothing(folder, image, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fleet.terminal.output.confirm", lambda question, yes: False)
    assert flash(folder, image, tmp_path / "card.img") == exits.NOTHING
    assert "nothing was written" in capsys.readouterr().err
    assert not (tmp_path / "card.img").exists()


def test_ctrl_c_says_that_the_card_is_no_use(folder, image, tmp_path, monkeypatch, capsys):
    def cut(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(target.Target, "sync", cut)
    assert flash(folder, image, tmp_path / "card.img", "--yes") == exits.INTERRUPTED
    assert "card.img is unusable as it is; flash it again" in capsys.readouterr().err


def test_a_bad_card_is_told_in_one_line(folder, image, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(target.Target, "write", lambda self, offset, data: len(data))
    assert flash(folder, image, tmp_path / "card.img", "--yes") == exits.FAILED
    [line] = [line for line in capsys.readouterr().err.splitlines() if "fleet:" in line]
    assert "the card is bad: bytes 0 to" in line
    assert "card.img is unusable as it is" in line


def test_a_boot_partition_that_is_not_as_written_is_found(
    folder, image, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(Fat, "write", lambda self, name, content: None)
    assert flash(folder, image, tmp_path / "card.img", "--yes") == exits.FAILED
    assert "sanderling/hostname is not what was written" in capsys.readouterr().err


# --- files that stand for cards -------------------------------------------------------------------


def test_only_a_file_that_looks_like_a_card_is_overwritten(image, tmp_path):
    other = tmp_path / "thesis.txt"
    other.write_text("years of work")
    with pytest.raises(Unfit, match="does not look like a card's image"):
        target.check_file(other, image)
    with pytest.raises(Unfit, match="is the image itself"):
        target.check_file(image, image)
    with pytest.raises(Unfit, match="is no folder"):
        target.check_file(tmp_path / "nowhere/card.img", image)
    with pytest.raises(Unfit, match="neither a disk nor a file"):
        target.check_file(tmp_path, image)
    target.check_file(tmp_path / "new.img", image)


def test_a_file_is_written_by_one_command_at_a_time(folder, image, tmp_path, capsys):
    """Each found what the other had written, and called the card bad."""
    card = tmp_path / "card.img"
    held = target.open_file(card, 1 << 20)
    held.write(0, memoryview(b"theirs".ljust(510) + target.BOOT_SIGNATURE))
    assert flash(folder, image, card, "--yes") == exits.REFUSED
    assert "is written by another command; try again when it is done" in capsys.readouterr().err
    assert held.read(0, 6) == b"theirs"
    held.close()
    assert flash(folder, image, card, "--yes") == exits.DONE


def test_a_device_that_is_not_there_is_no_new_file(folder, image):
    with pytest.raises(Unfit, match="is no block device; is the card in"):
        flashing.find_card(Path("/dev/sanderling-none"), flashing.examine(image), folder)


def test_what_is_no_block_device_is_not_opened_as_one(tmp_path):
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(Unfit, match="is no block device"):
        target.open_device(str(path))


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("iad4/n3", "iad4-n3"),
        ("IAD_1/Roof.West", "iad-1-roof-west"),
        ("a/" + "x" * 64, "a-" + "x" * 61),
    ],
)
def test_host_names_are_labels(name, host):
    assert hostname_of(name) == host
