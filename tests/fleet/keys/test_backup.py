"""Backups: nothing is lost, nothing is damaged unnoticed, nothing is replaced by accident."""

import errno
import os
import shutil
import stat
import subprocess
import sys

import pytest

from fleet.common import exits
from fleet.inventory.folder import Folder
from fleet.inventory.parties import Party
from fleet.keys import backup as b
from fleet.keys.errors import KeyStoreError
from fleet.keys.private_files import locked
from fleet.keys.store import Store
from testkit.complete_inventory import complete
from tests.fleet.keys.rig import store

FLEET = complete()
SECRET = "correct horse battery"


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    monkeypatch.setattr(b, "COST", 10)


@pytest.fixture
def kept(tmp_path):
    """A store with a revoked node, and its backup."""
    keys = store(tmp_path / "one", FLEET)
    keys.revoke(FLEET, Party("node", "iad1/n1"), "stolen")
    b.backup(keys, tmp_path / "backup", SECRET)
    return keys


def files(folder):
    return {
        p.relative_to(folder).as_posix(): (p.read_bytes(), stat.S_IMODE(p.stat().st_mode))
        for p in folder.rglob("*")
        if p.is_file() and not p.name.startswith(".")
    }


def test_all_of_it_comes_back_on_another_machine(kept, tmp_path):
    there = Folder(tmp_path / "two")
    there.root.mkdir()
    assert b.restore(there, tmp_path / "backup", SECRET) == len(files(kept.folder.keys))
    assert files(there.keys) == files(kept.folder.keys)
    again = Store(there)
    assert again.ensure(FLEET) == []
    assert again.revocations() == kept.revocations()
    assert b.restore(there, tmp_path / "backup", SECRET) == 0  # the same already
    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == 0o600
    for content, _ in files(kept.folder.keys).values():
        assert content not in (tmp_path / "backup").read_bytes()


def test_a_folder_of_the_owners_own_is_passed_over(kept, tmp_path):
    (kept.folder.keys / "curve/old").mkdir()
    count = b.backup(kept, tmp_path / "again", SECRET)
    assert b.restore(kept.folder, tmp_path / "again", SECRET) == 0
    assert count == len(files(kept.folder.keys))


def test_another_store_is_not_replaced_unless_asked(kept, tmp_path):
    other = store(tmp_path / "two", FLEET)
    before = files(other.folder.keys)
    with pytest.raises(b.OtherStoreError, match="--replace") as refused:
        b.restore(other.folder, tmp_path / "backup", SECRET)
    assert refused.value.status == exits.REFUSED
    assert files(other.folder.keys) == before
    b.restore(other.folder, tmp_path / "backup", SECRET, replace=True)
    assert files(other.folder.keys) == files(kept.folder.keys)
    (beside,) = (tmp_path / "two").glob("keys.before-*")
    assert files(beside) == before


