"""Image assembly: partitions and file systems from a root file system. Runs as root, at least in a
user namespace.

It uses no loop devices and mounts. Equal specifications give equal bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from fleet.common.interrupts import as_interrupts
from fleet.image import rootfs
from fleet.image.layers import ImageError
from fleet.image.recipe import ImagePlan, PlannedDirectory, PlannedFile

# The disk's identifier, by which the kernel finds its root partition, and those of file systems;
# constant, because random ones would make every image different.
DISK: Final = "5a4de711"
BOOT_ID: Final = "5a4de701"
ROOT_ID: Final = "5a4de711-0000-4000-8000-000000000002"
DATA_ID: Final = "5a4de711-0000-4000-8000-000000000004"
HASH_SEED: Final = "5a4de711-0000-4000-8000-000000000003"
MIB: Final = 1 << 20
SECTOR: Final = 512
BOOT_AT_MIB: Final = 4
BOOT_MIB: Final = 252
ROOT_AT_MIB: Final = BOOT_AT_MIB + BOOT_MIB
# For a card whose root partition is read-only; it grows at the first boot.
DATA_MIB: Final = 512
# Stated explicitly, because a later mke2fs may have other defaults.
FEATURES: Final = (
    "none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg,sparse_super,"
    "large_file,huge_file,dir_nlink,extra_isize,metadata_csum"
)
# Files that differ between builds, or must not be the same on all cards.
REMOVED: Final = (
    "etc/*-",
    "etc/ssh/ssh_host_*",
    "etc/.pwd.lock",
    "run/*",
    "tmp/*",
    "var/cache/apt/*",
    "var/cache/debconf/*-old",
    "var/cache/ldconfig/aux-cache",
    "var/lib/apt/lists/*",
    "var/lib/dbus/machine-id",
    "var/lib/dpkg/*-old",
    "var/lib/systemd/random-seed",
    "var/lib/systemd/credential.secret",
    "var/log/*.log",
    "var/log/apt/*",
    "var/log/journal",
    "var/tmp/*",
)
# Where mmdebstrap stores the options that it gave dpkg.
DPKG_OPTIONS: Final = "/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
RELEASES: Final = "opt/sanderling/releases"
# Destinations of the files in a release's share/sanderling.
SHARED: Final = {
    ".service": "etc/systemd/system",
    ".rules": "usr/lib/udev/rules.d",
    ".sysusers": "usr/lib/sysusers.d",
}


class Specification(msgspec.Struct, frozen=True):
    """Parts of the image to assemble."""

    plan: ImagePlan
    root_tar: str
    bundle: str
    release: str
    sources: str  # of apt, on the card
    epoch: int  # Unix time: no file of the image is later
    image: str  # file that is written
    work: str  # folder on the disk of the image


def run(what: Specification) -> None:
    """Write the image; ImageError."""
    with tempfile.TemporaryDirectory(dir=what.work, prefix="root-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        _say("unpacking Debian and the release")
        _unpack(what, root)
        _say("configuring")
        _configure(what, root)
        boot = _boot_files(what, root)
        _clean(root)
        _set_times(root, what.epoch)
        _say("writing the file systems")
        _write_image(what, root, boot)


# --- the root file system -------------------------------------------------------------------------


def _unpack(what: Specification, root: Path) -> None:
    # A user namespace cannot create device nodes; udev creates them at boot.
    _run("tar", "--numeric-owner", "-xpf", what.root_tar, "-C", root, "--exclude=./dev/*")
    release = root / RELEASES / what.release
    release.mkdir(parents=True)
    _run("tar", "--numeric-owner", "-xpf", what.bundle, "-C", release)
    (root / "opt/sanderling/current").symlink_to(f"releases/{what.release}")
    for path in sorted((release / "share/sanderling").iterdir()):
        if folder := SHARED.get(path.suffix):
            name = f"{path.stem}.conf" if path.suffix == ".sysusers" else path.name
            shutil.copy(path, root / folder / name)


def _configure(what: Specification, root: Path) -> None:
    plan = what.plan
    for folder in plan.directories:
        _inside(root, folder.path).mkdir(parents=True, exist_ok=True)
    for file in plan.files:
        path = _inside(root, file.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(file.content)
    for name, target in plan.links.items():
        path = _inside(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    _inside(root, "/etc/apt/sources.list").write_text(what.sources)
    # Unsuitable for a card, whose power may be cut.
    options = _inside(root, DPKG_OPTIONS)
    options.write_text(options.read_text().replace(f"{rootfs.UNSAFE}\n", ""))
    # A Pi has no battery-backed clock: at boot, systemd starts from this file's time.
    _inside(root, "/usr/lib/clock-epoch").touch()
    _chroot(root, what.epoch, "systemd-sysusers")
    owners = _accounts(root)
    entries: list[PlannedDirectory | PlannedFile] = [*plan.directories, *plan.files]
    for each in entries:
        if each.owner not in owners:
            raise ImageError(f"{each.path}: the image has no user {each.owner!r}")
        path = _inside(root, each.path)
        os.chown(path, *owners[each.owner])
        path.chmod(each.mode)
    if plan.mask:
        _chroot(root, what.epoch, "systemctl", "mask", *plan.mask)
    if plan.enable:
        _chroot(root, what.epoch, "systemctl", "enable", *plan.enable)
    for command in plan.run:
        _chroot(root, what.epoch, *command)


def _inside(root: Path, path: str) -> Path:
    """The location of the image's file `path` on this machine. Links in it are resolved within the
    image, so none may lead outside."""
    found = root / path.lstrip("/")
    if not found.parent.resolve().is_relative_to(root.resolve()):
        raise ImageError(f"{path} leads out of the image by a link")
    return found


def _accounts(root: Path) -> dict[str, tuple[int, int]]:
    rows = [row.split(":") for row in (root / "etc/passwd").read_text().splitlines()]
    return {row[0]: (int(row[2]), int(row[3])) for row in rows}


def _clean(root: Path) -> None:
    for pattern in REMOVED:
        for path in root.glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    (root / "etc/machine-id").write_text("")


def _set_times(root: Path, epoch: int) -> None:
    """Limit all times to `epoch`; access times become modification times."""
    for folder, folders, files in os.walk(root, topdown=False):
        for name in (*folders, *files, "."):
            path = os.path.join(folder, name)  # noqa: PTH118 - 30,000 times
            time = min(int(os.lstat(path).st_mtime), epoch)
            if name == "clock-epoch":
                time = epoch
            os.utime(path, (time, time), follow_symlinks=False)


# --- the boot partition ---------------------------------------------------------------------------


def _boot_files(what: Specification, root: Path) -> Path:
    """The folder whose content goes to the boot partition; the mount point in the root file system
    is left empty."""
    boot = root.with_name(f"{root.name}.boot")
    shutil.move(root / "boot/firmware", boot)
    (root / "boot/firmware").mkdir()
    [kernel] = boot.glob("vmlinuz-*")
    [initramfs] = boot.glob("initrd.img-*")
    # Settings that must survive when raspi-firmware regenerates both files for a new kernel.
    for name, lasting in (
        ("raspi-firmware-custom", what.plan.boot_config),
        ("raspi-extra-cmdline", (" ".join(what.plan.command_line),)),
    ):
        (root / "etc/default" / name).write_text("".join(f"{line}\n" for line in lasting))
    lines = [
        "# raspi-firmware writes this anew with every kernel; what is to last has its place in",
        "# /etc/default/raspi-firmware-custom.",
        "arm_64bit=1",
        "enable_uart=1",
        "upstream_kernel=1",
        f"kernel={kernel.name}",
        f"initramfs {initramfs.name}",
        *what.plan.boot_config,
    ]
    (boot / "config.txt").write_text("".join(f"{line}\n" for line in lines))
    (boot / "cmdline.txt").write_text(f"{command_line(what.plan)}\n")
    (boot / "sanderling").mkdir()
    wifi = "wpasupplicant" in what.plan.packages
    about = {"format": 1, "release": what.release, "model": what.plan.model, "wifi": wifi}
    (boot / "sanderling/image.json").write_bytes(msgspec.json.encode(about) + b"\n")
    return boot


def command_line(plan: ImagePlan) -> str:
    """The kernel's command line."""
    fixed = f"root=PARTUUID={DISK}-02 rw fsck.repair=yes net.ifnames=0 rootwait"
    return " ".join([fixed, *plan.command_line])


