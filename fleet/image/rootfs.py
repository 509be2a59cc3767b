"""Root file system from Debian packages: runs mmdebstrap with a package cache, caches the
result."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Final, NamedTuple

import msgspec

from fleet.common import locks
from fleet.image.layers import ImageError
from fleet.image.recipe import ImagePlan, PlannedFile

ARCHITECTURE: Final = "arm64"
# Part of the cache's key; increase it when the same packages would give another root file system.
FORMAT: Final = 1
# A node needs no manuals, translations, or support for screens and cameras; licences stay.
LEFT_OUT: Final = (
    "path-exclude=*/lib/modules/*/kernel/drivers/gpu/*",
    "path-exclude=*/lib/modules/*/kernel/drivers/infiniband/*",
    "path-exclude=*/lib/modules/*/kernel/drivers/media/*",
    "path-exclude=*/lib/modules/*/kernel/sound/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
)
# Sync is skipped, which would take minutes: an interrupted root file system is built again.
UNSAFE: Final = "force-unsafe-io"
INITRAMFS: Final = "/etc/initramfs-tools"
# An initramfs with all modules takes minutes under emulation.
OPTIONS: Final = "MODULES=list\nCOMPRESS=zstd\nFSTYPE=ext4\n"
PROGRAMS: Final = {
    "mmdebstrap": "mmdebstrap",
    "arch-test": "arch-test",  # mmdebstrap asks it what runs here
    "unshare": "util-linux",
    "mke2fs": "e2fsprogs",
    "sfdisk": "fdisk",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "bmaptool": "bmap-tools",
}
# Requirements for running another architecture's programs: QEMU, and its registration with the
# kernel.
EMULATION: Final = {"qemu-aarch64-static": "qemu-user-static", "update-binfmts": "binfmt-support"}
BINFMT: Final = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
LINES_OF_LOG: Final = 3


class RootFs(NamedTuple):
    """A root file system that consists of packages only."""

    tar: Path
    packages: dict[str, str]  # name → version
    epoch: int  # when the packages were downloaded, Unix time
    key: str


def missing() -> str:
    """The tools that this host lacks to build an image, and the remedy; empty if none."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    programs = PROGRAMS if os.geteuid() == 0 else {**PROGRAMS, "newuidmap": "uidmap"}
    emulated = os.uname().machine != "aarch64" and not BINFMT.exists()
    if emulated:
        programs = {**programs, **EMULATION}
    lacking = [package for name, package in programs.items() if not shutil.which(name, path=path)]
    if lacking:
        return f"building an image needs more here: apt install {' '.join(dict.fromkeys(lacking))}"
    return _unregistered() if emulated else ""


def _unregistered() -> str:
    """The error line for a QEMU that is installed but not registered with the kernel for
    aarch64."""
    remedies = ["update-binfmts --enable qemu-aarch64"]
    if not (BINFMT.parent / "register").exists():  # as in a container
        remedies.insert(0, f"mount -t binfmt_misc binfmt_misc {BINFMT.parent}")
    return f"the kernel runs no programs for aarch64 here yet; as root: {' && '.join(remedies)}"


def key_of(plan: ImagePlan, suite: str) -> str:
    """Digest, in 16 hexadecimal digits, of everything that determines a root file system."""
    what = [FORMAT, suite, ARCHITECTURE, plan.packages, LEFT_OUT, _initramfs_files(plan)]
    return hashlib.sha256(msgspec.json.encode(what)).hexdigest()[:16]


def make(
    plan: ImagePlan,
    suite: str,
    sources: str,
    cache: Path,
    *,
    refresh: bool,
    say: Callable[[str], None],
) -> RootFs:
    """The root file system for `plan`, from the cache or newly built; ImageError.

    If the cache has apt's lists of an earlier build, it is built from exactly those packages,
    without a mirror; `refresh` downloads new lists.
    """
    key = key_of(plan, suite)
    packages = cache / "packages" / key
    found = cache / "roots" / key
    packages.mkdir(parents=True, exist_ok=True)
    busy = f"another command fills the cache {cache}; try again when it is done"
    with locks.alone(packages, ImageError(busy)):
        if refresh:
            _fetched(packages).unlink(missing_ok=True)
            for each in (packages / "lists", found):
                shutil.rmtree(each, ignore_errors=True)
        if not (found / "root.tar").is_file():
            say("installing Debian's packages (minutes)")
            _bootstrap(plan, suite, sources, packages, found)
        return RootFs(found / "root.tar", _versions(found), _epoch(packages), key)


