"""Backups: nothing is lost, nothing is damaged unnoticed, nothing is replaced by accident."""

import stat

import pytest

from fleet import exits
from fleet.folder import Folder
from fleet.inventory.parties import Party
from fleet.keys import backup as b
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import Store
from tests.fleet.keys.rig import inventory, store

FLEET = inventory(nodes=2)
SECRET = "correct horse battery"


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    monkeypatch.setattr(b, "COST", 10)


@pytest.fixture
def kept(tmp_path):
    """A store with a revoked node, and its backup."""
    keys = store(tmp_path / "one", FLEET)
    keys.revoke(FLEET, Party("node", "iad4/n1"), "stolen")
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
