"""File systems of a small tree: the same bytes every time. Needs the tools of a build, no root."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from fleet.image import assemble, layers, recipe

EPOCH = 1_700_000_000
TOOLS = ("sfdisk", "mkfs.vfat", "mcopy", "mke2fs", "debugfs")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
LACKING = [name for name in TOOLS if shutil.which(name, path=PATH) is None]
needs_tools = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}")


def specification(folder, **values):
    return assemble.Specification(
        plan=recipe.plan(layers.read_library(), layers.read_recipe("pi4"), values)._replace(
            size_mib=1024
        ),
        root_tar="",
        bundle="",
        release="0.1.0-00000000",
        sources="",
        epoch=EPOCH,
        image=str(folder / "card.img"),
        work=str(folder),
    )


def tree(folder):
    """A root file system with the content of a boot partition, as after unpacking."""
    root = folder / "root"
    for name in ("boot/firmware", "etc/default", "usr/bin", "var/log/apt"):
        (root / name).mkdir(parents=True)
    (root / "boot/firmware/vmlinuz-6.1").write_bytes(bytes(range(256)) * 1000)
    (root / "boot/firmware/initrd.img-6.1").write_bytes(b"initrd")
    (root / "etc/passwd-").write_text("old")
    (root / "etc/machine-id").write_text("0123456789abcdef\n")
    (root / "usr/bin/sh").symlink_to("dash")
    (root / "usr/bin/[").write_bytes(b"\x7fELF" + bytes(5000))
    (root / 'usr/bin/a "b" c').write_bytes(b"")
    (root / "var/log/apt/history.log").write_text("today")
    return root


def written(folder, **values):
    folder.mkdir()
    what, root = specification(folder, **values), tree(folder)
    boot = assemble._boot_files(what, root)
    assemble._clean(root)
    assemble._set_times(root, EPOCH)
    assemble._write_image(what, root, boot)
    return folder / "card.img"


def debugfs(image, command, at_mib=assemble.ROOT_AT_MIB):
    done = subprocess.run(
        ["debugfs", "-R", command, f"{image}?offset={at_mib * assemble.MIB}"],
        capture_output=True,
        check=True,
        text=True,
        env={"PATH": PATH, "TZ": "UTC"},
    )
    return done.stdout


@pytest.mark.long
@needs_tools
def test_two_trees_that_are_the_same_give_the_same_bytes(tmp_path):
    first = written(tmp_path / "a")
    # Of another time in every place that this machine's clock may go to.
    assert first.stat().st_mtime > EPOCH
    second = written(tmp_path / "b")
    assert subprocess.run(["cmp", first, second], check=False).returncode == 0


@needs_tools
def test_no_time_is_later_and_names_are_as_they_were(tmp_path):
    image = written(tmp_path / "a")
    for name in ("/usr/bin/sh", "/usr/bin/[", '/usr/bin/a ""b"" c', "/", "/etc/machine-id"):
        shown = debugfs(image, f'stat "{name}"')
        for line in shown.splitlines():
            if "time: 0x" in line:
                assert int(line.split("0x")[1].split(":")[0], 16) <= EPOCH, (name, line)
    assert "etc/passwd-" not in debugfs(image, "ls -l /etc")
    assert debugfs(image, "cat /etc/machine-id") == ""
    assert "history.log" not in debugfs(image, "ls /var/log/apt")


@needs_tools
def test_the_partitions_lie_where_the_table_says(tmp_path):
    image = written(tmp_path / "a", read_only=True)
    done = subprocess.run(
        ["sfdisk", "--dump", image], capture_output=True, check=True, text=True, env={"PATH": PATH}
    )
    sizes = [
        line.split("size=")[1].split(",")[0] for line in done.stdout.splitlines() if "size=" in line
    ]
    assert [int(size) // 2048 for size in sizes] == [252, 1024 - 256 - 512, 512]
    assert "Filesystem volume name:   data" in debugfs(image, "show_super_stats -h", 512)
    boot = f"{image}@@{assemble.BOOT_AT_MIB}M"
    config = subprocess.run(
        ["mtype", "-i", boot, "::config.txt"], capture_output=True, check=True, text=True
    ).stdout
    assert "kernel=vmlinuz-6.1\ninitramfs initrd.img-6.1\n" in config


@needs_tools
def test_a_tool_that_fails_is_one_line(tmp_path):
    with pytest.raises(assemble.ImageError, match=r"^mcopy failed: "):
        assemble._run("mcopy", "-i", tmp_path / "none", "a", "::")


def test_a_link_cannot_lead_out_of_the_image(tmp_path):
    (tmp_path / "etc").symlink_to("/etc")
    with pytest.raises(assemble.ImageError, match="leads out of the image"):
        assemble._inside(tmp_path, "/etc/passwd")
