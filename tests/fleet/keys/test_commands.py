"""`fleet keys` as an operator runs it: what it prints, and how it ends."""

import json
import signal
import socket
import subprocess
import sys
import threading

import paramiko
import pytest

from fleet.cli.commands import run
from fleet.common import exits, toml
from fleet.inventory.folder import Folder
from fleet.keys import backup, ssh
from fleet.keys.store import Store
from fleet.rollout.keys import adopt
from fleet.ssh.errors import HostError
from tests.fleet.keys.rig import inventory


@pytest.fixture
def fleet(tmp_path, monkeypatch, capsys):
    """Runs a command on a fleet with local masters; (status, stdout, stderr)."""
    monkeypatch.setattr(backup, "COST", 10)
    made = inventory(local=True)
    (tmp_path / "fleet.toml").write_text(toml.dump(made))
    (tmp_path / "passphrase").write_text("correct horse battery\n")
    monkeypatch.chdir(tmp_path)

    def command(*arguments):
        status = run(["keys", *map(str, arguments)])
        said = capsys.readouterr()
        return status, said.out, said.err

    command.root = tmp_path
    return command


def test_from_nothing_to_a_revocation_and_back(fleet):
    status, made, _ = fleet("init", "--json")
    assert (status, len(json.loads(made)["curve"])) == (0, 11)
    assert fleet("init")[1].endswith("nothing was made\n")

    status, text, _ = fleet("show", "--json")
    shown = json.loads(text)
    assert {each["state"] for each in shown["keys"]} == {"current"}
    (stolen,) = [each["key"] for each in shown["keys"] if each["name"] == "iad4/n1"]
    assert [each["host"] for each in shown["host_keys"]] == [
        "iad4/n1", "iad4/n2", "iad5/n1", "iad5/n2"
    ]  # fmt: skip

    status, _, said = fleet("revoke", "iad4/n1", "--reason", "stolen")
    assert (status, "give --yes" in said) == (exits.USAGE, True)
    status, out, _ = fleet("revoke", "iad4/n1", "--reason", "stolen", "--yes")
    assert (status, out) == (0, "iad4/n1 is out; told iad4/master\n")
    assert '"n1"' not in (fleet.root / "masters/iad4/allow.toml").read_text()
    _, text, _ = fleet("show")
    assert ": stolen" in text
    assert "iad4/n1  none is pinned" in text
    # The key on the card that is gone, not its successor, which nobody has.
    _, text, _ = fleet("show", "--json")
    (gone,) = [each for each in json.loads(text)["keys"] if each["name"] == "iad4/n1"]
    assert (gone["state"], gone["key"], gone["made"]) == ("revoked", stolen, None)
    # Whoever has its card may not be let in by a slip.
    status, _, said = fleet("adopt", "iad4/n1", "--fingerprint", "SHA256:x")
    assert status == exits.USAGE
    assert "iad4/n1 was revoked: `fleet replace iad4/n1` sets its successor up" in said
    assert "revoked" in HostError("key_unknown", "no key").remedy
    assert fleet("reinstate", "iad4/n1")[0] == 0
    assert fleet("reinstate", "iad4/n1")[1] == "iad4/n1 was not revoked\n"

    status, out, _ = fleet("revoke", "ada", "--yes", "--json")
    assert [each["role"] for each in json.loads(out)["revoked"]] == ["client", "operator"]


def test_no_secret_is_ever_shown(fleet):
    _, made, _ = fleet("init")
    secrets = [
        path.read_text().split(" ")[0].splitlines()[0]
        for path in (fleet.root / "keys/curve").glob("*.secret")
    ]
    assert len(secrets) == 11
    text = made + fleet("show")[1] + fleet("show", "--json")[1]
    assert not any(secret in text for secret in secrets)


def test_what_expires_soon_is_told(fleet):
    fleet("init", "--lifetime", "31d")
    assert fleet("show")[2] == ""
    fleet.root.joinpath("keys/curve/node-iad4+n1.secret").unlink()
    fleet("init", "--lifetime", "29d")
    status, _, said = fleet("show")
    assert status == 0
    assert said.startswith("node iad4/n1: its key expires in 28 days, and works on; fleet keys")
    assert fleet("init", "--lifetime", "1h")[0] == exits.USAGE


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["revoke", "iad4/n7", "--yes"], "there is no host or person iad4/n7; did you mean"),
        (["revoke", "fleet", "--yes"], "those are this command's own keys"),
        (["rotate", "--person", "adda", "--yes"], "there is no person adda; did you mean ada"),
        (["rotate", "--overlap", "99999999999999d", "--yes"], "at most 366d"),
        (["revoke", "ada", "--reason", "stolen\udcff", "--yes"], "it has bytes that are no UTF-8"),
        (["adopt", "iad4/master", "--fingerprint", "x"], "runs on this machine"),
        (["adopt", "iad4/n1", "--from-file", "none"], "none: No such file"),
        (["adopt", "iad4/n1", "--from-file", "/dev/zero"], "/dev/zero: it has more than 16 MiB"),
        (["export", "iad4/n1", "there"], "is a host"),
        (["export", "ada", "fleet.toml"], "cannot make the folder fleet.toml: File exists"),
        (["backup", "b", "--passphrase-file", "none"], "none: No such file"),
        (["restore", "none", "--passphrase-file", "passphrase"], "none: No such file"),
        # Without asking for a passphrase, which here would be another line.
        (["restore", "none"], "none: No such file"),
        (["backup", "fleet.toml"], "fleet.toml is there already; name another file"),
        (["backup", "none/b"], "there is no folder none; make it, or name another file"),
    ],
)
def test_wrong_usage_is_one_line(fleet, arguments, line):
    fleet("init")
    status, out, said = fleet(*arguments)
    assert (status, out) == (exits.USAGE, "")
    assert line in said
    assert said.count("\n") == 1


