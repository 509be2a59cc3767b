"""A master that nobody runs is noticed before keys are spoken of."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from fleet.inspect.look import ask_iads
from fleet.inventory.folder import Folder
from fleet.inventory.model import Iad, Inventory, Master
from fleet.keys.store import Store
from fleet.rollout.health import Gate
from fleet.ssh import masters


def test_a_closed_port_is_told_at_once_to_whoever_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def patient(*_: object) -> None:
        raise AssertionError("the keyed connection waits for seconds")

    monkeypatch.setattr(masters, "Operator", patient)
    with socket.socket() as unheard:  # bound, and nobody listens: no other process gets the port
        unheard.bind(("127.0.0.1", 0))
        iad = Iad("i", Master("127.0.0.1", operator_port=unheard.getsockname()[1], local=True))
        store = Store(Folder(tmp_path))
        store.ensure(Inventory("test", (iad,)))
        gate = Gate(iad, store)
        assert not gate.answers
        assert gate.trouble.startswith("nothing listens at tcp://127.0.0.1:")
        (seen,) = ask_iads([iad], Folder(tmp_path), 1_000.0)
        assert seen.error == gate.trouble


def test_a_network_that_is_down_is_not_taken_for_a_closed_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError(errno.ENETUNREACH, "Network is unreachable")

    monkeypatch.setattr("socket.create_connection", unreachable)
    iad = Iad("i", Master("192.0.2.1", operator_port=5702))
    (seen,) = ask_iads([iad], Folder(tmp_path), 1_000.0)
    assert seen.error == "tcp://192.0.2.1:5702 is not reached: Network is unreachable"
