"""Connections to an SSH server in this process: only the pinned key, only the fleet's key."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fleet.ssh import connect
from fleet.ssh.connect import Login, error_of, open_login, pinned_keys
from fleet.ssh.errors import HostError


def make_key(path: Path) -> paramiko.PKey:
    pem = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()
    )
    path.write_bytes(pem)
    return paramiko.Ed25519Key.from_private_key_file(str(path))


class Doorman(paramiko.ServerInterface):
    """Lets one key in."""

    def __init__(self, public: str) -> None:
        self.public = public
        self.asked = threading.Semaphore(0)  # whether it is there

    def check_global_request(self, kind: str, msg: paramiko.Message) -> bool:
        self.asked.release()
        return False

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = key.get_base64() == self.public and username == "fleet"
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return True

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"


class Server:
    """sshd, but for what comes after the login."""

    def __init__(self, folder: Path) -> None:
        self.key = make_key(folder / "operator")
        self.host_key = make_key(folder / "host")
        self.doorman = Doorman(self.key.get_base64())
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.known_hosts = folder / "known_hosts"
        self.pin(self.host_key)
        self.login = Login("127.0.0.1", self.port, "fleet", folder / "operator", 20.0)
        self._transports: list[paramiko.Transport] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def pin(self, key: paramiko.PKey, name: str = "") -> None:
        name = name or f"[127.0.0.1]:{self.port}"
        self.known_hosts.write_text(f"# pins\n{name} {key.get_name()} {key.get_base64()}\n")

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                transport = paramiko.Transport(connection)
                self._transports.append(transport)
                transport.add_server_key(self.host_key)
                with suppress(paramiko.SSHException, EOFError):
                    transport.start_server(server=self.doorman, event=threading.Event())
                    self.begun(transport)

    def begun(self, transport: paramiko.Transport) -> None:
        """A connection was taken."""

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for transport in self._transports:
            transport.close()
            transport.join(20)


class Between:
    """Passes on what the operator and a server send, as QEMU's network does. Once it is `deaf` it
    takes what comes, keeps both connections open, and passes on nothing."""

    def __init__(self, server: Server) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        server.pin(server.host_key, f"[127.0.0.1]:{port}")
        self.login = server.login._replace(port=port)
        self.deaf = threading.Event()
        self._server = server
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._serve)]
        self._threads[0].start()

    def _serve(self) -> None:
        with suppress(OSError):
            operator, _ = self._listener.accept()
            host = socket.create_connection(("127.0.0.1", self._server.port))
            self._open = [operator, host]
            for way in ((operator, host), (host, operator)):
                self._threads.append(threading.Thread(target=self._pass, args=way))
                self._threads[-1].start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536):
                if not self.deaf.is_set():
                    target.sendall(piece)

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    found.close()


@pytest.fixture
def between(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    monkeypatch.setattr(connect, "ALIVE_S", 0.1)
    found = Between(server)
    yield found
    found.close()


class Reached(Protocol):
    """A server, or one behind others."""

    login: Login
    known_hosts: Path


def refused(site: Reached, login: Login | None = None) -> HostError:
    with (
        pytest.raises(HostError) as caught,
        open_login(login or site.login, site.known_hosts),
    ):
        pass
    assert "\n" not in str(caught.value)
    return caught.value


def kind_of(server: Server, login: Login | None = None) -> str:
    return refused(server, login).kind


def test_the_pinned_key_and_the_fleets_key_open_a_connection(server: Server) -> None:
    with open_login(server.login, server.known_hosts) as connection:
        assert connection.is_connected
        assert connection.transport.remote_cipher == "aes128-gcm@openssh.com"
        assert not connection.transport.use_compression(False)


def test_another_host_key_than_the_pinned_is_refused(server: Server, tmp_path: Path) -> None:
    server.pin(make_key(tmp_path / "other"))
    assert kind_of(server) == "key_changed"


def test_a_host_without_a_pin_is_refused(server: Server) -> None:
    server.pin(server.host_key, "127.0.0.1")  # that is port 22
    assert kind_of(server) == "key_unknown"
    server.known_hosts.unlink()
    assert kind_of(server) == "key_unknown"


def test_another_user_or_key_is_told(server: Server, tmp_path: Path) -> None:
    assert kind_of(server, server.login._replace(user="pi")) == "auth"
    make_key(tmp_path / "stranger")
    assert kind_of(server, server.login._replace(key=tmp_path / "stranger")) == "auth"
    assert kind_of(server, server.login._replace(key=tmp_path / "none")) == "auth"


def test_nobody_there_and_nobody_who_speaks_ssh(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    login = server.login._replace(port=free)
    text = server.known_hosts.read_text().replace(str(server.port), str(free))
    server.known_hosts.write_text(text)
    assert kind_of(server, login) == "refused"
    with socket.create_server(("127.0.0.1", free)):  # takes connections, says nothing
        assert kind_of(server, login._replace(connect_s=0.2)) == "dead"


@pytest.mark.parametrize(
    ("says", "told"),
    [
        (None, "takes the connection, then no word of SSH within 0.3 s"),
        (b"", "takes the connection and closes it without a word"),
        (b"HTTP/1.1 400 Bad Request\r\n" * 200, "is no SSH server"),
    ],
)
def test_who_takes_connections_and_is_no_sshd_is_told_in_words(
    server: Server, says: bytes | None, told: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server.pin(server.host_key, f"[127.0.0.1]:{port}")
        taken: list[socket.socket] = []

        def answer() -> None:
            taken.append(listener.accept()[0])
            if says is not None:
                with suppress(OSError):  # who has heard enough may have closed its end
                    taken[0].sendall(says)
                    taken[0].shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=answer)
        thread.start()
        login = server.login._replace(port=port, connect_s=0.3 if says is None else 20.0)
        with pytest.raises(HostError) as caught, open_login(login, server.known_hosts):
            pass
        thread.join()
        taken[0].close()
    assert caught.value.kind == "dead"
    assert told in str(caught.value)
    assert "banner" not in str(caught.value)


def test_a_host_that_is_late_with_its_key_is_told_as_one_that_says_nothing(server: Server) -> None:
    late = paramiko.SSHException("No existing session")
    told = error_of(late, server.login, connected=False)
    assert "then no word of SSH within" in str(told)


def test_an_error_of_the_system_is_told_without_its_number(server: Server) -> None:
    told = error_of(OSError(101, "Network is unreachable"), server.login, connected=False)
    assert str(told).endswith(": Network is unreachable")
    assert "Errno" not in str(told)


def test_a_line_that_is_no_key_is_told(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text("a ssh-ed25519 nonsense\n")
    assert pinned_keys(tmp_path / "known_hosts", "b") == []
    with pytest.raises(HostError, match="no key"):
        pinned_keys(tmp_path / "known_hosts", "a")


@pytest.mark.parametrize("first", [True, False])
def test_a_host_with_two_agents_shows_one_of_its_two_keys(
    server: Server, tmp_path: Path, first: bool
) -> None:
    name = f"[127.0.0.1]:{server.port}"
    keys = [server.host_key, make_key(tmp_path / "other")]
    lines = [f"{name} {key.get_name()} {key.get_base64()}\n" for key in keys]
    server.known_hosts.write_text("".join(lines if first else reversed(lines)))
    with open_login(server.login, server.known_hosts) as connection:
        assert connection.is_connected
    third = make_key(tmp_path / "third")
    server.known_hosts.write_text(lines[1] + f"{name} {third.get_name()} {third.get_base64()}\n")
    assert kind_of(server) == "key_changed"


def begin(channel: paramiko.Channel) -> None:
    """What a host may be in the midst of."""
    channel.exec_command("true")


@pytest.mark.parametrize(
    ("before", "wait"),
    [
        (lambda channel: None, begin),
        (begin, lambda channel: channel.recv(1)),
        (begin, lambda channel: channel.recv_exit_status()),
    ],
    ids=["begin", "read", "end"],
)
def test_a_host_that_vanishes_behind_an_open_connection_is_lost(
    server: Server,
    between: Between,
    before: Callable[[paramiko.Channel], None],
    wait: Callable[[paramiko.Channel], object],
) -> None:
    found: list[object] = []

    def work() -> None:
        try:
            with open_login(between.login, server.known_hosts) as connection:
                channel = connection.transport.open_session()
                before(channel)
                between.deaf.set()
                found.append(wait(channel))
        except HostError as error:
            found.append((error.kind, "no sign of life" in str(error)))

    thread = threading.Thread(target=work, daemon=True)  # it used to wait forever
    thread.start()
    thread.join(60)
    # An end without a status, or a read that finds no more, is a loss for those who read.
    assert found in ([("lost", True)], [b""], [-1])


def test_whatever_a_host_says_is_a_sign_of_life(
    server: Server, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers that it does not know what it is asked."""
    monkeypatch.setattr(connect, "UNANSWERED", 1_000)  # however slow this machine is
    with open_login(between.login, server.known_hosts) as connection:
        packets = connection.transport.packetizer
        for number in range(1, 100):
            assert server.doorman.asked.acquire(timeout=60)
            if packets.unanswered < number - 1:
                break
        else:
            pytest.fail("its answers were not counted")
        assert connection.is_connected
