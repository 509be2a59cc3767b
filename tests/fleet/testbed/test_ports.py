"""Ports for processes that are about to start."""

import socket

import pytest

from fleet.testbed.ports import Ports, free_address, free_ports


def test_no_port_comes_twice():
    given = [*free_ports(3), *(int(free_address().rpartition(":")[2]) for _ in range(20))]
    assert len(set(given)) == 23


def test_the_search_goes_round_past_what_is_taken():
    first = free_ports(1)[0]
    with socket.create_server(("127.0.0.1", first)):
        ports = Ports(first - 1, first + 2, 0)
        taken = ports.take(1)
        assert first not in taken + Ports(first - 1, first + 2, 1).take(1)
        with pytest.raises(OSError, match="too few"):
            ports.take(3)
