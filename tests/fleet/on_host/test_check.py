"""What the agent of a new release refuses touches nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import zmq

from fleet.on_host.change import do
from fleet.on_host.host import Failure
from tests.fleet.on_host.rig import (
    Fake,
    confirm,
    switch,
)

EDGE = """\
[node]
name = "n1"
areas = ["b1"]
[master]
address = "tcp://127.0.0.1:5701"
keys = "keys/master.public"
[trust]
key = "keys/node.secret"
[history]
path = "../../var/lib/sanderling/history.sqlite"
[[sensor]]
interval_s = 2.0
"""


CHECKED = {"program": "sanderling-edge", "config": "edge.toml"}


def with_agent(host: Fake, release: str, script: str) -> None:
    """A release whose agent is `script`, on a host that has been deployed to before."""
    folder = host.folder / f"opt/sanderling/releases/{release}/bin"
    folder.mkdir(parents=True)
    (folder / "sanderling-edge").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "sanderling-edge").chmod(0o755)
    (host.folder / "var/lib/sanderling").mkdir(parents=True, exist_ok=True)


def deployed(host: Fake) -> None:
    """What the hosts of the next tests have: keys, which a switch leaves as they are."""
    switch(host, "1-a", key_files())
    confirm(host)
    assert host.calls


def key_files() -> dict[str, str]:
    pair = zmq.curve_keypair()
    files = {"node.secret": pair[1].decode(), "master.public": pair[0].decode()}
    return {f"/etc/sanderling/keys/{name}": text for name, text in files.items()}


THIS_AGENT = f'exec {Path(sys.executable).with_name("sanderling-edge")} "$@"'


def test_a_switch_that_the_new_agent_refuses_touches_nothing(host: Fake) -> None:
    deployed(host)
    with_agent(host, "1-b", THIS_AGENT)
    before = host.files
    with pytest.raises(Failure) as caught:
        switch(
            host,
            "1-b",
            {"/etc/sanderling/edge.toml": f'{EDGE}driver = "dht"\n'},
            "r2",
            check=CHECKED,
        )
    assert str(caught.value) == (
        "nothing was touched, as 1-b refuses: /etc/sanderling/edge.toml: dht: give the pin of the "
        "sensor's data line, such as pin = 'D4'"
    )
    assert caught.value.more == {"refused": True}
    assert host.calls == []
    assert host.files == before
    assert not (host.folder / "var/lib/sanderling-deploy/pending.json").exists()


def test_the_new_agent_checks_what_will_be_there_and_touches_no_sensor(host: Fake) -> None:
    deployed(host)
    with_agent(host, "1-b", f"{THIS_AGENT}")
    # A DHT that is not there: the check would end with an error if it looked.
    files = {"/etc/sanderling/edge.toml": f'{EDGE}driver = "dht"\noptions = {{ pin = "D4" }}\n'}
    switch(host, "1-b", files, "r2", check=CHECKED)
    assert "systemctl restart sanderling-edge.service" in host.calls
    assert not (host.folder / "etc/.sanderling-tried").exists()
    confirm(host)
    with_agent(host, "1-c", f"{THIS_AGENT}")
    with pytest.raises(Failure, match=r"/etc/sanderling/keys/node.secret: No such file"):
        switch(host, "1-c", files, "r3", gone=("/etc/sanderling/keys/node.secret",), check=CHECKED)


def test_a_first_switch_is_checked_too_and_nothing_is_left_of_it(host: Fake) -> None:
    """There is neither the agents' user nor their folder for state, and none is made."""
    with_agent(host, "1-a", THIS_AGENT)
    (host.folder / "var/lib/sanderling").rmdir()
    files = {"/etc/sanderling/edge.toml": f'{EDGE}driver = "dht"\n', **key_files()}
    with pytest.raises(Failure, match=r"nothing was touched, as 1-a refuses.*give the pin"):
        switch(host, "1-a", files, check=CHECKED)
    assert host.files == {}
    assert host.calls == []
    assert not (host.folder / "var/lib/sanderling").exists()
    files["/etc/sanderling/edge.toml"] += 'options = { pin = "D4" }\n'
    switch(host, "1-a", files, check=CHECKED)
    assert "systemctl restart sanderling-edge.service" in host.calls
    assert not (host.folder / "var/lib/sanderling").exists()


def test_what_a_killed_check_left_goes_with_the_next_run(host: Fake) -> None:
    """Secrets are in it."""
    tried = host.folder / "etc/.sanderling-tried/keys"
    tried.mkdir(parents=True)
    (tried / "node.secret").write_text("key")
    do(host, {"do": "remove", "remove": []}, b"", None)
    assert not tried.parent.exists()


@pytest.mark.parametrize(
    "script",
    [
        'echo "error: option --leave-sensors not recognized; usage: …" >&2; exit 2',
        "exit 0",
    ],
)
def test_a_release_from_before_this_check_is_switched_to_all_the_same(
    host: Fake, script: str
) -> None:
    deployed(host)
    with_agent(host, "1-0", script)
    switch(host, "1-0", {"/etc/sanderling/edge.toml": "any"}, "r2", check=CHECKED)
    assert "systemctl restart sanderling-edge.service" in host.calls