def test_a_backup_without_keys_makes_no_folder_and_asks_nothing(fleet):
    status, out, said = fleet("backup", "b")
    assert (status, out) == (exits.USAGE, "")
    assert "fleet keys init makes them" in said
    assert not fleet.root.joinpath("keys").exists()


def test_hosts_that_are_not_there_hold_a_rotation_up(fleet, monkeypatch):
    fleet("init")

    def nobody(*_):
        raise OSError

    monkeypatch.setattr("fleet.rollout.keys.push.write_remote", nobody)
    monkeypatch.setattr("fleet.keys.rotation.SETTLE_S", 0.0)
    status, out, said = fleet("rotate", "--iad", "iad4", "--yes", "--overlap", "0s", "--json")
    assert status == exits.FAILED
    assert json.loads(out)["held"][0] == {
        "party": "master iad4", "stage": "announced", "hosts": ["iad4/n1", "iad4/n2"]
    }  # fmt: skip
    assert "give ada, bob their files" in said
    status, _, said = fleet("rotate", "--iad", "iad5", "--yes")
    assert (status, "a rotation is on its way" in said) == (exits.USAGE, True)
    monkeypatch.setattr("fleet.rollout.keys.push.write_remote", lambda *_: None)
    status, out, _ = fleet("rotate", "--yes")
    assert (status, out) == (0, "3 of 3 parties have a new key alone\n")


def test_a_rotation_that_is_interrupted_says_how_it_continues(fleet, monkeypatch):
    fleet("init")
    monkeypatch.setattr("fleet.rollout.keys.push.write_remote", lambda *_: None)
    monkeypatch.setattr("fleet.keys.rotation.SETTLE_S", 0.0)
    with monkeypatch.context() as patched:
        patched.setattr("time.sleep", lambda _: signal.raise_signal(signal.SIGINT))
        status, out, said = fleet("rotate", "--iad", "iad4", "--yes", "--overlap", "1h")
    assert (status, out) == (exits.INTERRUPTED, "")
    assert said.endswith(
        "fleet: interrupted; old and new keys work on side by side: fleet keys rotate continues\n"
    )
    status, out, said = fleet("rotate", "--yes", "--overlap", "0s")
    assert (status, out) == (0, "3 of 3 parties have a new key alone\n")
    assert "going on with the rotation" in said


def test_a_master_that_is_left_behind_is_told_with_what_helps_it(fleet, monkeypatch):
    fleet("init")
    monkeypatch.setattr("fleet.rollout.keys.push.write_remote", lambda *_: None)
    monkeypatch.setattr("fleet.keys.rotation.SETTLE_S", 0.0)
    status, out, said = fleet(
        "rotate", "--yes", "--overlap", "0s", "--without", "iad5/master,iad4/n1"
    )
    assert (status, out) == (0, "4 of 4 parties have a new key alone\n")
    assert "iad5/master is left behind: other masters, persons and this command do not" in said
    assert "its nodes keep their keys" in said
    assert said.endswith("when back: fleet deploy --limit 'iad4/n1,iad5/master'\n")


def test_a_person_gets_their_files(fleet):
    fleet("init")
    status, out, _ = fleet("export", "ada", "of-ada")
    assert (status, out) == (
        0, "of-ada: client.secret, operator.secret, iad4.public, iad5.public\n"
    )  # fmt: skip
    assert (fleet.root / "of-ada/client.secret").stat().st_mode & 0o777 == 0o600
    (fleet.root / "everybodys").mkdir()
    (fleet.root / "everybodys").chmod(0o1777)
    status, _, said = fleet("export", "ada", "everybodys")
    assert (status, "chmod" in said) == (exits.USAGE, False)
    assert "others may read everybodys; name a folder that is not there yet" in said
    assert Store(Folder(fleet.root)).operator_public


