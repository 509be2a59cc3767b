"""Ports for processes that are about to start."""

import errno
import socket
import subprocess
import sys

import pytest

from fleet.testbed.ports import Ports, free_address, free_ports


def test_no_port_comes_twice():
    given = [*free_ports(3), *(int(free_address().rpartition(":")[2]) for _ in range(20))]
    assert len(set(given)) == 23


def test_no_other_process_is_given_it_and_whoever_got_it_can_listen():
    [port] = free_ports(1)
    script = (
        "import sys; from fleet.testbed.ports import Ports; "
        "Ports(port := int(sys.argv[1]), port + 1, 0).take(1)"
    )
    other = subprocess.run(
        [sys.executable, "-c", script, str(port)], capture_output=True, text=True, check=False
    )
    assert "too few free TCP ports" in other.stderr
    with socket.socket() as client:
        assert client.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED
    with (
        socket.create_server(("127.0.0.1", port)),
        socket.create_connection(("127.0.0.1", port)),
    ):
        pass


def test_the_search_goes_round_past_what_is_taken():
    first = free_ports(1)[0] + 1
    last = first + 2
    with socket.create_server(("127.0.0.1", last)):
        ports = Ports(first, last + 1, 2)
        assert {*ports.take(1), *Ports(first, last + 1, 2).take(1)} == {first, first + 1}
        with pytest.raises(OSError, match="too few"):
            ports.take(3)
