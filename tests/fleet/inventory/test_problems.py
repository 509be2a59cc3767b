"""What contradicts itself in an inventory is one line each, with the nearest right name."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from fleet.inventory import files
from fleet.inventory.files import edge_config, master_config
from fleet.inventory.problems import problems, warnings
from tests.examples import examples
from tests.fleet.inventory.inventories import ANY, PLAIN, read, sound

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
TWO_WITH_A_KEY = "".join(
    f'[[person]]\nname = "{name}"\nroles = ["client"]\nssh_keys = ["{KEY} {name}"]\n'
    for name in "ab"
)
HOT = '[[iad.node.trigger]]\nname = "hot"\ncondition = "co2 > 3"\n'
IAD2 = PLAIN[PLAIN.index('[[iad]]\nname = "iad2"') :]
NODE2 = PLAIN[PLAIN.index('[[iad.node]]\nname = "n2"') : PLAIN.index('[[iad]]\nname = "iad2"')]


def test_nothing_is_wrong_with_a_plain_inventory():
    assert problems(read(PLAIN)) == []
    assert warnings(read(PLAIN)) == []


@pytest.mark.parametrize(
    "sensor",
    [
        'driver = "dht"\ninterval_s = 2.0\noptions = { pin = "D4" }',
        'driver = "iio"',
        'driver = "replay"\noptions = { file = "/srv/of-the-host.csv" }',
        'driver = "replay"\noptions = { room = "413" }',
        (
            'driver = "serial_line"\noptions = { port = "/dev/ttyUSB7", format = "csv", channels = '
            '[{ name = "co2", unit = "ppm", low = 0, high = 5000, field = "1" }] }'
        ),
    ],
)
def test_nothing_of_this_machine_is_asked_about_a_hosts_sensor(sensor):
    assert problems(read(PLAIN.replace('driver = "synthetic"', sensor))) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        # names
        ('name = "iad2"', 'name = "iad1"', "two IADs are called iad1"),
        ('name = "n2"', 'name = "n1"', "two nodes of iad1 are called n1"),
        ('name = "n2"', 'name = "master"', "iad1: a node cannot be called master"),
        ('name = "n2"', 'name = ".."', "iad1: a node cannot be called .."),
        ('name = "iad2"', 'name = "."', "an IAD cannot be called ."),
        ('name = "canary"', 'name = "sensing"', "two groups are called sensing"),
        ('name = "app"', 'name = "fleet"', "person fleet: that is who the command `fleet` itself"),
        (
            "[[person]]",
            '[[person]]\nname = "app"\nroles = ["operator"]\n[[person]]',
            "two persons are called app",
        ),
        # groups
        ('["sensing", "canary"]', '["sensing", "cnary"]', "is no group cnary; did you mean canary"),
        (
            "canary = true",
            'canary = true\n[[group.sensor]]\ndriver = "dht"',
            "iad1/n1: its groups sensing and canary differ in sensor; say it at the node",
        ),
        # clones
        (
            'name = "n2"',
            'name = "n2"\nclone = { processor = "p", peers = ["iad1/n2"] }',
            "iad1/n2: clone.peers has the node itself: leave it out",
        ),
        (
            'name = "n2"',
            'name = "n2"\nclone = { processor = "p", peers = ["iad1/n11", "away/n1"] }',
            "iad1/n2: clone.peers has iad1/n11, which is no node; did you mean n1?",
        ),
        # homes
        (
            'name = "n2"',
            'name = "n2"\nhomes = { other = ["iadd2"] }',
            "iad1/n2: homes.other has iadd2, which is no IAD; did you mean iad2?",
        ),
        (
            'name = "n2"',
            'name = "n2"\nhomes = { other = ["iad1"] }',
            "iad1/n2: homes.other has its own IAD: leave iad1 out",
        ),
        (
            'name = "n1"',
            'name = "n1"\nhomes = { other = ["iad2"] }',
            "iad1/n1 and iad2/n1 may both be at home at the master of iad2",
        ),
        (
            'name = "n2"',
            'name = "n2"\nhomes = { other = ["iad2", "iad2"] }',
            "iad1/n2: two masters have the iad iad2",
        ),
        (
            '[[iad]]\nname = "iad2"',
            'homes = { other = ["iad2"] }\n[[iad]]\nname = "iad2"\nareas = ["b2"]',
            "iad1/n2: its area b1/f1/r2 lies in none of those that iad2 offers",
        ),
        # sensors
        ('areas = ["b1/f1/r2"]\ngroups = ["sensing"]', 'areas = ["b1"]', "iad1/n2 has no sensor"),
        ('"synthetic"', '"synthethic"', "no sensor driver synthethic; did you mean synthetic?"),
        (
            "[[iad]]",
            '[[group]]\nname = "x"\n[[group.sensor]]\ndriver = "ht"\n[[iad]]',
            "group x: there is no sensor driver ht; did you mean dht?",
        ),
        (
            'driver = "synthetic"',
            'driver = "synthetic"\n[[group.sensor]]\ndriver = "synthetic"',
            "iad1/n1: two sensors are called synthetic",
        ),
        (
            'driver = "synthetic"',
            'driver = "dht"\ninterval_s = 2.0',
            "group sensing: dht: give the pin of the sensor's data line, such as pin = 'D4'",
        ),
        (
            'driver = "synthetic"',
            'driver = "iio"\noptions = { channels = ["moisture"] }',
            "group sensing: iio: no channel moisture; known: temperature",
        ),
        (
            'driver = "synthetic"',
            'driver = "synthetic"\nname = "s"\noptions = { sede = 3 }',
            "group sensing: sensor s: synthetic: unknown option sede; did you mean seed?",
        ),
        # triggers
        (
            'driver = "synthetic"',
            'driver = "synthetic"\n[[group.trigger]]\nname = "hot"\ncondition = "max(co2) > 3"',
            "group sensing: trigger hot: condition: max(co2) is for queries; a node compares",
        ),
        (
            'groups = ["sensing"]',
            f'groups = ["sensing"]\n{HOT}areas = ["b1"]',
            "iad1/n2: trigger hot: area b1 is none of this node's, nor below one: b1/f1/r2",
        ),
        (
            'groups = ["sensing"]',
            f'groups = ["sensing"]\n{HOT}{HOT}',
            "iad1/n2: two triggers are called hot: give one of them another name",
        ),
        (
            'driver = "synthetic"',
            'driver = "synthetic"\n[[group.trigger]]\nname = "hot"\ncondition = "temprature > 3"',
            "iad1/n1: trigger hot: no sensor here has a channel temprature; did you mean temp",
        ),
        # people
        ('roles = ["client"]', 'roles = ["client"]\nssh_keys = ["ssh-dss A"]', "is no public SSH"),
        (
            'roles = ["client"]',
            'roles = ["client"]\nssh_keys = ["-----BEGIN OPENSSH PRIVATE KEY-----"]',
            "person app: ssh_keys, number 1, is a private key",
        ),
        (
            'roles = ["client"]',
            f'roles = ["client"]\nssh_keys = ["{KEY[:-9]}"]',
            "is cut off or damaged",
        ),
        (
            'roles = ["client"]',
            f'roles = ["client"]\nssh_keys = ["{KEY[:-8]}"]',
            "is cut off or damaged",
        ),
        (
            'roles = ["client"]',
            'roles = ["client"]\nssh_keys = ["ssh-rsa A\\nB"]',
            "is more than one line",
        ),
        (
            'roles = ["client"]',
            f'roles = ["client"]\nssh_keys = ["{KEY} a", "{KEY} b"]',
            "ssh_keys, number 2, is there twice",
        ),
        (
            "[[iad]]",
            f"{TWO_WITH_A_KEY}[[iad]]",
            "person b: ssh_keys, number 1, is a's too",
        ),
        # areas
        (
            'name = "iad2"',
            'name = "iad2"\nareas = ["b2"]\nmaster.address = "m"\n[[iad]]\nname = "iad3"',
            "iad2 offers areas and has no nodes: add an [[iad.node]]",
        ),
        ('name = "iad2"', 'name = "iad2"\nareas = ["b2", "b3"]', "areas has b3, which none of its"),
        ('name = "iad2"', 'name = "iad2"\nareas = ["b3/f1/r1"]', "did you mean b2/f1/r1?"),
        (
            'name = "iad2"',
            'name = "iad2"\noffers = [{ capability = "co2", areas = ["b9"] }]',
            "iad2: offers has b9, which none of its nodes covers",
        ),
        (
            'name = "iad1"',
            'name = "iad1"\nareas = ["b1/f1/r1"]',
            "iad1/n2: its area b1/f1/r2 lies in none of those that iad1 offers (did you mean",
        ),
        # places
        ("10.1.1.2", "10.1.1.1", "iad1/n1 and iad1/n2 have the same address, 10.1.1.1 (port 22)"),
        ("10.2.1.1", "10.1.0.10", "iad1/master and iad2/n1 have the same address"),
        ("10.2.0.10", "10.1.0.10", "iad1/master and iad2/master have the same address"),
        ("10.1.1.2", "10.1.1.2:2222", "write 10.1.1.2, and port = 2222 if that is where its sshd"),
        ('"10.1.0.10"', '"fe80::1"', "iad1/master: address is fe80::1; agents speak IPv4"),
        (
            "10.1.1.2",
            "192.168.1.300",
            "iad1/n2: address is 192.168.1.300, which is no IPv4 address",
        ),
        (
            '"10.1.0.10"',
            '"0.0.0.0"',
            "is 0.0.0.0, which is no host's; write the one that others connect to (listen has",
        ),
        (
            '"10.1.0.10"',
            '"10.1.0.10"\nnodes_address = "255.255.255.255"',
            "iad1/master: nodes_address is 255.255.255.255, which is no host's",
        ),
        ("10.1.1.2", "224.0.0.5", "iad1/n2: address is 224.0.0.5, which is no host's"),
        ("10.1.1.2", "10:1:1", "address is 10:1:1, which is no IPv6 address"),
        (
            '"10.1.0.10"',
            '"10.1.0.10"\nnodes_port = 5702',
            "port 5702 is nodes_port of iad1/master and operator_port of iad1/master",
        ),
        (
            '"10.1.0.10"',
            '"10.1.0.10"\nmetrics = { address = "127.0.0.1:5700" }',
            "port 5700 is public_port of iad1/master and metrics.address of iad1/master",
        ),
        (
            '"10.1.0.10"',
            '"127.0.0.1"\nlocal = true',
            "iad1/n1 and 1 more: its master is at 127.0.0.1, which to a node is the node itself",
        ),
        (
            '"10.1.0.10"',
            '"127.0.0.1"\nnodes_address = "10.9.9.9"\nlocal = true',
            "iad1/master: its address is 127.0.0.1, where the master of iad2 cannot reach it",
        ),
        (
            '"10.1.0.10"',
            '"10.1.0.10"\nlisten = "127.0.0.1"',
            "iad1/master listens on 127.0.0.1 only, where nobody reaches 10.1.0.10",
        ),
    ],
)
def test_one_line_says_what_contradicts_itself(old: str, new: str, says: str):
    assert old in PLAIN
    found = problems(read(PLAIN.replace(old, new, 1)))
    assert any(says in line for line in found), found
    assert not any("\n" in line for line in found)


def test_local_masters_share_a_machine_and_not_their_ports():
    local = PLAIN.replace("10.1.0.10", "10.0.0.1").replace("10.2.0.10", "10.0.0.1")
    local = local.replace('"10.0.0.1"', '"10.0.0.1"\nlocal = true')
    found = problems(read(local))
    assert len(found) == 3
    assert found[0].startswith("port 5700 is public_port of iad1/master and public_port of iad2/")
    first, second = local.split('[[iad]]\nname = "iad2"')
    ports = "local = true\npublic_port = 1\nnodes_port = 2\noperator_port = 3"
    apart = f'{first}[[iad]]\nname = "iad2"{second.replace("local = true", ports)}'
    assert problems(read(apart)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A node beside its own master; another port of one address, as behind a forwarding host.
        ("10.1.1.2", "10.1.0.10"),
        ('"10.1.1.2"', '"10.1.1.1"\nport = 2222'),
        # What groups differ in is said by the node, or by one of them alone.
        ('name = "canary"', 'name = "canary"\nrelease = "1"'),
        ('name = "iad1"', 'name = "iad1"\nareas = ["b1/f1"]'),
        ('roles = ["client"]', f'roles = ["client"]\nssh_keys = ["{KEY} somebody@host"]'),
        # The gateway of QEMU's user network leads to the loopback address of its host.
        ('"10.1.0.10"', '"10.1.0.10"\nlisten = "127.0.0.1"\nnodes_address = "10.0.2.2"'),
    ],
)
def test_what_only_looks_like_a_contradiction_is_none(old: str, new: str):
    assert old in PLAIN
    assert problems(read(PLAIN.replace(old, new, 1))) == []


def test_a_node_that_says_it_itself_settles_what_its_groups_differ_in():
    text = PLAIN.replace('name = "sensing"', 'name = "sensing"\nrelease = "1"')
    text = text.replace('name = "canary"', 'name = "canary"\nrelease = "2"')
    [line] = problems(read(text))
    assert line.startswith("iad1/n1: its groups sensing and canary differ in release; say it at")
    assert problems(read(text.replace("10.1.1.1", '10.1.1.1"\nrelease = "3'))) == []


def test_a_node_beside_its_master_reaches_it_by_loopback():
    text = PLAIN.replace(NODE2, "").replace(
        '"10.1.0.10"', '"10.1.0.10"\nnodes_address = "localhost"'
    )
    assert "iad1/n1: its master is at localhost" in problems(read(text))[0]
    assert problems(read(text.replace("10.1.1.1", "10.1.0.10"))) == []


@pytest.mark.parametrize(
    ("name", "warned"), [("N1", True), ("n_1", False), ("n1.", True), ("n-1", False), ("n2", False)]
)
def test_hosts_that_get_one_host_name_are_warned_of(name, warned):
    fleet = read(PLAIN.replace('name = "n2"', f'name = "{name}"'))
    assert problems(fleet) == []
    told = (
        f"iad1/n1 and iad1/{name} both get the host name iad1-n1 on their cards, where only "
        "letters of one case, digits and - count: rename one"
    )
    assert warnings(fleet) == [told] * warned


def test_what_is_likely_not_meant_is_a_warning():
    fleet = read(PLAIN.replace('["sensing", "canary"]', '["sensing"]'))
    assert problems(fleet) == []
    assert warnings(fleet) == ["group canary has no node: name it in `groups` of a node"]
    fleet = read(PLAIN + '[[iad]]\nname = "iad3"\nmaster.address = "m3"\n')
    assert problems(fleet) == []
    assert warnings(fleet)[0].startswith("iad3 has no nodes yet")
    emulated = PLAIN.replace(IAD2, "").replace(NODE2, "").replace("10.1.0.10", "127.0.0.1")
    fleet = read(emulated.replace('"10.1.1.1"', '"127.0.0.1"\nport = 2222'))
    assert problems(fleet) == []
    [line] = warnings(fleet)
    assert line.startswith("iad1/n1: if 127.0.0.1, port 2222, is an emulated machine")


@given(ANY)
@settings(deadline=None, max_examples=examples(300))
def test_whatever_the_keys_admit_is_judged_without_an_error(fleet):
    found = [*problems(fleet), *warnings(fleet)]
    assert all(line.isprintable() for line in found)
    if not problems(fleet):
        for iad in fleet.iad:
            master_config(fleet, iad)
            for node in iad.node:
                edge_config(fleet, iad, node)


@given(sound())
@settings(deadline=None, max_examples=examples(50))
def test_nothing_is_wrong_where_nothing_contradicts(fleet):
    assert problems(fleet) == []


def test_the_areas_of_an_iad_are_made_out_once_however_many_others_there_are(monkeypatch):
    """As often for each pair of IADs took ten seconds of a fleet of 500."""
    calls = []
    original = files.areas_of
    monkeypatch.setattr(files, "areas_of", lambda *of: calls.append(of) or original(*of))
    fleet = read(
        'name = "f"\n'
        + "".join(
            f'[[iad]]\nname = "i{k}"\n[iad.master]\naddress = "10.0.{k}.1"\n[[iad.node]]\n'
            f'name = "n1"\naddress = "10.0.{k}.2"\nareas = ["b{k}"]\n'
            '[[iad.node.sensor]]\ndriver = "synthetic"\n'
            for k in range(12)
        )
    )
    assert problems(fleet) == []
    assert len(calls) == 12