def test_backup_and_restore(fleet):
    fleet("init")
    assert fleet("backup", "b", "--passphrase-file", "passphrase")[0] == 0
    assert "are there" in fleet("restore", "b", "--passphrase-file", "passphrase")[1]
    fleet("revoke", "ada", "--yes")
    status, _, said = fleet("restore", "b", "--passphrase-file", "passphrase")
    assert (status, "--replace" in said) == (exits.REFUSED, True)
    assert fleet("restore", "b", "--passphrase-file", "passphrase", "--replace")[0] == 0
    inventory = (fleet.root / "fleet.toml").read_text()
    fleet("revoke", "ada", "--yes")
    (fleet.root / "fleet.toml").write_text("name = 3")
    status, _, said = fleet("restore", "b", "--passphrase-file", "passphrase", "--replace")
    assert (status, "name must be a text" in said) == (exits.USAGE, True)
    assert (fleet.root / "keys/revoked.json").exists()  # nothing was restored
    (fleet.root / "fleet.toml").write_text(inventory)
    (fleet.root / "passphrase").write_text("another passphrase")
    status, _, said = fleet("restore", "b", "--passphrase-file", "passphrase")
    assert (status, said) == (
        exits.USAGE, "fleet: b: wrong passphrase, or the file is damaged\n"
    )  # fmt: skip
    status, _, said = fleet("backup", "c")
    assert (status, "--passphrase-file" in said) == (exits.USAGE, True)


class SshServer(threading.Thread):
    """Shows a host key to whoever connects, once."""

    def __init__(self):
        super().__init__(daemon=True)
        self.key = paramiko.ECDSAKey.generate()
        self.public = f"{self.key.get_name()} {self.key.get_base64()}"
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.start()

    def run(self):
        connection, _ = self.listening.accept()
        transport = paramiko.Transport(connection)
        transport.add_server_key(self.key)
        transport.start_server(server=paramiko.ServerInterface(), event=threading.Event())
        transport.join(20)
        transport.close()
        self.listening.close()


def test_a_hosts_own_key_is_pinned_once_it_is_vouched_for(fleet, monkeypatch):
    fleet("init")
    own = Store(Folder(fleet.root)).pin("iad4/n1")
    theirs = ssh.make("").public
    monkeypatch.setattr(adopt, "shown_by", lambda *_: theirs)
    status, _, said = fleet("adopt", "iad4/n1")
    assert (status, ssh.fingerprint(theirs) in said) == (exits.USAGE, True)
    status, _, said = fleet("adopt", "iad4/n1", "--fingerprint", ssh.fingerprint(own))
    assert (status, "somebody may be in between" in said) == (exits.REFUSED, True)
    assert Store(Folder(fleet.root)).pin("iad4/n1") == own
    status, out, _ = fleet("adopt", "iad4/n1", "--fingerprint", ssh.fingerprint(theirs))
    assert (status, out) == (0, f"iad4/n1 is pinned to {ssh.fingerprint(theirs)}\n")
    assert f"10.0.4.2 {theirs}".strip() in (fleet.root / "known_hosts").read_text()

    other = ssh.make("").public
    (fleet.root / "known").write_text(f"10.0.4.3 {other}\n")
    assert fleet("adopt", "iad4/n2", "--from-file", "known")[0] == 0
    assert Store(Folder(fleet.root)).pin("iad4/n2") == ssh.normal(other)
    status, _, said = fleet("adopt", "iad4/n1", "--from-file", "known")
    assert (status, "has no key of 10.0.4.2" in said) == (exits.USAGE, True)


def test_the_key_that_a_server_shows():
    server = SshServer()
    assert adopt.shown_by("127.0.0.1", server.port, 20.0) == server.public
    server.join(20)
    with pytest.raises(adopt.KeyStoreError, match=r"no SSH at \S+: Connection refused"):
        adopt.shown_by("127.0.0.1", server.port, 1.0)


def test_help_needs_nothing_heavy():
    code = "import sys; from fleet.cli.commands import run; run(['keys', '--help']); "
    code += "print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("paramiko", "cryptography", "msgspec", "zmq", "rich"):
        assert f"'{heavy}'" not in done.stdout


def test_a_damaged_pin_of_another_host_stops_no_other_key(fleet, monkeypatch):
    fleet("init")
    pin = fleet.root / "keys/ssh/host-iad4+n2.pin"
    pin.write_text("damaged\n")
    pin.chmod(0o600)
    known, theirs = fleet.root / "known_hosts", ssh.make("").public
    line = f"{pin} is no public SSH key; fleet keys adopt iad4/n2"
    monkeypatch.setattr(adopt, "shown_by", lambda *_: theirs)
    status, out, said = fleet("adopt", "iad4/n1", "--fingerprint", ssh.fingerprint(theirs))
    assert (status, out) == (exits.USAGE, f"iad4/n1 is pinned to {ssh.fingerprint(theirs)}\n")
    assert line in said
    assert f"10.0.4.2 {theirs}".strip() in known.read_text()
    known.unlink()
    (fleet.root / "keys/curve/node-iad4+n1.secret").unlink()
    status, out, said = fleet("init")
    assert (status, "1 CURVE key" in out, line in said) == (
        exits.USAGE, True, True,
    )  # fmt: skip
    assert theirs in known.read_text()
    assert fleet("adopt", "iad4/n2", "--fingerprint", ssh.fingerprint(theirs))[0] == 0
    assert fleet("init")[0] == 0
