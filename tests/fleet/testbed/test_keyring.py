"""Keys of a testbed: who knows whose, and that a rotation leaves no two without a pair."""

import itertools
from pathlib import Path

import pytest

from agent.net.allow_list import AllowList
from agent.net.keys import read_publics, read_secrets
from fleet.testbed.keyring import OPERATOR, Keyring
from tests.fleet.conftest import SMALL

MASTER, OTHER = (iad.name for iad in SMALL.iads)
NODE = SMALL.iads[0].nodes[0].name


@pytest.fixture
def keyring(tmp_path):
    return Keyring(SMALL, tmp_path / "keys", ("app",))


def known(keyring, name):
    """What a process or client has read: its own public keys, those of the masters, and who may
    connect to it."""
    own = [pair.public for pair in read_secrets(keyring.files(name, MASTER).key)]
    servers = {iad: [*read_publics(keyring.public(iad))] for iad in keyring.masters}
    if name not in keyring.masters:
        return own, servers, {}
    allowed = AllowList(keyring.trust(name).allow)
    return own, servers, {key: party for key in keys_of(keyring) if (party := allowed.find(key))}


def keys_of(keyring):
    for name in (*keyring.masters, *keyring.nodes, OPERATOR, "app"):
        yield from read_publics(keyring.public(name))


def meet(source, master, master_name):
    """Whether a handshake of the two can succeed."""
    own, servers, _ = source
    listening, _, allowed = master
    # A master listens with its first key alone.
    return listening[0] in servers[master_name] and any(key in allowed for key in own)


def test_a_master_knows_its_nodes_its_clients_and_the_other_masters(keyring):
    _, _, allowed = known(keyring, MASTER)
    found = {(sender.role, sender.name) for sender in allowed.values()}
    nodes = {("node", node.name) for node in SMALL.iads[0].nodes}
    assert found == {("client", "app"), ("operator", OPERATOR), ("iad", OTHER), *nodes}


def test_in_a_rotation_any_two_share_a_pair_whichever_of_its_steps_each_has_seen(keyring):
    names = (MASTER, OTHER, NODE, "app")

    def look():
        return {name: known(keyring, name) for name in names}

    first = look()
    steps = keyring.rotation((*keyring.masters, *keyring.nodes))
    seen = [first, *(look() for _ in steps), look()]
    assert len(seen) == 4
    for before, after in itertools.pairwise(seen):
        for one, other in itertools.product((before, after), repeat=2):
            for name in (OTHER, NODE, "app"):
                assert meet(one[name], other[MASTER], MASTER)
    for name in (MASTER, NODE):
        assert {*first[name][0]}.isdisjoint(seen[-1][name][0])
        assert not meet(first[name], seen[-1][OTHER if name == MASTER else MASTER], MASTER)
    assert first["app"][0] == seen[-1]["app"][0]


def test_secrets_are_their_owners_alone(keyring):
    for _ in keyring.rotation((MASTER,)):
        pass
    for name in (MASTER, NODE):
        assert Path(keyring.trust(name).key).stat().st_mode & 0o077 == 0
