"""Hosts behind a jump host: two SSH servers in this process, the first of which forwards."""

from __future__ import annotations

import hashlib
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import paramiko
import pytest
from paramiko.common import (
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_CONNECT_FAILED,
    OPEN_SUCCEEDED,
)

from fleet.inventory.check import check
from fleet.inventory.folder import Folder
from fleet.inventory.problems import problems, warnings
from fleet.inventory.selection import one_host
from fleet.keys import ssh
from fleet.rollout.keys import adopt
from fleet.ssh import connect
from fleet.ssh.connect import Login, login_of, open_login
from fleet.ssh.errors import HostError
from fleet.ssh.jump_hosts import JumpHost
from fleet.ssh.remote import packed, run_program
from testkit.complete_inventory import TEXT, complete
from testkit.ssh_server import Host
from tests.fleet.inventory.inventories import PLAIN, read
from tests.fleet.keys.rig import store
from tests.fleet.ssh.test_connect import Doorman, Server, make_key, refused


class Porter(Doorman):
    """Lets one key in, and from there on to whoever listens."""

    def __init__(self, public: str) -> None:
        super().__init__(public)
        self.led: list[tuple[str, int]] = []
        self.logins = 0
        self.forwards = True
        self._opened: queue.SimpleQueue[socket.socket] = queue.SimpleQueue()

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.logins += 1
        return super().check_auth_publickey(username, key)

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        if not self.forwards:
            return OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        try:
            self._opened.put(socket.create_connection(destination, 10))
        except OSError:
            return OPEN_FAILED_CONNECT_FAILED
        self.led.append(destination)
        return OPEN_SUCCEEDED

    def serve(self, transport: paramiko.Transport) -> None:
        """Pass on what comes over channels, until the connection ends."""
        while transport.is_active():
            if (channel := transport.accept(0.1)) is None:
                continue
            host = self._opened.get()
            for way in (
                (channel.recv, host.sendall, host),
                (host.recv, channel.sendall, channel),
            ):
                threading.Thread(target=_pass, args=way, daemon=True).start()


def _pass(
    read: Callable[[int], bytes],
    write: Callable[[bytes], None],
    target: socket.socket | paramiko.Channel,
) -> None:
    with suppress(OSError):
        while piece := read(65_536):
            write(piece)
    with suppress(OSError, EOFError):  # paramiko's, where the transport is gone
        target.close()


