"""Entries as the journal reads them, and when there is a journal at all."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.edge.journal import Journal, journal_of_stderr


@pytest.fixture
def receiver(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "socket"))
        server.settimeout(5)
        yield server


def fields_of(datagram):
    """The naive reader of entries without binary fields."""
    assert datagram.endswith(b"\n")
    lines = datagram.decode().removesuffix("\n").split("\n")
    return dict(line.partition("=")[::2] for line in lines)


def test_an_entry_is_a_datagram_of_fields(receiver):
    journal = Journal("sanderling-edge", receiver.getsockname())
    assert journal.send("dht22: 21.5 °C=ok", {"PRIORITY": "4", "SANDERLING_SENSOR": ""})
    assert fields_of(receiver.recv(65_536)) == {
        "MESSAGE": "dht22: 21.5 °C=ok",
        "SYSLOG_IDENTIFIER": "sanderling-edge",
        "PRIORITY": "4",
    }
    journal.close()


@given(text=st.text(min_size=1))
def test_no_text_makes_fields_of_its_own(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("")
        path = "\0" + server.getsockname()[1:].decode()
        journal = Journal.__new__(Journal)
        journal._program, journal._path = "p", path
        journal._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        assert journal.send(text, {"SANDERLING_NODE": "n1"})
        found = fields_of(server.recv(65_536))
        journal.close()
    assert set(found) == {"MESSAGE", "SYSLOG_IDENTIFIER", "SANDERLING_NODE"}


def test_a_journal_that_is_gone_or_full_takes_nothing_and_nobody_waits(receiver):
    journal = Journal("sanderling-edge", receiver.getsockname())
    taken = 0
    while journal.send("x" * 1_000, {}):
        taken += 1
        assert taken < 100_000
    receiver.recv(65_536)
    assert journal.send("there is room again", {})
    Path(receiver.getsockname()).unlink()
    assert not journal.send("nobody", {})
    journal.close()


def test_there_is_a_journal_where_standard_error_goes_to_it(receiver, tmp_path):
    path = receiver.getsockname()
    with (tmp_path / "stderr").open("w") as file:
        status = os.fstat(file.fileno())
        stream = f"{status.st_dev}:{status.st_ino}"
        journal = journal_of_stderr("p", stream, path, file.fileno())
        assert journal is not None
        journal.close()
        # A shell of the unit has the variable, too, with its output elsewhere.
        for other in (None, "", "0:0", f"{status.st_dev}:{status.st_ino + 1}"):
            assert journal_of_stderr("p", other, path, file.fileno()) is None
        assert journal_of_stderr("p", stream, str(tmp_path / "none"), file.fileno()) is None
