"""A keyed fleet on two hosts: network namespaces with addresses that are not loopback."""

import os
import secrets
import shutil
import subprocess

import pytest

from agent.client import Client, NoReplyError
from tests.trust.rig import ROOMS, ask

HERE, THERE = "10.213.77.1", "10.213.77.2"


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def other_host():
    """A namespace that is linked with this one; its name."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and ip(8)")
    tag = secrets.token_hex(3)
    name, near, far = f"snd-{tag}", f"sn{tag}", f"sf{tag}"
    steps = (
        ("netns", "add", name),
        ("link", "add", near, "type", "veth", "peer", "name", far, "netns", name),
        ("addr", "add", f"{HERE}/30", "dev", near),
        ("link", "set", near, "up"),
        ("-n", name, "addr", "add", f"{THERE}/30", "dev", far),
        ("-n", name, "link", "set", far, "up"),
        ("-n", name, "link", "set", "lo", "up"),
    )
    try:
        for step in steps:
            done = ip(*step)
            if done.returncode != 0:
                pytest.skip(f"ip {' '.join(step)}: {done.stderr.strip()}")
        yield name
    finally:
        ip("netns", "del", name)
        ip("link", "del", near)


def test_two_hosts_with_keys(other_host, fleet):
    made = fleet(
        keyed=True,
        hosts={"iad1": HERE, "iad2": THERE},
        enter={"iad2": ["ip", "netns", "exec", other_host]},
    )
    made.start()
    for iad in ("iad1", "iad2"):
        with made.client(iad) as client:
            answer = ask(client)
            assert answer.status == "complete"
            assert [r.area for r in answer.results] == sorted(ROOMS.values())
    with Client(made.sockets["iad2"]["public"]) as plain, pytest.raises(NoReplyError):
        plain.query(["b1"], last_s=60, timeout_ms=100)