def _bootstrap(plan: ImagePlan, suite: str, sources: str, packages: Path, found: Path) -> None:
    archives, lists = packages / "archives", packages / "lists"
    for each in (archives, found):
        each.mkdir(parents=True, exist_ok=True)
    known = _fetched(packages).is_file()
    epoch = _epoch(packages) if known else int(time.time())
    part = found / "root.tar.part"
    initramfs = found / "initramfs.tar"
    _write_initramfs(initramfs, _initramfs_files(plan))
    hooks = [
        ("setup", 'mkdir -p "$1/var/cache/apt/archives" "$1/var/lib/apt/lists"'),
        ("setup", f"sync-in {quote(str(archives))} /var/cache/apt/archives"),
    ]
    if known:
        hooks.append(("setup", f"sync-in {quote(str(lists))} /var/lib/apt/lists"))
    hooks += [
        # Before the kernel, whose installation generates the initramfs.
        ("essential", f"tar-in {quote(str(initramfs))} /"),
        ("customize", f"sync-out /var/cache/apt/archives {quote(str(archives))}"),
        ("customize", f"sync-out /var/lib/apt/lists {quote(str(lists))}"),
        ("customize", f"download /var/lib/dpkg/status {quote(str(found))}/status"),
    ]
    command = [
        "mmdebstrap",
        f"--architectures={ARCHITECTURE}",
        "--variant=minbase",
        "--mode=unshare",
        "--format=tar",
        f"--include={','.join(plan.packages)}",
        *[f"--dpkgopt={option}" for option in (*LEFT_OUT, UNSAFE)],
        '--aptopt=Apt::Install-Recommends "false"',
        "--skip=essential/unlink,download/empty" + (",update" if known else ""),
        *[f"--{kind}-hook={hook}" for kind, hook in hooks],
        suite,
        str(part),
        "-",
    ]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8"}
    try:
        status, said = _run(command, sources, environment)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    (found / "log").write_text(said)
    if status:
        raise ImageError(f"mmdebstrap failed: {_last_lines(said)}; all of it: {found}/log")
    _fetched(packages).write_text(f"{epoch}\n")
    versions = installed((found / "status").read_text())
    (found / "packages.json").write_text(json.dumps(versions, indent=1, sort_keys=True) + "\n")
    part.rename(found / "root.tar")


def _run(command: list[str], sources: str, environment: dict[str, str]) -> tuple[int, str]:
    """Its exit status, and what it wrote to stderr. When this is interrupted it ends, too, and
    removes what it has unpacked: its first process only waits for the others, and if it alone is
    killed these go on."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            _, said = process.communicate(sources)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.communicate()
            raise
    return process.returncode, said


def installed(status: str) -> dict[str, str]:
    """Package → version, from the text of dpkg's status file."""
    found = {}
    for stanza in status.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in stanza.splitlines()
            if line.startswith(("Package: ", "Version: ", "Status: "))
        )
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields["Version"]
    return dict(sorted(found.items()))


def _fetched(packages: Path) -> Path:
    """The file that records when lists and packages were downloaded completely."""
    return packages / "fetched"


def _epoch(packages: Path) -> int:
    try:
        return int(_fetched(packages).read_text())
    except (OSError, ValueError):
        raise _damaged(packages) from None


def _versions(found: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((found / "packages.json").read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        raise _damaged(found) from None


def _damaged(folder: Path) -> ImageError:
    return ImageError(f"the cache {folder} is damaged; --refresh makes it anew")


def _initramfs_files(plan: ImagePlan) -> list[PlannedFile]:
    """The inputs of the initramfs."""
    modules = "".join(f"{name}\n" for name in plan.modules)
    return [
        PlannedFile(f"{INITRAMFS}/conf.d/sanderling.conf", OPTIONS.encode(), 0o644, "root"),
        PlannedFile(f"{INITRAMFS}/modules", modules.encode(), 0o644, "root"),
        *[file for file in plan.files if file.path.startswith(f"{INITRAMFS}/")],
    ]


def _write_initramfs(path: Path, files: Sequence[PlannedFile]) -> None:
    with tarfile.open(path, "w") as tar:
        made: set[PurePosixPath] = set()
        for file in files:
            name = PurePosixPath(file.path.lstrip("/"))
            for folder in reversed(name.parents[:-2]):  # without . and etc
                if folder not in made:
                    info = tarfile.TarInfo(str(folder))
                    info.type, info.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(info)
                    made.add(folder)
            info = tarfile.TarInfo(str(name))
            info.size, info.mode = len(file.content), file.mode
            tar.addfile(info, io.BytesIO(file.content))


def _last_lines(text: str) -> str:
    wrong = [line for line in text.splitlines() if line.startswith(("E:", "W:", "dpkg: error"))]
    return " / ".join((wrong or text.splitlines())[-LINES_OF_LOG:])
