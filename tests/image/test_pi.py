"""From a blank card to an answered query, on emulated Pis: `make test-image`, minutes.

Two nodes are flashed and booted (in CI one), and nobody touches them. With ARGS=slow QEMU's Pi 3
boots, too, from the card in its slot. The firmware of a Pi is not run, and there is no sensor at
its pins.
"""

from __future__ import annotations

import json

import pytest

from fleet.image.fat import Fat
from tests.examples import WHOLE
from tests.image.pi import CARD_BYTES, Pi, missing, wanted

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing()),
    # The first one waits for the image, which an emulated processor unpacks beside all other work.
    pytest.mark.timeout(4500),
]
NODES = {"n2": "b1/f7/r717", **({"n1": "b1/f4/r413"} if WHOLE else {})}
HISTORY = """sudo python3 -c '
import sqlite3
history = sqlite3.connect("file:/var/lib/sanderling/history.sqlite?mode=ro", uri=True)
print(history.execute("SELECT value FROM meta WHERE key = ?", ("history",)).fetchone())
'"""


@pytest.fixture(scope="module")
def master(campus):
    process = campus.start_master()
    yield process
    process.terminate()
    process.wait(60)


@pytest.fixture(scope="module")
def pis(campus, master):
    booted = {}
    try:
        for node in NODES:
            booted[node] = Pi(campus, node, campus.card(node))
        for pi in booted.values():
            pi.await_up()
        yield booted
    finally:
        for pi in booted.values():
            pi.close()


def readings(campus, area):
    """The answer of a query for an area's last readings."""
    slo = ["--slo", "p99=20s", "--last", "1m", "--json"]
    return json.loads(
        campus.fleet("query", "--iad", "iad4", "--area", area, *slo, check=False) or "{}"
    )


def await_answer(campus, pi):
    """A complete answer with readings of the Pi's area."""
    area = NODES[pi.node]
    found = {}

    def answered():
        found.update(readings(campus, area))
        return found.get("status") == "complete" and found["results"]

    pi.await_that(answered, f"a complete answer about {area}")
    return found


@pytest.mark.parametrize("node", NODES)
def test_a_node_joins_its_master_and_its_readings_are_asked_for(campus, pis, node):
    answer = await_answer(campus, pis[node])
    assert [result["area"] for result in answer["results"]] == [NODES[node]]


@pytest.mark.parametrize("node", NODES)
def test_it_is_who_it_was_flashed_to_be(campus, pis, node):
    pi = pis[node]
    assert pi.run("hostname") == f"iad4-{node}\n"
    # That ssh connected says it, too: the pinned key alone is accepted.
    public = pi.run("cat /etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
    assert public == campus.store.host_key(f"iad4/{node}").public.split()[:2]
    assert pi.run("ls /etc/ssh | grep ssh_host | wc -l") == "2\n"
    assert f'name = "{node}"' in pi.run("cat /etc/sanderling/edge.toml")
    assert pi.run("sudo stat -c '%U %a' /etc/sanderling/keys/node.secret") == "sanderling 600\n"


@pytest.mark.parametrize("node", NODES)
def test_nothing_failed_and_the_boot_is_finished(pis, node):
    pi = pis[node]
    assert pi.run("systemctl --failed --no-legend --plain") == ""
    assert "Startup finished in" in pi.run("systemd-analyze")


@pytest.mark.parametrize("node", NODES)
def test_the_root_file_system_has_grown_to_the_end_of_the_card(pis, node):
    size = int(pis[node].run("findmnt --noheadings --bytes --output SIZE /"))
    assert size > 0.9 * CARD_BYTES - (256 << 20)


@pytest.mark.parametrize("node", NODES)
def test_no_secret_is_left_on_the_boot_partition(pis, node):
    assert pis[node].run("sudo ls /boot/firmware/sanderling") == "image.json\n"
    # Nor where the files were.
    secret = pis[node].run("sudo cat /etc/sanderling/keys/node.secret").split()[-1]
    sectors = pis[node].card.read_bytes()[: 256 << 20]
    assert secret.encode() not in sectors
    assert b"OPENSSH PRIVATE KEY" not in sectors


def test_another_boot_goes_on_with_the_same_history(campus, pis):
    pi = pis["n2"]
    history = pi.run(HISTORY)
    pi.reboot()
    assert pi.run(HISTORY) == history
    assert pi.run("systemctl --failed --no-legend --plain") == ""
    await_answer(campus, pi)


SLOW = pytest.mark.skipif(wanted() != "slow", reason="only with make test-image ARGS=slow")


@SLOW
def test_a_read_only_root_keeps_what_changes_on_the_third_partition(campus, master):
    campus.build("--read-only", "--output", campus.folder.images / "read-only.img")
    pi = Pi(campus, "n2", campus.card("n2", "read-only.img"))
    try:
        pi.await_up()
        await_answer(campus, pi)
        assert pi.run("findmnt --noheadings --output FSTYPE /") == "overlay\n"
        options = pi.run("findmnt --noheadings --output OPTIONS /run/sanderling-root/lower")
        assert options.startswith("ro,")
        assert pi.run("systemctl --failed --no-legend --plain") == ""
        history = pi.run(HISTORY)
        pi.reboot()
        assert pi.run(HISTORY) == history
        await_answer(campus, pi)
    finally:
        pi.close()


@SLOW
def test_a_card_of_debian_13_becomes_its_node(campus, master):
    campus.build("--suite", "trixie")
    pi = Pi(campus, "n2", campus.card("n2", "pi3-trixie.img"))
    try:
        pi.await_up()
        await_answer(campus, pi)
        assert "VERSION_CODENAME=trixie\n" in pi.run("cat /etc/os-release")
        assert pi.run("systemctl --failed --no-legend --plain") == ""
    finally:
        pi.close()


@SLOW
def test_a_pi_3_boots_from_the_card_in_its_slot(campus, master):
    card = campus.card("n1")
    assert Fat(card).names("sanderling")
    pi = Pi(campus, "n1", card, "raspi3b")
    try:
        pi.await_up()
        assert "Raspberry Pi 3" in pi.run("cat /proc/device-tree/model")
        await_answer(campus, pi)
        assert pi.run("systemctl --failed --no-legend --plain") == ""
        assert pi.run("sudo ls /boot/firmware/sanderling") == "image.json\n"
    finally:
        pi.close()
