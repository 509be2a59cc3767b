"""The files of a release, and the bytes that they become."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time

import pytest

from fleet.release import byte_code
from fleet.release.archive import packed
from fleet.release.target import EPOCH_S, ReleaseError, Target
from fleet.release.tree import Entry, Tree
from tests.fleet.release.wheels import make_wheel

RELEASE = "1.0-00000000"
HERE = Target(os.uname().machine, f"{sys.version_info.major}.{sys.version_info.minor}")
SITE = HERE.site_packages
FILES = {
    "thing/__init__.py": "VALUE = {'a', 'b', 'c', 'd'} or 1\n",
    "thing/main.py": "import sys\n\n\ndef run():\n    print(sys.argv[1:], __file__)\n",
    "thing/main.pyi": "def run() -> None: ...\n",
    "thing/fast.pxd": "",
    "thing/fast.pyx": "",
    "thing/check.h": "",
    "thing/py.typed": "",
    "thing/data/table.csv": "1,2\n",
    "thing/tests/test_main.py": "",
    "thing/testing.py": "",
    "thing-1.0.data/scripts/other": "#!python\n",
}


@pytest.fixture
def tree(tmp_path):
    made = Tree(RELEASE, HERE)
    scripts = "thing = thing.main:run\nabsent = nowhere.main:run"
    made.add_wheel(make_wheel(tmp_path, files=FILES, scripts=scripts), scripts=True)
    return made


def test_only_what_a_host_reads_is_in_it(tree):
    inside = {path.removeprefix(f"{SITE}/") for path in tree.entries if path.startswith(SITE)}
    assert inside == {
        "thing/__init__.py",
        "thing/main.py",
        "thing/data/table.csv",
        "thing/testing.py",
        "thing-1.0.dist-info/METADATA",
        "thing-1.0.dist-info/entry_points.txt",
        "thing-1.0.dist-info/licenses/LICENSE",
    }


def test_commands_are_those_whose_module_is_there(tree):
    programs = {path for path in tree.entries if path.startswith("bin/")}
    assert programs == {"bin/python", "bin/python3", "bin/thing"}
    script = tree.entries["bin/thing"]
    assert script.mode == 0o755
    # Not that of `current`: what runs keeps its modules when another release is taken into use.
    assert script.content.startswith(f"#!/opt/sanderling/releases/{RELEASE}/bin/python3\n".encode())


def test_commands_of_others_are_left_out(tmp_path):
    made = Tree(RELEASE, HERE)
    made.add_wheel(make_wheel(tmp_path, scripts="thing = thing:VALUE"))
    assert "bin/thing" not in made.entries


def test_it_says_which_release_it_is(tree):
    assert tree.entries["RELEASE"].content == f"{RELEASE}\n".encode()


def test_what_the_system_gets_is_shared(tree):
    tree.share({"a.service": b"[Service]\n"})
    assert tree.entries["share/sanderling/a.service"] == Entry(b"[Service]\n")


def test_it_runs_where_it_is_unpacked(tree, tmp_path):
    """With this Python in the place of Debian's, and the byte code that was made ahead."""
    tree.entries["bin/python3"] = Entry(link=sys.executable)
    tree.add_byte_code(byte_code.compiled(tree))
    folder = tmp_path / "release"
    with tarfile.open(fileobj=io.BytesIO(packed(tree.entries))) as archive:
        archive.extractall(folder, filter="tar")
    module = f"{SITE}/thing/main.py"
    (folder / module).write_text("that this is read is wrong\n")
    program = "import thing.main; thing.main.run()"
    done = subprocess.run(
        [folder / "bin/python3", "-c", program, "x"],
        capture_output=True,
        check=True,
        text=True,
        env={},
    )
    assert done.stdout == f"['x'] {folder}/{module}\n"


def test_a_module_that_cannot_be_compiled_is_one_line(tree):
    tree.entries[f"{SITE}/thing/wrong.py"] = Entry(b"def\n")
    with pytest.raises(ReleaseError, match="cannot be compiled"):
        list(byte_code.compiled(tree))


def test_the_same_files_are_the_same_bytes(tree, monkeypatch):
    first = dict(byte_code.compiled(tree))
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    second = dict(byte_code.compiled(tree))
    assert first == second != {}
    tree.add_byte_code(first.items())
    bytes_before = packed(tree.entries)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    assert packed(dict(sorted(tree.entries.items(), reverse=True))) == bytes_before


def test_an_archive_has_roots_files_and_their_folders():
    entries = {"a/b/c": Entry(b"c", 0o755), "a/link": Entry(link="b/c"), "z": Entry(b"z")}
    with tarfile.open(fileobj=io.BytesIO(packed(entries))) as archive:
        members = archive.getmembers()
    names = [member.name for member in members]
    assert names == [".", "./a", "./a/b", "./a/b/c", "./a/link", "./z"]
    assert {(m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {
        (0, 0, "root", "root", EPOCH_S)
    }
    by_name = dict(zip(names, members, strict=True))
    assert by_name["./a"].isdir()
    assert (by_name["./a/b/c"].mode, by_name["./z"].mode) == (0o755, 0o644)
    assert (by_name["./a/link"].issym(), by_name["./a/link"].linkname) == (True, "b/c")
