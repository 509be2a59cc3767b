"""The key store: made once, replaced never, for its owner alone."""

import os
import shutil
import stat
import subprocess
from contextlib import suppress
from datetime import UTC, datetime
from threading import get_ident

import pytest

from agent.net.keys import read_publics, read_secrets
from fleet.inventory.files import files_of
from fleet.inventory.folder import Folder
from fleet.inventory.parties import CLIENT, OPERATOR, Party, hosts, parties
from fleet.keys import private_files, ssh
from fleet.keys.errors import KeyStoreError
from fleet.keys.store import OPERATOR_KEY, Store
from tests.fleet.keys.rig import inventory, store

FLEET = inventory(nodes=2)
NODE = Party("node", "iad4/n1")
NOW = datetime(2026, 5, 21, tzinfo=UTC)


def secrets(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_missing_is_made_and_nothing_is_replaced(tmp_path):
    keys = Store(Folder(tmp_path))
    made = keys.ensure(FLEET)
    assert [each for each in made if isinstance(each, Party)] == list(parties(FLEET))
    assert OPERATOR_KEY in made
    assert {host.name for host in hosts(FLEET)} <= set(made)
    before = secrets(tmp_path)
    assert keys.ensure(FLEET) == []
    assert secrets(tmp_path) == before
    # One that is lost is made again, the others stay.
    (lost,) = (path for path in before if path.name == "node-iad4+n1.secret")
    lost.unlink()
    assert keys.ensure(FLEET) == [NODE]
    after = secrets(tmp_path)
    assert {path for path in before if before[path] != after[path]} == {lost}


def test_it_is_for_its_owner_alone(tmp_path):
    keys = store(tmp_path, FLEET)
    for path in keys.folder.keys.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        wanted = 0o700 if path.is_dir() else 0o644 if path.suffix == ".pub" else 0o600
        assert mode == wanted, path
    secret = tmp_path / "keys/curve/node-iad4+n1.secret"
    secret.chmod(0o640)
    with pytest.raises(KeyStoreError, match=r"others may read .*chmod 600"):
        keys.secret_file(NODE)
    secret.chmod(0o600)
    keys.folder.keys.chmod(0o750)
    with pytest.raises(KeyStoreError, match=r"chmod 700"):
        Store(keys.folder)
    keys.folder.keys.chmod(0o700)
    secret.rename(tmp_path / "elsewhere")
    secret.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyStoreError, match="symbolic link"):
        keys.secret_file(NODE)


def test_a_store_of_somebody_else_is_refused(tmp_path, monkeypatch):
    keys = store(tmp_path, FLEET)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(KeyStoreError, match=f"belongs to user {me}"):
        Store(keys.folder)


def test_agents_read_its_files(tmp_path):
    keys = store(tmp_path, FLEET)
    for name, content in (("a", keys.secret_file(NODE)), ("b", keys.public_file(NODE))):
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(0o600)
    (pair,) = read_secrets(str(tmp_path / "a"))
    assert read_publics(str(tmp_path / "b")) == (pair.public,) == keys.publics(NODE)
    for role, party in (("client", CLIENT), ("operator", OPERATOR)):
        handshake = keys.key_files(role, "iad4").handshake(0)
        assert handshake.own.public == keys.publics(party)[0]
        assert handshake.server == keys.publics(Party("master", "iad4"))[0]
    assert keys.publics(Party("node", "iad9/n1")) == ()
    with pytest.raises(KeyStoreError, match="fleet keys init"):
        keys.secret_file(Party("node", "iad9/n1"))


def test_a_damaged_file_is_one_line(tmp_path):
    keys = store(tmp_path, FLEET)
    for damaged in (b"", b"\xff\xfe", b"not a key\n"):
        (tmp_path / "keys/curve/node-iad4+n1.secret").write_bytes(damaged)
        with pytest.raises(KeyStoreError, match=r"^[^\n]*node-iad4\+n1\.secret[^\n]*$"):
            keys.secret_file(NODE)
    (tmp_path / "keys/ssh/host-iad4+n1.key").write_bytes(b"x")
    with pytest.raises(KeyStoreError, match="no private SSH key"):
        keys.host_key("iad4/n1")
    (tmp_path / "keys/revoked.json").write_bytes(b"{")
    (tmp_path / "keys/revoked.json").chmod(0o600)
    with pytest.raises(KeyStoreError, match=r"revoked\.json"):
        keys.publics(NODE)


def test_an_empty_list_of_revocations_lets_nobody_in(tmp_path):
    keys = store(tmp_path, FLEET)
    keys.revoke(FLEET, NODE, "stolen")
    (tmp_path / "keys/revoked.json").write_bytes(b"")
    with pytest.raises(KeyStoreError, match=r"revoked\.json: .*restore it from a backup"):
        keys.publics(NODE)


