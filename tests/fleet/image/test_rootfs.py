"""What decides a root file system of packages, and what it was made of."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from fleet.image import layers, recipe, rootfs

STATUS = """\
Package: zstd
Status: install ok installed
Version: 1.5.4
Description: fast
 Version: no field

Package: gone
Status: deinstall ok config-files
Version: 1

Package: adduser
Status: install ok installed
Version: 3.134
"""


def plan(**values):
    return recipe.plan(layers.read_library(), layers.read_recipe("pi4"), values)


def test_versions_are_those_of_installed_packages():
    assert rootfs.installed(STATUS) == {"adduser": "3.134", "zstd": "1.5.4"}


def test_what_only_changes_files_uses_the_same_packages():
    key = rootfs.key_of(plan(), "bookworm")
    assert rootfs.key_of(plan(gpu_mem=32, journal="volatile", read_only=True), "bookworm") == key


def test_packages_suite_and_modules_need_another_root():
    plain = plan()
    key = rootfs.key_of(plain, "bookworm")
    others = [
        rootfs.key_of(plain, "trixie"),
        rootfs.key_of(plain._replace(packages=(*plain.packages, "vim-tiny")), "bookworm"),
        rootfs.key_of(plain._replace(modules=plain.modules[1:]), "bookworm"),
    ]
    assert len({key, *others}) == 4


def test_a_script_of_the_initramfs_needs_another_root():
    plain = plan()
    [script] = [file for file in plain.files if "scripts/init-bottom" in file.path]
    changed = [file for file in plain.files if file != script]
    changed.append(script._replace(content=script.content + b"\n"))
    other = rootfs.key_of(plain._replace(files=tuple(changed)), "bookworm")
    assert other != rootfs.key_of(plain, "bookworm")


def test_what_the_initramfs_is_made_of_is_there_before_the_kernel(tmp_path):
    rootfs._write_initramfs(tmp_path / "a.tar", rootfs._initramfs_files(plan()))
    with tarfile.open(tmp_path / "a.tar") as tar:
        names = tar.getnames()
        modules = tar.extractfile("etc/initramfs-tools/modules").read().decode().split()
        script = tar.getmember("etc/initramfs-tools/scripts/init-bottom/sanderling-overlay")
    assert {"mmc_block", "virtio_blk", "overlay"} <= set(modules)
    assert script.mode == 0o755
    assert names.index("etc/initramfs-tools/scripts") < names.index(script.name)
    assert len(names) == len(set(names))


@pytest.mark.parametrize("mounted", [False, True])
def test_programs_that_are_installed_are_not_asked_for_again(monkeypatch, tmp_path, mounted):
    """QEMU is there, and the kernel was not told of it: no package helps."""
    folder = tmp_path / "binfmt_misc"
    folder.mkdir()
    if mounted:
        (folder / "register").touch()
    monkeypatch.setattr(rootfs.shutil, "which", lambda name, path: f"/usr/bin/{name}")
    monkeypatch.setattr(rootfs, "BINFMT", folder / "qemu-aarch64")
    mount = "" if mounted else f"mount -t binfmt_misc binfmt_misc {folder} && "
    assert rootfs.missing() == (
        "the kernel runs no programs for aarch64 here yet; as root: "
        f"{mount}update-binfmts --enable qemu-aarch64"
    )


def test_the_first_fleet_has_every_package_that_an_image_needs():
    page = (Path(__file__).parents[3] / "docs/use/first-fleet.md").read_text()
    asked_for = page.partition("sudo apt install")[2].partition("Everything below")[0].split()
    needed = {**rootfs.PROGRAMS, **rootfs.EMULATION, "newuidmap": "uidmap"}
    assert set(needed.values()) - {"util-linux"} <= set(asked_for)


def test_what_is_missing_here_comes_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(rootfs.shutil, "which", lambda name, path: name != "mcopy" or None)
    monkeypatch.setattr(rootfs, "BINFMT", tmp_path / "none")
    line = rootfs.missing()
    assert line.startswith("building an image needs more here: apt install mtools")
    assert "\n" not in line
