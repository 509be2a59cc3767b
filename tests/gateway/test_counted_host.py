"""Limits for each host hold for whoever has a network of addresses, too."""

import pytest

from agent.gateway.http.counted_host import counted_host


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:ffff:ffff:ffff:ffff", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::7", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("", ""),
        ("unknown", "unknown"),
        ("a\0b", "a\0b"),
    ],
)
def test_an_ipv6_network_of_64_bits_is_one_host(address: str, counted: str) -> None:
    assert counted_host(address) == counted