@pytest.mark.parametrize(
    "content", [b"", b"ssh-ed25519 \xff", b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5\n", b"\0" * 40]
)
def test_a_damaged_pin_is_one_line_that_says_what_pins_anew(tmp_path, content):
    keys = store(tmp_path, FLEET)
    (host,) = (each for each in hosts(FLEET) if each.name == "iad4/n1")
    theirs = ssh.make("root@debian").public
    keys.adopt(FLEET, host, theirs)
    (tmp_path / "keys/ssh/host-iad4+n1.pin").write_bytes(content)
    for command in (lambda: keys.pin("iad4/n1"), lambda: keys.require_pins(FLEET)):
        with pytest.raises(KeyStoreError, match="is no public SSH key; fleet keys adopt iad4/n1"):
            command()
    keys.adopt(FLEET, host, theirs)
    assert keys.pin("iad4/n1") == ssh.normal(theirs)


def test_keys_that_are_damaged_are_not_told_to_be_there(tmp_path):
    keys = store(tmp_path, FLEET)
    public = tmp_path / "keys/curve/master-iad4.public"
    before = public.read_bytes()
    public.unlink()
    keys.ensure(FLEET)  # it is made of the secret half
    assert public.read_bytes() == before
    (tmp_path / "keys/curve/node-iad4+n1.secret").write_bytes(b"")
    with pytest.raises(KeyStoreError, match=r"node-iad4.n1.secret: no key in it"):
        keys.ensure(FLEET)


@pytest.mark.parametrize("path", ["pipe", "/dev/zero", "large"])
def test_a_latency_model_that_an_inventory_names_is_a_file(tmp_path, path):
    keys = store(tmp_path, FLEET)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 40)
    line = "it has more than 16 MiB" if path == "large" else "not a regular file"
    with pytest.raises(KeyStoreError, match=f"placement.model: {path}: {line}"):
        keys.latency_model(path)


@pytest.mark.parametrize("name", ["../../x", "a/b/c", "a+b", "a\0b"])
def test_no_name_leaves_the_store(tmp_path, name):
    keys = store(tmp_path, FLEET)
    with pytest.raises(KeyStoreError, match="no name of a host"):
        keys.secret_file(Party("node", name))
    with pytest.raises(KeyStoreError, match="no name of a host"):
        keys.host_key(name)


def test_two_commands_do_not_write_at_once(tmp_path):
    keys = store(tmp_path, FLEET)
    with keys.writing(), pytest.raises(KeyStoreError, match="another command"):
        Store(keys.folder).ensure(FLEET)
    assert Store(keys.folder).ensure(FLEET) == []


def test_a_file_that_somebody_else_has_open_gets_nothing(tmp_path):
    """In /tmp anybody can make one of the name that is written to."""
    part = tmp_path / f"{private_files.PART}k-{os.getpid()}-{get_ident()}"
    part.touch()
    with part.open() as opened:
        private_files.write_file(tmp_path / "k", b"secret")
        assert opened.read() == ""
    assert (tmp_path / "k").read_bytes() == b"secret"


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "k"
    private_files.write_file(path, b"before")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyStoreError, match="No space left"):
        private_files.write_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert [each.name for each in tmp_path.iterdir()] == ["k"]


def test_who_is_revoked_has_no_key_that_counts(tmp_path):
    keys = store(tmp_path, FLEET, clock=lambda: NOW)
    before, host = keys.publics(NODE), keys.host_key("iad4/n1").public
    found = keys.revoke(FLEET, NODE, "stolen")
    assert (found.keys, found.time, found.reason) == (before, "2026-05-21T00:00:00Z", "stolen")
    assert keys.publics(NODE) == ()
    with pytest.raises(KeyStoreError, match="was revoked"):
        keys.secret_file(NODE)
    assert "10.0.4.2 " not in keys.folder.known_hosts.read_text()
    # Not even by making what is missing.
    assert Store(keys.folder).ensure(FLEET) == []
    assert keys.publics(NODE) == ()
    assert keys.reinstate(FLEET, NODE)
    assert not keys.reinstate(FLEET, NODE)
    assert keys.publics(NODE)
    assert not set(keys.publics(NODE)) & set(before)
    assert keys.host_key("iad4/n1").public != host
    assert "10.0.4.2 " in keys.folder.known_hosts.read_text()


def test_a_revocation_that_was_cut_short_never_gives_the_old_key_back(tmp_path, monkeypatch):
    keys = store(tmp_path, FLEET)
    before = keys.publics(NODE)
    write = Store._write

    def cut(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "_write", cut)
    with pytest.raises(KeyboardInterrupt):
        keys.revoke(FLEET, NODE, "")
    monkeypatch.setattr(Store, "_write", write)
    assert keys.publics(NODE) == ()
    keys.reinstate(FLEET, NODE)
    assert not set(keys.publics(NODE)) & set(before)


