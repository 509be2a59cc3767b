"""Connections to an SSH server in this process: only the pinned key, only the fleet's key."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from fleet.hosts.connect import Login, open_login, pinned_keys
from fleet.hosts.errors import HostError


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

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = key.get_base64() == self.public and username == "fleet"
        return paramiko.AUTH_SUCCESSFUL if good else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"


class Server:
    """sshd, but for what comes after the login."""

    def __init__(self, folder: Path) -> None:
        self.key = make_key(folder / "operator")
        self.host_key = make_key(folder / "host")
        self._doorman = Doorman(self.key.get_base64())
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
                    transport.start_server(server=self._doorman, event=threading.Event())

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for transport in self._transports:
            transport.close()
            transport.join(20)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path)
    yield found
    found.close()


def kind_of(server: Server, login: Login | None = None) -> str:
    with (
        pytest.raises(HostError) as caught,
        open_login(login or server.login, server.known_hosts),
    ):
        pass
    assert "\n" not in str(caught.value)
    return caught.value.kind


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