# --- the image ------------------------------------------------------------------------------------


def _write_image(what: Specification, root: Path, boot: Path) -> None:
    image = Path(what.image)
    image.unlink(missing_ok=True)
    size_mib = what.plan.size_mib
    data_mib = DATA_MIB if what.plan.values.get("read_only") else 0
    root_mib = size_mib - ROOT_AT_MIB - data_mib
    with image.open("wb") as file:
        file.truncate(size_mib * MIB)
    _run("sfdisk", "--quiet", "--no-tell-kernel", image, text=_table(root_mib, data_mib))
    environment = {
        "SOURCE_DATE_EPOCH": str(what.epoch),
        "E2FSPROGS_FAKE_TIME": str(what.epoch),
        "TZ": "UTC",
        "MTOOLS_SKIP_CHECK": "1",
    }
    try:
        _write_boot(image, boot, what.epoch, environment)
    finally:
        shutil.rmtree(boot)
    _write_ext4(image, ROOT_AT_MIB, root_mib, ROOT_ID, "root", environment, root)
    _set_change_times(image, ROOT_AT_MIB, root, what.epoch, environment)
    if data_mib:
        at_mib = ROOT_AT_MIB + root_mib
        _write_ext4(image, at_mib, data_mib, DATA_ID, "data", environment)