@pytest.mark.parametrize("steps", range(7))
@pytest.mark.parametrize("of", [NODE, Party("master", "iad4")])
def test_a_revocation_that_was_cut_short_is_finished_by_the_next(tmp_path, monkeypatch, of, steps):
    keys = store(tmp_path, FLEET)
    (host,) = (each for each in hosts(FLEET) if each.party == of)
    theirs = ssh.normal(ssh.make("root@debian").public)
    keys.adopt(FLEET, host, theirs)
    before, ours = keys.publics(of), keys.host_key(host.name)
    with monkeypatch.context() as broken:
        left = steps
        for name in ("write_file", "remove_file"):
            real = getattr(private_files, name)

            def step(*arguments, real=real):
                nonlocal left
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
                real(*arguments)

            broken.setattr(f"fleet.keys.store.{name}", step)
        with suppress(KeyboardInterrupt):
            keys.revoke(FLEET, of, "stolen")
    found = keys.revoke(FLEET, of, "stolen")
    assert (found.keys, keys.revocations()) == (before, (found,))
    assert keys.pin(host.name) == ""
    assert theirs not in keys.folder.known_hosts.read_text()
    assert not set(keys.public_keys(of)) & set(before)
    assert keys.host_key(host.name) != ours
    written = secrets(tmp_path)
    assert keys.revoke(FLEET, of, "again") == found  # there is nothing left to do
    assert secrets(tmp_path) == written


def test_a_damaged_pin_of_another_host_keeps_nobody_in(tmp_path):
    keys = store(tmp_path, FLEET)
    (other,) = (each for each in hosts(FLEET) if each.name == "iad4/n2")
    theirs = ssh.normal(ssh.make("root@debian").public)
    keys.adopt(FLEET, other, theirs)
    (tmp_path / "keys/ssh/host-iad4+n2.pin").write_bytes(b"")
    before = keys.public_keys(NODE)
    keys.revoke(FLEET, NODE, "stolen")
    assert not set(keys.public_keys(NODE)) & set(before)
    assert theirs not in keys.folder.known_hosts.read_text()


def test_a_public_file_that_others_may_read_stops_nothing(tmp_path):
    keys = store(tmp_path, FLEET)
    master = Party("master", "iad4")
    public = tmp_path / "keys/curve/master-iad4.public"
    public.chmod(0o644)
    keys.ensure(FLEET)
    before = keys.public_keys(master)
    keys.revoke(FLEET, master, "stolen")
    assert not set(read_publics(str(public))) & set(before)


def test_nobody_can_pose_as_a_master_that_was_revoked(tmp_path):
    keys = store(tmp_path, FLEET)
    master = Party("master", "iad4")
    before = keys.publics(master)[0]
    keys.revoke(FLEET, master, "")
    for host in hosts(FLEET):
        if host.party != master:
            for file in files_of(FLEET, host, keys):
                assert before.encode() not in file.content


def test_a_host_key_that_was_adopted_is_pinned_instead_of_ours(tmp_path):
    keys = store(tmp_path, FLEET)
    (host,) = (each for each in hosts(FLEET) if each.name == "iad4/n1")
    theirs = ssh.make("root@debian").public
    keys.adopt(FLEET, host, theirs)
    assert keys.pin("iad4/n1") == ssh.normal(theirs)
    assert f"10.0.4.2 {ssh.normal(theirs)}\n" in keys.folder.known_hosts.read_text()
    Store(keys.folder).ensure(FLEET)
    assert keys.adopted("iad4/n1")
    keys.use_own_host_key(FLEET, "iad4/n1")
    assert keys.pin("iad4/n1") == keys.host_key("iad4/n1").public
    with pytest.raises(KeyStoreError, match="no public SSH key"):
        keys.adopt(FLEET, host, "ssh-ed25519 c29tZXRoaW5n\n10.0.4.3 ssh-ed25519 AAAA")


def test_a_master_on_this_machine_has_no_host_key(tmp_path):
    fleet = inventory(nodes=1, local=True)
    keys = store(tmp_path, fleet)
    assert "10.0.4.1 " not in keys.folder.known_hosts.read_text()
    with pytest.raises(KeyStoreError, match="no host key"):
        keys.host_key("iad4/master")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_openssh_reads_our_keys(tmp_path):
    keys = store(tmp_path, inventory(nodes=1, port=2222))

    def keygen(*arguments):
        return subprocess.run(
            ["ssh-keygen", *arguments], capture_output=True, text=True, check=True
        ).stdout

    host = keys.host_key("iad4/n1")
    private = tmp_path / "keys/ssh/host-iad4+n1.key"
    assert keygen("-y", "-f", private).strip() == host.public
    assert ssh.fingerprint(host.public) in keygen("-l", "-f", private)
    assert keys.operator_public in keygen("-y", "-f", keys.operator_key).strip() + " fleet"
    known = str(keys.folder.known_hosts)
    assert host.public in keygen("-F", "10.0.4.2", "-f", known)
    master = keys.host_key("iad4/master").public
    assert master in keygen("-F", "[10.0.4.1]:2222", "-f", known)
    # And hashed as a person's own file may be.
    hashed = tmp_path / "hashed"
    shutil.copy(known, hashed)
    keygen("-H", "-f", hashed)
    assert ssh.find_known(hashed.read_text(), "10.0.4.1", 2222) == (master,)
    assert ssh.find_known(hashed.read_text(), "10.0.4.1", 22) == ()
