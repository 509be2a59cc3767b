"""What QEMU is asked for, by what is in a card's boot partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.cli.commands import run as fleet_command
from fleet.common import exits
from fleet.image.emulate import EmulationError, Options, arguments, boot_files, card_size
from tests.fleet.image_flash.cards import make_image, needs_tools

NAMES = ["vmlinuz-6.1.0-1-arm64", "initrd.img-6.1.0-1-arm64", "bcm2837-rpi-3-b.dtb", "config.txt"]
CONFIG = """
# kernel=other
kernel=vmlinuz-6.1.0-1-arm64
initramfs initrd.img-6.1.0-1-arm64
"""
LINE = "root=PARTUUID=5a4de711-02 rw console=tty0 rootwait console=ttyAMA0,115200\n"
FILES = boot_files(NAMES, CONFIG, LINE)


def words(options, card="n1.img"):
    return arguments(options, FILES, Path("/boot"), Path(card), Path("console"))


def test_what_config_txt_names_is_loaded():
    assert FILES.kernel == "vmlinuz-6.1.0-1-arm64"
    assert FILES.initramfs == "initrd.img-6.1.0-1-arm64"
    assert FILES.device_tree == "bcm2837-rpi-3-b.dtb"


@pytest.mark.parametrize(
    ("names", "config", "line"),
    [
        (NAMES, "", "names no kernel"),
        (NAMES, "kernel=vmlinuz-6.1.0-1-arm64\n", "names no initramfs"),
        (NAMES[1:], CONFIG, "names no kernel that is there"),
    ],
)
def test_what_is_missing_is_told(names, config, line):
    with pytest.raises(EmulationError, match=line):
        boot_files(names, config, LINE)


def test_a_general_machine_has_the_card_as_its_disk():
    command = words(Options(ssh_port=2203))
    assert command[command.index("-kernel") + 1] == "/boot/vmlinuz-6.1.0-1-arm64"
    assert "user,id=net,hostfwd=tcp:127.0.0.1:2203-:22" in command
    line = command[command.index("-append") + 1].split()
    assert line[:3] == ["root=PARTUUID=5a4de711-02", "rw", "rootwait"]
    # The last console is the one that systemd writes to, and there is no other.
    assert [word for word in line if word.startswith("console=")] == ["console=ttyAMA0"]


def test_a_pi_3_has_the_card_in_its_slot():
    command = words(Options(machine="raspi3b"), "a,b.img")
    assert command[command.index("-dtb") + 1] == "/boot/bcm2837-rpi-3-b.dtb"
    assert "file=a,,b.img,format=raw,if=sd" in command


def test_without_its_device_tree_there_is_no_pi_3():
    files = FILES._replace(device_tree="")
    with pytest.raises(EmulationError, match="no device tree of a Pi 3"):
        arguments(Options(machine="raspi3b"), files, Path(), Path(), Path())


@pytest.mark.parametrize(
    ("size", "machine", "needed"),
    [
        (2 << 30, "virt", 2 << 30),
        (2 << 30, "raspi3b", 2 << 30),
        ((2 << 30) + 512, "raspi3b", 4 << 30),
        (3 << 30, "virt", 3 << 30),
    ],
)
def test_a_slot_takes_cards_of_a_power_of_two(size, machine, needed):
    assert card_size(size, machine) == needed


def test_without_qemu_one_line_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fleet_command(["image", "emulate", str(tmp_path / "n1.img")]) == exits.USAGE
    assert "qemu-system-aarch64 is missing; apt install qemu-system-arm" in capsys.readouterr().err


@needs_tools
def test_a_card_that_boots_nothing_is_told(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/usr/bin/{name}")
    card = make_image(tmp_path / "n1.img", {"config.txt": b"arm_64bit=1\n"})
    assert fleet_command(["image", "emulate", str(card)]) == exits.USAGE
    said = capsys.readouterr().err
    assert "names no kernel" in said
    assert "sshd at" not in said  # where nothing has booted


@needs_tools
def test_a_file_that_is_no_card_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/usr/bin/{name}")
    card = tmp_path / "fleet.toml"
    card.write_text("# " * 1_000)
    assert fleet_command(["image", "emulate", str(card)]) == exits.USAGE
    said = f"fleet: {card}: it has no partition table, so it is no image of a card\n"
    assert capsys.readouterr().err == said