def test_a_folder_that_cannot_be_read_is_no_empty_one(kept, tmp_path, monkeypatch):
    """Its keys were missing in the backup, and nobody was told."""
    for name in ("listdir", "scandir"):
        real = getattr(os, name)

        def closed(path, real=real):
            if os.fspath(path).endswith("/ssh"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            return real(path)

        monkeypatch.setattr(os, name, closed)
    with pytest.raises(KeyStoreError, match=r"cannot read .*/keys/ssh: Permission denied"):
        b.backup(kept, tmp_path / "another", SECRET)
    assert not (tmp_path / "another").exists()


def test_a_public_half_that_is_no_file_is_not_waited_for(kept, tmp_path):
    public = kept.folder.keys / "ssh/operator.pub"
    public.unlink()
    os.mkfifo(public)
    with pytest.raises(KeyStoreError, match=r"cannot read .*operator\.pub: not a regular file"):
        b.backup(kept, tmp_path / "another", SECRET)


@pytest.mark.parametrize("lock", [".rotation.lock", ".lock"])
def test_no_store_is_replaced_that_a_command_is_writing(kept, tmp_path, lock):
    """A rotation went on with the keys of the backup, and said that they were new."""
    other = store(tmp_path / "two", FLEET)
    before = files(other.folder.keys)
    held = locked(other.folder.keys / lock, "here")
    with held, pytest.raises(KeyStoreError, match="another command is"):
        b.restore(other.folder, tmp_path / "backup", SECRET, replace=True)
    assert files(other.folder.keys) == before


def test_a_restore_that_fails_leaves_the_keys_that_were_there_and_no_others(
    kept, tmp_path, monkeypatch
):
    other = store(tmp_path / "two", FLEET)
    before = files(other.folder.keys)
    for fault in ("write", "rename", "two renames", "sync"):
        with monkeypatch.context() as broken:
            breaking(broken, fault)
            with pytest.raises((KeyStoreError, KeyboardInterrupt)):
                b.restore(other.folder, tmp_path / "backup", SECRET, replace=True)
        if fault != "sync":  # what has its place already stays there
            assert files(other.folder.keys) == before
            assert not list((tmp_path / "two").glob("keys.*"))
    assert files(other.folder.keys) == files(kept.folder.keys)


@pytest.mark.parametrize("steps", range(3))
def test_a_restore_that_is_killed_leaves_the_former_keys_or_the_new_ones(kept, tmp_path, steps):
    """After so many of the last steps, which change names."""
    other = store(tmp_path / "two", FLEET)
    before = files(other.folder.keys)
    if not (child := os.fork()):
        left = steps

        def killed(event, arguments):
            nonlocal left
            of_a_folder = event == "os.rename" and ".part-" not in str(arguments[0])
            if of_a_folder or event == "ctypes.dlsym":
                left -= 1
                if left < 0:
                    os._exit(9)

        sys.addaudithook(killed)
        try:
            b.restore(other.folder, tmp_path / "backup", SECRET, replace=True)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (9 if steps < 2 else 0)
    assert files(other.folder.keys) == (files(kept.folder.keys) if steps else before)
    # What it left is put in order by the next one.
    left = b.interrupted(other.folder)
    assert len(left) == (steps < 2)
    said = []
    b.restore(other.folder, tmp_path / "backup", SECRET, replace=True, say=said.append)
    assert ["removed" in line for line in said] == [[True], [False], []][steps]
    assert b.interrupted(other.folder) == []
    assert files(other.folder.keys) == files(kept.folder.keys)
    (former,) = (tmp_path / "two").glob("keys.before-*")
    assert files(former) == before


def test_what_a_killed_restore_left_and_nobody_can_remove_is_named(kept, tmp_path, monkeypatch):
    left = tmp_path / "one" / f"keys.restored-20261130T000000-{2**30}"
    shutil.copytree(kept.folder.keys, left)
    at_work = left.with_name(f"keys.restored-20261130T000000-{os.getpid()}")
    shutil.copytree(kept.folder.keys, at_work)

    def refuses(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(b.shutil, "rmtree", refuses)
        with pytest.raises(KeyStoreError, match=f"{left}, .* secret keys and cannot be removed: "):
            b.restore(kept.folder, tmp_path / "backup", SECRET)
    assert b.restore(kept.folder, tmp_path / "backup", SECRET) == 0
    assert not left.exists()
    assert at_work.exists(), "another one works there"


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (os.mkfifo, "x: not a regular file"),
        (os.mkdir, "x: Is a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "x: not a regular file"),
        (lambda path: (path.touch(), os.truncate(path, 1 << 40)), "x: it has more than 64 MiB"),
    ],
)
def test_what_is_no_backup_is_refused_without_being_read(kept, tmp_path, make, line):
    make(tmp_path / "x")
    with pytest.raises(KeyStoreError, match=line):
        b.restore(kept.folder, tmp_path / "x", SECRET)


def test_a_backup_that_takes_more_memory_than_there_is_says_so(kept, tmp_path, monkeypatch):
    """Whoever made it chose how much it takes to open it."""
    sealed = bytearray((tmp_path / "backup").read_bytes())
    sealed[len(b.MAGIC + b.VERSION)] = 20

    def none_left(*_):
        raise MemoryError

    monkeypatch.setattr(b, "_key", none_left)
    with pytest.raises(KeyStoreError, match="backup: it takes 1024 MiB of memory to open it"):
        b.open_sealed(bytes(sealed), SECRET, "backup")


def breaking(monkeypatch, fault):
    """Let a restore fail in the midst."""
    if fault == "two renames":  # as on a file system that cannot exchange two names
        monkeypatch.setattr(b, "exchange", lambda *_: False)
    if fault.endswith(("rename", "renames")):
        rename = os.rename

        def once(source, target):
            if ".restored-" in str(source):
                raise OSError(5, "Input/output error")
            rename(source, target)

        monkeypatch.setattr(b.Path, "rename", once)
        return
    count = 0

    def broken(*args):
        nonlocal count
        count += 1
        if fault == "sync":
            raise OSError(5, "Input/output error")
        if count > 5:
            raise KeyboardInterrupt
        write(*args)

    write = b.write_file
    monkeypatch.setattr(b, "write_file" if fault == "write" else "sync", broken)


def test_git_takes_no_key_whatever_the_folder_of_the_fleet_ignores(kept, tmp_path, monkeypatch):
    """A fleet of an older version, or one whose .gitignore somebody wrote."""
    other = store(tmp_path / "two", FLEET)
    git = ["git", "-C", tmp_path / "two"]
    subprocess.run([*git, "init", "-q"], check=True)
    seen = []
    rename = b.Path.rename

    def look():
        seen.append(subprocess.check_output([*git, "add", "-An", "."], text=True))

    def looking(self, target):
        look()
        return rename(self, target)

    exchange = b.exchange
    monkeypatch.setattr(b.Path, "rename", looking)
    monkeypatch.setattr(b, "exchange", lambda *both: look() or exchange(*both))
    b.restore(other.folder, tmp_path / "backup", SECRET, replace=True)
    assert len(seen) == 2
    seen.append(subprocess.check_output([*git, "add", "-An", "."], text=True))
    shown = {line for each in seen for line in each.splitlines()}
    assert shown <= {"add 'known_hosts'", "add 'latency-model.json'"}  # neither is secret


def test_a_backup_replaces_no_file_and_needs_a_passphrase(kept, tmp_path):
    with pytest.raises(KeyStoreError, match="is there already"):
        b.backup(kept, tmp_path / "backup", SECRET)
    with pytest.raises(KeyStoreError, match="shorter than 8"):
        b.backup(kept, tmp_path / "another", "short")
    with pytest.raises(KeyStoreError, match="wrong passphrase"):
        b.restore(Folder(tmp_path / "x"), tmp_path / "backup", SECRET + "!")
    with pytest.raises(KeyStoreError, match="No such file"):
        b.restore(Folder(tmp_path / "x"), tmp_path / "none", SECRET)


def test_a_bit_that_flips_anywhere_is_noticed():
    plain = b"what is kept" * 3
    sealed = b.seal(plain, SECRET)
    assert b.open_sealed(sealed, SECRET, "it") == plain
    for at in range(len(sealed)):
        for bit in (1, 128):
            damaged = sealed[:at] + bytes([sealed[at] ^ bit]) + sealed[at + 1 :]
            with pytest.raises(KeyStoreError, match=r"^it[ :][^\n]+$"):
                b.open_sealed(damaged, SECRET, "it")


def test_a_file_that_is_cut_short_or_longer_is_noticed():
    sealed = b.seal(b"what is kept", SECRET)
    for damaged in [sealed[:length] for length in range(len(sealed))] + [sealed + b"\0"]:
        with pytest.raises(KeyStoreError, match=r"^it"):
            b.open_sealed(damaged, SECRET, "it")


@pytest.mark.parametrize("name", ["../etc/x", "/etc/x", "curve/../x", "ssh/a/b", "x", "curve/"])
def test_no_file_is_written_beside_the_store(tmp_path, name):
    content = b.msgspec.msgpack.encode(b.Content({name: b"x"}))
    (tmp_path / "backup").write_bytes(b.seal(content, SECRET))
    with pytest.raises(KeyStoreError, match="none of a key store"):
        b.restore(Folder(tmp_path / "f"), tmp_path / "backup", SECRET)


def test_two_backups_of_one_store_have_nothing_in_common():
    one, two = b.seal(b"same", SECRET), b.seal(b"same", SECRET)
    assert one[b.HEADER - 28 :] != two[b.HEADER - 28 :]
    assert one[: b.HEADER][:-28] == two[: b.HEADER][:-28]
