"""Keys that a real ssh-agent holds, at an SSH server in this process."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.keys import ssh
from fleet.ssh.connect import Login, open_login
from fleet.ssh.errors import HostError
from tests.fleet.inventory.inventories import PLAIN, read
from tests.fleet.keys.rig import store
from tests.fleet.ssh.test_connect import Server

pytestmark = pytest.mark.skipif(
    not (shutil.which("ssh-agent") and shutil.which("ssh-add")), reason="no openssh-client here"
)
SECRET = "correct horse"


class Agent:
    """ssh-agent, with no key in the beginning."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "agent"
        # In the foreground it ends with its process, and says its address when it listens.
        self._process = subprocess.Popen(
            ["ssh-agent", "-D", "-a", self.socket],
            stdout=subprocess.PIPE,
            text=True,
            env={"SSH_ASKPASS": "/bin/false", "DISPLAY": "none", "PATH": "/usr/bin:/bin"},
        )
        assert self._process.stdout is not None
        assert "SSH_AUTH_SOCK" in self._process.stdout.readline()
        self._ask = folder / "ask"
        self._ask.write_text(f"#!/bin/sh\necho {SECRET}\n")
        self._ask.chmod(0o700)

    def add(self, *arguments: str | Path) -> None:
        """Run ssh-add."""
        env = {"SSH_AUTH_SOCK": str(self.socket), "SSH_ASKPASS": str(self._ask)}
        env |= {"SSH_ASKPASS_REQUIRE": "force", "DISPLAY": "none", "PATH": "/usr/bin:/bin"}
        subprocess.run(["ssh-add", "-q", *arguments], check=True, env=env)

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server(tmp_path)
    yield made
    made.close()


@pytest.fixture
def agent(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Agent]:
    made = Agent(tmp_path_factory.mktemp("a"))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(made.socket))
    yield made
    made.close()


def lock(key: Path) -> None:
    """Give a key a passphrase, and its public half a file."""
    key.chmod(0o600)
    public = subprocess.check_output(["ssh-keygen", "-y", "-f", key])
    key.with_name(f"{key.name}.pub").write_bytes(public)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", SECRET, "-f", key], check=True)


def refused(server: Server, login: Login | None = None) -> str:
    with (
        pytest.raises(HostError) as caught,
        open_login(login or server.login, server.known_hosts),
    ):
        pass
    return str(caught.value)


def test_a_key_with_a_passphrase_is_used_through_the_agent(server: Server, agent: Agent) -> None:
    key = server.login.key
    lock(key)
    assert refused(server) == f"{key} has a passphrase, and no SSH agent holds it: ssh-add {key}"
    agent.add(key)
    with open_login(server.login, server.known_hosts) as connection:
        assert connection.is_connected
    agent.add("-D")
    assert "ssh-add" in refused(server)


def test_only_the_public_half_needs_to_be_here(server: Server, agent: Agent) -> None:
    lock(server.login.key)
    agent.add(server.login.key)
    server.login.key.unlink()
    with open_login(server.login, server.known_hosts) as connection:
        assert connection.is_connected


def test_no_other_key_of_the_agent_is_tried(server: Server, agent: Agent, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-N", "", "-f", tmp_path / "other"], check=True)
    lock(server.login.key)
    agent.add(server.login.key)
    login = server.login._replace(key=tmp_path / "other")
    assert "does not take the key" in refused(server, login)


def test_without_an_agent_or_the_public_half_it_says_what_to_do(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    lock(server.login.key)
    assert "no SSH agent holds it: ssh-add" in refused(server)
    server.login.key.with_name("operator.pub").unlink()
    assert "ssh-keygen -y -f" in refused(server)


def test_an_agent_that_does_not_sign_is_told(server: Server, agent: Agent) -> None:
    lock(server.login.key)
    agent.add("-c", server.login.key)  # asks for each use; here it gets no yes
    assert refused(server) == f"the SSH agent did not sign with {server.login.key}"


def test_a_key_that_is_a_pipe_is_not_waited_for(server: Server, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    login = server.login._replace(key=tmp_path / "pipe")
    assert refused(server, login) == f"{login.key} cannot be used: not a regular file"


def test_the_fleets_own_key_may_have_a_passphrase(tmp_path: Path) -> None:
    keys = store(tmp_path, read(PLAIN))
    public = keys.operator_public
    lock(keys.operator_key)
    assert keys.operator_public == public
    assert keys.ensure(read(PLAIN)) == []
    with pytest.raises(ssh.LockedKeyError, match="has a passphrase"):
        ssh.load(keys.operator_key.read_bytes(), "it")