class Gate(Server):
    """sshd of a jump host."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.porters: list[threading.Thread] = []
        super().__init__(folder)
        self.doorman: Porter = Porter(self.key.get_base64())

    def begun(self, transport: paramiko.Transport) -> None:
        thread = threading.Thread(target=self.doorman.serve, args=(transport,))
        self.porters.append(thread)
        thread.start()

    @property
    def open(self) -> int:
        return sum(transport.is_active() for transport in self._transports)

    def close(self) -> None:
        super().close()
        for thread in self.porters:
            thread.join()


class Site:
    """A jump host, a host, and what pins both."""

    def __init__(self, folder: Path) -> None:
        self.gate = Gate(folder / "gate")
        self.host = Server(folder)
        self.gate.doorman.public = self.host.key.get_base64()
        self.known_hosts = self.host.known_hosts
        pin = self.gate.known_hosts.read_text()
        self.known_hosts.write_text(self.known_hosts.read_text() + pin)
        way = self.host.login._replace(port=self.gate.port)
        self.login = self.host.login._replace(jump=way)

    def close(self) -> None:
        self.host.close()
        self.gate.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def await_closed(site: Site) -> None:
    for transport in site.gate._transports:
        transport.join(60)
    assert site.gate.open == 0


def test_a_host_is_reached_through_its_jump_host_and_both_are_left(site: Site) -> None:
    with open_login(site.login, site.known_hosts) as connection:
        assert connection.is_connected
        assert site.gate.doorman.led == [("127.0.0.1", site.host.port)]
        assert site.gate.open == 1
    await_closed(site)


def test_a_program_and_what_it_reads_come_through_whole(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    operator = tmp_path / "gate/operator"
    key = ssh.load(operator.read_bytes(), "operator")
    own = ssh.make("host")
    host = Host("127.0.0.1", own.private, key.public, tmp_path / "host")
    known_hosts = tmp_path / "known_hosts"
    pin = f"[127.0.0.1]:{host.port} {own.public}\n"
    known_hosts.write_text(pin + gate.known_hosts.read_text())
    way = Login("127.0.0.1", gate.port, "fleet", operator, 20.0)
    login = Login("127.0.0.1", host.port, "fleet", operator, 20.0, way)
    program = (
        "import hashlib, json, sys\n"
        "data = sys.stdin.buffer.read()\n"
        "print(json.dumps({'ok': True, 'sha256': hashlib.sha256(data).hexdigest()}))"
    )
    data = [bytes([number]) * 32_000 for number in range(150)]
    try:
        with open_login(login, known_hosts) as connection:
            answer = run_program(
                connection, {}, program=packed({"__main__.py": program}), data=data
            )
    finally:
        host.close()
        gate.close()
    assert answer["sha256"] == hashlib.sha256(b"".join(data)).hexdigest()


def test_hosts_that_are_worked_on_at_a_time_share_one_login_at_the_jump_host(site: Site) -> None:
    with open_login(site.login, site.known_hosts):
        with open_login(site.login, site.known_hosts) as second:
            assert second.is_connected
        with open_login(site.login, site.known_hosts) as third:
            assert third.is_connected
        assert len(site.gate.doorman.led) == 3
        assert len(site.gate._transports) == 1
    await_closed(site)
    with open_login(site.login, site.known_hosts):
        assert len(site.gate._transports) == 2


def test_a_jump_host_that_was_lost_is_opened_anew(site: Site) -> None:
    with suppress(HostError), open_login(site.login, site.known_hosts) as connection:
        site.gate._transports[0].close()
        connection.transport.join(60)
        with open_login(site.login, site.known_hosts) as second:
            assert second.is_connected
    assert len(site.gate._transports) == 2


def test_before_any_key_is_made_all_hosts_get_the_same_line_and_its_remedy(site: Site) -> None:
    site.known_hosts.unlink()
    error = refused(site)
    assert error.kind == "key_unknown"
    assert str(error).endswith(f"there is no file {site.known_hosts}")
    assert error.remedy == "`fleet keys init` makes it, and every key that is missing"


def test_the_host_key_of_a_jump_host_is_pinned_too(site: Site, tmp_path: Path) -> None:
    other = make_key(tmp_path / "other")
    name = f"[127.0.0.1]:{site.gate.port}"
    whole = site.known_hosts.read_text()
    lines = [line for line in whole.splitlines() if name not in line]
    site.known_hosts.write_text("\n".join([*lines, ""]))
    error = refused(site)
    assert (error.kind, "no key of " + name in str(error)) == ("key_unknown", True)
    lines.append(f"{name} {other.get_name()} {other.get_base64()}")
    site.known_hosts.write_text("\n".join([*lines, ""]))
    error = refused(site)
    assert error.kind == "key_changed"
    assert str(error).startswith(f"on the way to [127.0.0.1]:{site.host.port}: {name} shows")
    assert site.gate.doorman.led == []


def test_what_is_wrong_on_the_way_says_where(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    pins = site.known_hosts.read_text()
    site.known_hosts.write_text(pins + pins.replace(str(site.host.port), str(free)))
    error = refused(site, site.login._replace(port=free))
    assert (error.kind, "finds no way to" in str(error)) == ("dead", True)
    site.gate.doorman.forwards = False
    assert "AllowTcpForwarding" in str(refused(site))
    site.gate.doorman.forwards = True
    site.gate.doorman.public = "nobody"
    error = refused(site)
    assert (error.kind, f":{site.gate.port} does not take the key" in str(error)) == ("auth", True)


def test_those_who_waited_for_a_jump_host_in_vain_do_not_wait_again() -> None:
    jump, attempts = JumpHost(), []
    begun, go = threading.Event(), threading.Event()

    def dead() -> connect.Connection:
        attempts.append(1)
        begun.set()
        assert go.wait(60)
        raise HostError("dead", "no answer")

    failed: queue.SimpleQueue[str] = queue.SimpleQueue()

    def take() -> None:
        try:
            jump.take(dead)
        except HostError as error:
            failed.put(str(error))

    threads = [threading.Thread(target=take) for _ in range(8)]
    threads[0].start()
    assert begun.wait(60)
    for thread in threads[1:]:
        thread.start()
    while jump.waiting < 8:
        assert threads[1].is_alive()
    go.set()
    for thread in threads:
        thread.join(60)
    assert [failed.get(timeout=60) for _ in threads] == ["no answer"] * 8
    assert len(attempts) == 1
    take()  # later it is tried again
    assert len(attempts) == 2


def test_the_inventory_says_who_is_behind_which(tmp_path: Path) -> None:
    fleet = complete()

    def jump(name: str) -> tuple[str, int, str] | None:
        way = login_of(Folder(tmp_path), fleet, one_host(fleet, name)).jump
        return (way.address, way.port, way.user) if way else None

    assert jump("iad1/n1") == ("gate.example.com", 2022, "jump")
    assert jump("iad1/n2") == ("10.9.0.1", 2222, "pi")
    assert jump("iad1/master") is None
    assert jump("iad2/n1") is None


def test_a_jump_host_that_there_is_not_is_told() -> None:
    [problem] = problems(read(TEXT.replace('jump = "barn"', 'jump = "bern"')))
    assert problem == "iad1/n2: there is no jump host bern; did you mean barn?"


def test_a_jump_host_that_nobody_is_behind_is_a_warning() -> None:
    gate = '[[jump]]\nname = "gate"\naddress = "10.9.0.1"\n'
    [warning] = warnings(read(PLAIN + gate))
    assert warning.startswith("no host is behind jump host gate")
    [alike] = problems(read(PLAIN + gate + gate))
    assert alike == "two jump hosts are called gate"


def test_keys_of_jump_hosts_and_of_hosts_behind_them_are_adopted(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "fleet"
    folder = Folder(root)
    text = PLAIN.replace(
        'address = "10.1.1.1"', f'address = "127.0.0.1"\nport = {site.host.port}\njump = "gate"'
    )
    text += f'[[jump]]\nname = "gate"\naddress = "127.0.0.1"\nport = {site.gate.port}\n'
    key = site.host.login.key
    root.mkdir()
    folder.inventory.write_text(f'{text}[ssh]\nkey = "{key}"\nconnect_s = 20.0\n')
    assert check(folder).problems == ()
    keys = store(root, read(folder.inventory.read_text()))
    prints = {
        name: ssh.fingerprint(f"{server.host_key.get_name()} {server.host_key.get_base64()}")
        for name, server in (("gate", site.gate), ("iad1/n1", site.host))
    }
    with pytest.raises(adopt.KeyStoreError, match="no key of"):
        adopt.run(folder, "iad1/n1", prints["iad1/n1"], None)
    for name in ("gate", "iad1/n1"):
        assert adopt.run(folder, name, prints[name], None) == 0
        assert capsys.readouterr().out == f"{name} is pinned to {prints[name]}\n"
    assert len(site.gate.doorman.led) == 1
    with open_login(site.login, folder.known_hosts) as connection:
        assert connection.is_connected
    assert keys.ensure(read(folder.inventory.read_text())) == []
    assert str(site.gate.port) in folder.known_hosts.read_text()