def _table(root_mib: int, data_mib: int) -> str:
    """The partition table, for sfdisk."""
    sectors = MIB // SECTOR
    lines = [
        "label: dos",
        f"label-id: 0x{DISK}",
        f"start={BOOT_AT_MIB * sectors}, size={BOOT_MIB * sectors}, type=c, bootable",
        f"start={ROOT_AT_MIB * sectors}, size={root_mib * sectors}, type=83",
    ]
    if data_mib:
        at = (ROOT_AT_MIB + root_mib) * sectors
        lines.append(f"start={at}, size={data_mib * sectors}, type=83")
    return "".join(f"{line}\n" for line in lines)


def _write_ext4(
    image: Path,
    at_mib: int,
    size_mib: int,
    identifier: str,
    label: str,
    environment: dict[str, str],
    content: Path | None = None,
) -> None:
    # Tables that the kernel zeroes later, on first use, are neither written nor mapped now.
    tree = ["-d", str(content)] if content else []
    options = f"hash_seed={HASH_SEED},offset={at_mib * MIB},nodiscard,root_owner=0:0"
    _run(
        "mke2fs", "-q", "-t", "ext4", "-O", FEATURES, "-b", "4096", "-I", "256", "-m", "1",
        "-L", label, "-U", identifier, "-E", options, *tree,
        image, f"{size_mib * 1024}k",
        environment=environment,
    )  # fmt: skip


def _set_change_times(
    image: Path, at_mib: int, root: Path, epoch: int, environment: dict[str, str]
) -> None:
    """Set change times in the file system: mke2fs copies them, and they cannot be set in the source
    folder."""
    names = [""]
    for folder, folders, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        names += [os.path.normpath(f"{inside}/{name}") for name in (*folders, *files)]
    script = "".join(
        'set_inode_field "/{}" ctime @{}\n'.format(name.replace('"', '""'), epoch) for name in names
    )
    where = f"{image}?offset={at_mib * MIB}"
    _run("debugfs", "-w", "-f", "-", where, text=script, environment=environment)


def _write_boot(image: Path, boot: Path, epoch: int, environment: dict[str, str]) -> None:
    sector = BOOT_AT_MIB * MIB // SECTOR
    _run(
        "mkfs.vfat", "--invariant", "-F", "32", "-s", "1", "-n", "BOOT", "-i", BOOT_ID,
        "-h", str(sector), "--offset", str(sector), image, str(BOOT_MIB * 1024),
        environment=environment,
    )  # fmt: skip
    _set_times(boot, epoch)
    part = f"{image}@@{BOOT_AT_MIB * MIB}"
    content = sorted(boot.iterdir())
    _run("mcopy", "-i", part, "-s", "-m", *content, "::", environment=environment)


def _chroot(root: Path, epoch: int, *command: str) -> None:
    path = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SOURCE_DATE_EPOCH": str(epoch)}
    _run("chroot", root, *command, environment=path)


def _run(
    *command: str | Path, text: str | None = None, environment: dict[str, str] | None = None
) -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        check=False,
        text=True,
        env={"PATH": path, "LC_ALL": "C.UTF-8", **(environment or {})},
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"status {done.returncode}"]
        raise ImageError(f"{Path(command[0]).name} failed: {said[-1]}")


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """Read a specification from standard input; print a line on standard output for every stage,
    and the reason on standard error if it fails."""
    what = msgspec.json.decode(sys.stdin.buffer.read(), type=Specification)
    os.umask(0o022)
    try:
        with as_interrupts():  # what was unpacked is removed
            run(what)
    except ImageError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
