"""Boots a card image in QEMU: the operating system and the agent run, the Pi's firmware does
not."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from fleet.common.exits import CommandError
from fleet.image.fat import Fat

Machine = Literal["virt", "raspi3b"]
PROGRAM: Final = "qemu-system-aarch64"
# The file name that Debian's raspi-firmware uses for the device tree of the only 64-bit Pi that
# QEMU emulates.
DEVICE_TREES: Final = ("bcm2837-rpi-3-b.dtb", "bcm2710-rpi-3-b.dtb")
# The host's address as seen by the guest (QEMU's user-mode network).
HOST_ADDRESS: Final = "10.0.2.2"
# In the vendor's range, as on a Pi: with QEMU's default address the kernel would not name the
# interface eth0.
PI_ADDRESS: Final = "b8:27:eb:12:34:56"
# In QEMU's Pi 3 the video driver has no video processor and crashes the kernel, and setting the
# watchdog resets the machine at once instead of at the timeout. Its network uses cdc_ether; if
# cdc_subset is loaded first, the interface is usb0, for which no address is requested.
LEFT_OUT: Final = "module_blacklist=vchiq,bcm2835_wdt,cdc_subset"
# An emulated processor is many times slower than a Pi's: systemd's timeouts would be too short.
PATIENCE: Final = "systemd.default_timeout_start_sec=1200"


class EmulationError(CommandError):
    """The card cannot be booted here; the text is one line."""


class BootFiles(NamedTuple):
    """The files that a Pi's firmware would load from the boot partition."""

    kernel: str
    initramfs: str
    device_tree: str  # for QEMU's Pi; empty if there is none
    command_line: str


class Options(NamedTuple):
    """How a card is booted."""

    machine: Machine = "virt"
    ssh_port: int = 2222  # on 127.0.0.1; forwarded to port 22 of the guest
    memory_mib: int = 1024  # of the machine virt
    processors: int = 2  # of the machine virt
    threads: Literal["multi", "single"] = "multi"  # QEMU's threads for the processors


def boot_files(names: list[str], config: str, command_line: str) -> BootFiles:
    """The files that config.txt says to load, out of `names` in the boot partition. EmulationError
    if one is missing."""
    kernel = _setting(r"kernel\s*=\s*(\S+)", config)
    initramfs = _setting(r"initramfs\s+(\S+)", config)
    for what, name in (("kernel", kernel), ("initramfs", initramfs)):
        if name not in names:
            raise EmulationError(f"the card's config.txt names no {what} that is there")
    tree = next((name for name in DEVICE_TREES if name in names), "")
    return BootFiles(kernel, initramfs, tree, command_line.strip())


def _setting(pattern: str, config: str) -> str:
    """The last value of a setting in config.txt, which the firmware uses; empty if there is
    none."""
    found = re.findall(rf"^\s*{pattern}", config, re.MULTILINE)
    return found[-1] if found else ""


def arguments(
    options: Options, files: BootFiles, folder: Path, card: Path, console: Path
) -> list[str]:
    """QEMU's command line; `folder` has copies of the boot files."""
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
        # The first serial port is Bluetooth's.
        *shared, "-serial", "null", *serial, "-M", "raspi3b",
        "-dtb", str(folder / files.device_tree),
        "-append", f"{words} {LEFT_OUT} {PATIENCE} console=ttyS1,115200",
        "-drive", f"{drive},if=sd", "-device", f"usb-net,netdev=net,mac={PI_ADDRESS}",
    ]  # fmt: skip


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")  # as QEMU's options want it


def card_size(size: int, machine: Machine) -> int:
    """The size to which a card of `size` bytes must be padded: QEMU's card slots only take powers
    of two."""
    return size if machine == "virt" else 1 << (size - 1).bit_length()


@contextmanager
def running(card: Path, options: Options, console: Path) -> Iterator[subprocess.Popen[bytes]]:
    """QEMU with this card, its console in a file; killed at the end, which is a power cut to the
    guest."""
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


def run(card: Path, options: Options, console: Path, begun: Callable[[], object]) -> None:
    """Boot a card and wait until its guest shuts down; `begun` is called once QEMU runs.
    EmulationError if QEMU fails."""
    with running(card, options, console) as process:
        begun()
        _, said = process.communicate()
        if process.returncode:
            text = said.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise EmulationError(f"QEMU ended: {text[-1]}")
