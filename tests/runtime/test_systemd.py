"""What systemd hears of a master, over a socket that stands in for its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from agent.runtime import systemd


@pytest.fixture
def heard(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        server.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", server.getsockname())
        yield lambda: server.recv(4_096).decode()


def test_what_is_told_is_heard(heard):
    systemd.tell("READY=1")
    assert heard() == "READY=1"


def test_without_systemd_nobody_is_told(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert systemd.notifier() is None
    systemd.tell("READY=1")


def test_a_master_is_ready_when_its_sockets_are_bound(heard, tmp_path):
    path = tmp_path / "master.toml"
    path.write_text(
        '[iad]\nname = "iad1"\n[sockets]\n'
        f'public = "ipc://{tmp_path}/public"\noperator = "ipc://{tmp_path}/operator"\n'
    )
    program = Path(sys.executable).with_name("sanderling-master")
    with subprocess.Popen(
        [program, "--config", path], stderr=subprocess.DEVNULL, env=os.environ
    ) as master:
        try:
            assert heard() == "READY=1"
            assert (tmp_path / "public").is_socket()
            master.send_signal(signal.SIGTERM)
            assert heard() == "STOPPING=1"
            assert master.wait(timeout=30) == 0
        finally:
            master.kill()
