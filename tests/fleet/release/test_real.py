"""Releases as they are built and run: compilers, the network, minutes. `make test-image`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import packaging
import pytest

from fleet.inventory.folder import CACHE, Folder, cache
from fleet.release import apt_sources as mirrors
from fleet.release import bundle, sources, wheel
from fleet.release.target import Target
from tests.image import pi as image_pi

PI = Target("aarch64", "3.11")
BINFMT = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
PACKAGES = ("--architectures=arm64", "--variant=extract", "--include=python3,libstdc++6")
EDGE = """\
[node]
name = "n1"
areas = ["b1/f1/r1"]
[master]
address = "tcp://127.0.0.1:5701"
[history]
path = "/var/lib/history.sqlite"
[[sensor]]
driver = "synthetic"
interval_s = 1.0
"""
ENTER = 'mkdir -p "$0/proc" && mount --bind /proc "$0/proc" && exec chroot "$0" "$@"'
IMPORTS = """\
import _core.queue.edf, agent.edge.kernel_clock, gpiod, msgspec, prometheus_client
import psutil, sdnotify, serial, sysv_ipc, zmq
from agent.runtime.release import release
print(release())
"""


# The tags of this Python and its C library, as pip compares them with a wheel's name.
FITS = """\
import sys
sys.path.append("/pip")
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
print(sorted(str(tag) for tag in parse_wheel_filename(sys.argv[1])[3] & {*sys_tags()}))
"""


def missing() -> str:
    """Why these tests cannot run, in one line; empty if they can."""
    if os.environ.get("SANDERLING_IMAGE") not in {"1", "page", "slow"}:
        return "takes minutes; make test-image runs it"
    if os.geteuid() != 0:
        return "needs root, for unshare and chroot"
    for program in ("aarch64-linux-gnu-gcc", "mmdebstrap"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    return "" if BINFMT.exists() else "programs for aarch64 do not run here: qemu-user-static"


pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def pi(folder, tmp_path_factory):
    """A root file system of arm64's packages, without their scripts, and the release in it, with
    what the images' tests have compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(image_pi.CACHE))
        made = bundle.build(folder, PI, say=print)
    root = tmp_path_factory.mktemp("pi") / "root"
    subprocess.run(
        ["mmdebstrap", *PACKAGES, "--format=directory", "bookworm", root, "-"],
        check=True,
        input=mirrors.lines_for("bookworm", mirrors.of_host(), None),
        text=True,
    )
    with tarfile.open(made.path) as archive:
        archive.extractall(root / "opt/sanderling/releases" / made.release, filter="tar")
    (root / "opt/sanderling/current").symlink_to(f"releases/{made.release}")
    (root / "etc/sanderling").mkdir()
    (root / "etc/sanderling/edge.toml").write_text(EDGE)
    return root, made


def inside(pi, command, *arguments, **options):
    """A command of the release, on what it takes for a Pi. The mount is this process's alone."""
    root, made = pi
    program = f"/opt/sanderling/releases/{made.release}/bin/{command}"
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", ENTER, root, program, *arguments],
        text=True,
        env={"HOME": "/", "PATH": os.environ["PATH"]},
        **options,
    )


@pytest.mark.skipif(image_pi.wanted() != "slow", reason="only with make test-image ARGS=slow")
def test_what_is_built_again_from_nothing_has_the_same_bytes(pi, tmp_path, monkeypatch):
    monkeypatch.delenv(CACHE, raising=False)
    assert bundle.build(Folder(tmp_path), PI, say=print).sha256 == pi[1].sha256


def test_all_that_is_compiled_is_for_the_target(pi):
    root, made = pi
    compiled = sorted((root / "opt/sanderling/releases" / made.release).rglob("*.so*"))
    own = {path.name.partition(".")[0] for path in compiled if {"_core", "edge"} & {*path.parts}}
    assert {"kernel_clock", "edf", "_build"} <= own
    aarch64 = (183).to_bytes(2, "little")  # e_machine of ELF
    assert {path.read_bytes()[18:20] for path in compiled} == {aarch64}


def test_our_wheel_has_a_tag_that_pip_takes_on_a_pi(folder, pi, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(image_pi.CACHE))
        caches = cache(folder.releases)
    made = wheel.build(sources.read(sources.checkout()), PI, tmp_path, caches=caches, say=print)
    shutil.copytree(Path(packaging.__file__).parent, pi[0] / "pip/packaging")
    with inside(pi, "python3", "-c", FITS, made.name, stdout=subprocess.PIPE) as process:
        assert process.communicate()[0] == "['cp311-cp311-linux_aarch64']\n"


def test_modules_are_imported_on_a_pi(pi):
    with inside(pi, "python3", "-c", IMPORTS, stdout=subprocess.PIPE) as process:
        assert process.communicate()[0] == f"{pi[1].release}\n"
    assert process.returncode == 0


def test_a_configuration_is_checked_on_a_pi(pi):
    options = ("--config", "/etc/sanderling/edge.toml", "--check")
    with inside(pi, "sanderling-edge", *options, stdout=subprocess.PIPE) as process:
        assert "ok" in process.communicate()[0]
    assert process.returncode == 0


def test_the_agent_starts_on_a_pi_and_stops(pi):
    command = ("sanderling-edge", "--config", "/etc/sanderling/edge.toml", "--exit-on-stdin-eof")
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with inside(pi, *command, **pipes) as process:
        said = process.stderr.readline()
        process.stdin.close()
        assert process.wait(timeout=120) == 0
    assert "n1" in said
    assert (pi[0] / "var/lib/history.sqlite").stat().st_size > 0
