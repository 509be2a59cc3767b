"""Boots a card image in QEMU: the operating system and the agent run, the Pi's firmware does
not."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fleet.common.exits import CommandError
from fleet.image.fat import Fat

Machine = Literal["virt", "raspi3b"]
PROGRAM: Final = "qemu-system-aarch64"
# How Debian's raspi-firmware calls the description of QEMU's only 64-bit Pi.
DEVICE_TREES: Final = ("bcm2837-rpi-3-b.dtb", "bcm2710-rpi-3-b.dtb")
# The host, as the guest sees it (QEMU's user-mode network).
HOST_ADDRESS: Final = "10.0.2.2"
# As a Pi's: with QEMU's own, which is no maker's, the kernel would not call the interface eth0.
PI_ADDRESS: Final = "b8:27:eb:12:34:56"
# In QEMU's Pi 3 the video processor's driver has nobody to talk to, and crashes the kernel; and who
# sets the watchdog is reset at once, not when it runs out. Its network is that of cdc_ether; where
# cdc_subset is quicker there is a usb0 instead, which nobody asks for an address.
LEFT_OUT: Final = "module_blacklist=vchiq,bcm2835_wdt,cdc_subset"
# An emulated processor is many times slower than a Pi's: systemd gives up too early.
PATIENCE: Final = "systemd.default_timeout_start_sec=1200"


class EmulationError(CommandError):
    """The card cannot be booted here; the text is one line."""


class BootFiles(NamedTuple):
    """What a Pi's firmware would load from the boot partition."""

    kernel: str
    initramfs: str
    device_tree: str  # of QEMU's Pi; empty if there is none
    command_line: str


class Options(NamedTuple):
    """How a card is booted."""

    machine: Machine = "virt"
    ssh_port: int = 2222  # on 127.0.0.1; leads to port 22 of the guest
    memory_mib: int = 1024  # of virt
    processors: int = 2  # of virt
    threads: Literal["multi", "single"] = "multi"  # of the host, for the guest's processors


def boot_files(names: list[str], config: str, command_line: str) -> BootFiles:
    """What config.txt says to load, of the files `names` in the boot partition. EmulationError if
    something is missing."""
    kernel = _setting(r"kernel\s*=\s*(\S+)", config)
    initramfs = _setting(r"initramfs\s+(\S+)", config)
    for what, name in (("kernel", kernel), ("initramfs", initramfs)):
        if name not in names:
            raise EmulationError(f"the card's config.txt names no {what} that is there")
    tree = next((name for name in DEVICE_TREES if name in names), "")
    return BootFiles(kernel, initramfs, tree, command_line.strip())


def _setting(pattern: str, config: str) -> str:
    """The last value of a setting in config.txt, as the firmware has it; empty if there is none."""
    found = re.findall(rf"^\s*{pattern}", config, re.MULTILINE)
    return found[-1] if found else ""


def arguments(
    options: Options, files: BootFiles, folder: Path, card: Path, console: Path
) -> list[str]:
    """QEMU's command line; `folder` has copies of the files."""
    accelerator = f"tcg,thread={options.threads}"
    network = f"user,id=net,hostfwd=tcp:127.0.0.1:{options.ssh_port}-:22"
    drive = f"file={_escaped(card)},format=raw"
    words = re.sub(r"\bconsole=\S+\s*", "", files.command_line).strip()
    shared = [
        PROGRAM, "-accel", accelerator, "-display", "none", "-monitor", "none",
        "-kernel", str(folder / files.kernel), "-initrd", str(folder / files.initramfs),
        "-netdev", network,
    ]  # fmt: skip
    serial = ["-serial", f"file:{console}"]
    if options.machine == "virt":
        return [
            *shared, *serial, "-M", "virt", "-cpu", "cortex-a72",
            "-m", str(options.memory_mib), "-smp", str(options.processors),
            "-append", f"{words} {PATIENCE} console=ttyAMA0",
            "-drive", f"{drive},if=none,id=card", "-device", "virtio-blk-pci,drive=card",
            "-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci",
        ]  # fmt: skip
    if not files.device_tree:
        raise EmulationError("the card has no device tree of a Pi 3, which is what QEMU has")
    return [
        # The first serial port is that of Bluetooth.
        *shared, "-serial", "null", *serial, "-M", "raspi3b",
        "-dtb", str(folder / files.device_tree),
        "-append", f"{words} {LEFT_OUT} {PATIENCE} console=ttyS1,115200",
        "-drive", f"{drive},if=sd", "-device", f"usb-net,netdev=net,mac={PI_ADDRESS}",
    ]  # fmt: skip


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")  # as QEMU's options want it


def card_size(size: int, machine: Machine) -> int:
    """The size that a card of `size` bytes needs: QEMU's card slots take powers of two alone."""
    return size if machine == "virt" else 1 << (size - 1).bit_length()


@contextmanager
def running(card: Path, options: Options, console: Path) -> Iterator[subprocess.Popen[bytes]]:
    """QEMU with this card, and its console in a file; cut off at the end, as by a power cut."""
    if shutil.which(PROGRAM) is None:
        raise EmulationError(f"{PROGRAM} is missing; apt install qemu-system-arm")
    if not card.is_file():
        raise EmulationError(f"there is no file {card}")
    fat = Fat(card)
    config, line = fat.read("config.txt") or b"", fat.read("cmdline.txt") or b""
    files = boot_files(fat.names(), config.decode(errors="replace"), line.decode(errors="replace"))
    size = card_size(card.stat().st_size, options.machine)
    with tempfile.TemporaryDirectory(prefix="sanderling-boot-") as name:
        folder = Path(name)
        wanted = {files.kernel, files.initramfs, files.device_tree} - {""}
        fat.copy_out({each: folder / each for each in wanted})
        command = arguments(options, files, folder, card.resolve(), console)
        if size != card.stat().st_size:
            with card.open("r+b") as file:
                file.truncate(size)
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is this program's
        ) as process:
            try:
                yield process
            finally:
                process.terminate()


def run(card: Path, options: Options, console: Path) -> None:
    """Boot a card, until its guest switches itself off. EmulationError if QEMU fails."""
    with running(card, options, console) as process:
        _, said = process.communicate()
        if process.returncode:
            text = said.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise EmulationError(f"QEMU ended: {text[-1]}")
