"""The files of a host: agents read them back, and each party gets what is its own."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.net.allow_list import AllowFile
from agent.wire import config
from agent.wire.edge_config import EdgeConfig
from agent.wire.master_config import MasterConfig, MasterPlacement
from fleet.common import toml
from fleet.inventory.files import allow_list, edge_config, files_of, master_config
from fleet.inventory.folder import Folder
from fleet.inventory.model import Inventory
from fleet.inventory.parties import Party, hosts, parties
from fleet.inventory.problems import problems, warnings
from fleet.inventory.selection import one_host
from fleet.keys.store import KeyStoreError, Store
from tests.examples import examples
from tests.fleet.inventory.inventories import PLAIN, read, sound


class Numbered:
    """A key for every party but those that were revoked: its number, in as many characters."""

    def __init__(self, fleet: Inventory, revoked: frozenset[Party] = frozenset()) -> None:
        self.revoked = revoked
        self._number = {party: number for number, party in enumerate(parties(fleet))}

    def publics(self, party: Party) -> tuple[str, ...]:
        return () if party in self.revoked else (f"{self._number[party]:040}",)

    def secret_file(self, party: Party) -> bytes:
        return f"secret of {party}\n".encode()

    def public_file(self, party: Party) -> bytes:
        return f"public of {party}\n".encode()

    def webhook_file(self, iad: str, webhook: str) -> bytes:
        return f"secret of {webhook} of {iad}\n".encode()

    def latency_model(self, path: str) -> bytes:
        return f"model in {path}\n".encode()


@given(sound(), st.data())
@settings(deadline=None, max_examples=examples(50))
def test_what_is_written_for_agents_they_read_back(tmp_path_factory, fleet, data):
    folder = tmp_path_factory.mktemp("host")
    everybody = list(parties(fleet))
    keys = Numbered(fleet, frozenset(data.draw(st.sets(st.sampled_from(everybody)))))
    kinds = {"edge.toml": EdgeConfig, "master.toml": MasterConfig, "allow.toml": AllowFile}
    for host in hosts(fleet):
        expected = {"allow.toml": allow_list(fleet, host.iad, keys)}
        if host.node is None:
            expected["master.toml"] = master_config(fleet, host.iad)
        else:
            expected = {"edge.toml": edge_config(fleet, host.iad, host.node)}
        files = files_of(fleet, host, keys)
        assert len({file.path for file in files}) == len(files)
        assert [file.path for file in files if file.secret] == [f"keys/{host.party.role}.secret"]
        for file in files:
            if file.path in kinds:
                path = folder / file.path
                path.write_bytes(file.content)
                assert config.load(path, kinds[file.path]) == expected.pop(file.path)
        assert not expected


@given(sound(), st.data())
@settings(deadline=None, max_examples=examples(50))
def test_a_master_lets_in_who_has_a_key_and_business_there(fleet, data):
    revoked = frozenset(data.draw(st.sets(st.sampled_from(list(parties(fleet))))))
    keys = Numbered(fleet, revoked)
    for iad in fleet.iad:
        allowed = allow_list(fleet, iad, keys)
        expected = {
            Party("node", f"{each.name}/{node.name}")
            for each in fleet.iad
            for node in each.node
            if each is iad or (node.homes and iad.name in node.homes.other)
        }
        expected |= {Party("master", other.name) for other in fleet.iad if other is not iad}
        expected |= {party for party in parties(fleet) if party.role in ("client", "operator")}
        publics = {key for party in expected - revoked for key in keys.publics(party)}
        assert {key for party in allowed.parties() for key in party.keys} == publics


def test_a_master_lets_each_node_speak_for_its_own_areas():
    fleet = read(PLAIN)
    for iad in fleet.iad:
        allowed = allow_list(fleet, iad, Numbered(fleet))
        assert {n.name: n.areas for n in allowed.node} == {n.name: n.areas for n in iad.node}
        assert iad.node


def test_each_host_has_its_own_secret_and_the_publics_it_needs():
    fleet = read(PLAIN)
    keys = Numbered(fleet)

    def contents(name: str) -> dict[str, bytes]:
        return {file.path: file.content for file in files_of(fleet, one_host(fleet, name), keys)}

    node = contents("iad1/n1")
    assert node.keys() == {"edge.toml", "keys/node.secret", "keys/master.public"}
    assert node["keys/node.secret"] == b"secret of node iad1/n1\n"
    assert node["keys/master.public"] == b"public of master iad1\n"
    master = contents("iad1/master")
    others = {"keys/master.secret", "keys/iad-iad2.public"}
    assert master.keys() == {"master.toml", "allow.toml", *others}
    assert master["keys/iad-iad2.public"] == b"public of master iad2\n"


def test_the_latency_model_of_the_fleet_goes_to_every_master_without_one_of_its_own():
    own = '[iad.master.placement]\nmodel = "own.json"\nstorage_bytes = 1e6\n'
    fleet = read(
        PLAIN.replace("[[iad.node]]", own + "[[iad.node]]", 1) + '[placement]\nmodel = "m.json"\n'
    )
    assert problems(fleet) == []
    first, second = (
        {each.path: each for each in files_of(fleet, one_host(fleet, name), Numbered(fleet))}
        for name in ("iad1/master", "iad2/master")
    )
    assert first["latency-model.json"].content == b"model in own.json\n"
    assert master_config(fleet, fleet.iad[0]).placement.model == "latency-model.json"
    assert master_config(fleet, fleet.iad[0]).placement.storage_bytes == 1e6
    assert second["latency-model.json"].content == b"model in m.json\n"
    assert second["latency-model.json"].restart
    assert master_config(fleet, fleet.iad[1]).placement.model == "latency-model.json"


def test_the_delegate_of_the_fleet_is_named_to_every_master():
    fleet = read(PLAIN + '[placement]\ndelegate = "iad2"\n')
    assert problems(fleet) == []
    assert [master_config(fleet, iad).placement.delegate for iad in fleet.iad] == ["iad2"] * 2
    (line,) = problems(read(PLAIN + '[placement]\ndelegate = "iad3"\n'))
    assert line == "placement.delegate is iad3, which is no IAD; did you mean iad2?"


def test_a_latency_model_that_is_none_is_one_line(tmp_path):
    (tmp_path / "fleet.toml").write_text(PLAIN)
    store = Store(Folder(tmp_path))
    for content, says in ((None, "No such file"), (b"{}", "not a latency model: ")):
        if content is not None:
            (tmp_path / "m.json").write_bytes(content)
        with pytest.raises(KeyStoreError, match=f"placement.model: m.json: {says}"):
            store.latency_model("m.json")


MOVING = PLAIN.replace(
    'name = "n2"', 'name = "n2"\nhomes = { other = ["iad2"], follow_s = 30.0 }'
).replace('address = "10.2.0.10"', 'address = "10.2.0.10"\nnodes_address = "10.2.0.11"')


def test_a_node_that_may_move_knows_its_other_masters_and_they_know_it():
    fleet = read(MOVING)
    assert problems(fleet) == []
    keys = Numbered(fleet)
    files = {each.path: each for each in files_of(fleet, one_host(fleet, "iad1/n2"), keys)}
    node = config.parse(tomllib.loads(files["edge.toml"].content.decode()), EdgeConfig, "")
    assert (node.master.iad, node.master.follow_s) == ("iad1", 30.0)
    (other,) = node.master.other
    assert (other.iad, other.address, other.keys) == (
        "iad2",
        "tcp://10.2.0.11:5701",
        "keys/iad-iad2.public",
    )
    assert files[other.keys].content == b"public of master iad2\n"
    there = {each.name: each.areas for each in allow_list(fleet, fleet.iad[1], keys).node}
    assert there == {"n1": ("b2/f1/r1",), "n2": ("b1/f1/r2",)}
    offered = {each.iad: each.areas for each in master_config(fleet, fleet.iad[0]).pool}
    assert offered["iad2"] == ("b2/f1/r1", "b1/f1/r2")


def test_a_master_without_nodes_of_its_own_listens_for_those_that_may_come():
    fleet = read(MOVING[: MOVING.rindex("[[iad.node]]")])
    assert problems(fleet) == []
    assert warnings(fleet) == []
    assert master_config(fleet, fleet.iad[1]).sockets.nodes == "tcp://0.0.0.0:5701"


def test_only_configuration_needs_a_restart():
    fleet = read(PLAIN)
    for host in hosts(fleet):
        restarting = {f.path for f in files_of(fleet, host, Numbered(fleet)) if f.restart}
        assert restarting == {"edge.toml" if host.node else "master.toml"}


def test_a_node_goes_before_its_group_and_that_before_the_defaults():
    text = PLAIN.replace('driver = "synthetic"', 'driver = "dht"\n[group.pods]\ncount = 2', 1)
    fleet = read(text.replace('name = "n2"', 'name = "n2"\npods = { count = 3 }'))
    iad = fleet.iad[0]
    first, second = (edge_config(fleet, iad, node) for node in iad.node)
    assert (first.pods.count, second.pods.count) == (2, 3)
    assert first.sensor[0].driver == "dht"
    assert first.history.path == "/var/lib/sanderling/history.sqlite"


@pytest.mark.parametrize(
    ("local", "directory", "expected"),
    [
        (False, "records", "/var/lib/sanderling/records"),
        (False, "/srv/records", "/srv/records"),
        (False, "", ""),
        (True, "records", "records"),
        (True, "", ""),
    ],
)
def test_where_a_master_keeps_its_records(local: bool, directory: str, expected: str):
    settings = f"local = {str(local).lower()}\nrecords = {{ directory = '{directory}' }}"
    text = PLAIN.replace('address = "10.1.0.10"', f'address = "10.1.0.10"\n{settings}')
    fleet = read(text)
    found = master_config(fleet, fleet.iad[0])
    assert found.records.directory == expected
    assert found.state.path == ("state.sqlite" if local else "/var/lib/sanderling/state.sqlite")


def test_the_pool_is_every_iad_where_others_reach_it():
    fleet = read(PLAIN)
    pool = master_config(fleet, fleet.iad[1]).pool
    assert [(m.iad, m.address, m.areas, m.keys) for m in pool] == [
        ("iad1", "tcp://10.1.0.10:5700", ("b1/f1/r1", "b1/f1/r2"), "keys/iad-iad1.public"),
        ("iad2", "tcp://10.2.0.10:5700", ("b2/f1/r1",), ""),
    ]


def test_masters_that_find_each_other_begin_at_the_first_ones_and_are_partners():
    iads = "".join(
        f'[[iad]]\nname = "iad{n}"\n[iad.master]\naddress = "10.{n}.0.10"\n' for n in range(1, 6)
    )
    for find in (True, False):
        fleet = read(f'name = "f"\n[placement]\nfind = {str(find).lower()}\n{iads}')
        for iad in fleet.iad:
            keys = Numbered(fleet, frozenset())
            at = next(each for each in hosts(fleet) if each.iad is iad)
            files = {file.path: file.content for file in files_of(fleet, at, keys)}
            made = config.parse(tomllib.loads(files["master.toml"].decode()), MasterConfig, "m")
            first = tuple(f"tcp://10.{n}.0.10:5700" for n in (1, 2, 3)) if find else ()
            assert made.placement.bootstrap == first
            assert {each.partner for each in allow_list(fleet, iad, keys).iad} == {find}
            known = b"".join(keys.public_file(Party("master", f"iad{n}")) for n in (1, 2, 3))
            assert files.get(made.placement.bootstrap_keys) == (known if find else None)


def test_units_of_all_masters_move_by_themselves_if_the_inventory_says_so():
    """What one master says itself goes before what the fleet has; the rest is its default."""
    more = "[placement]\ndrift = true\nmove_cost = 0.5\nmost_processors = 100\n"
    text = PLAIN.replace(
        "[iad.master]\n", "[iad.master]\nplacement = { drift = false, compute = 2 }\n", 1
    )
    fleet = read(text + more)
    assert problems(fleet) == []
    first, second = (master_config(fleet, iad).placement for iad in fleet.iad)
    common = MasterPlacement(move_cost=0.5, most_processors=100)
    assert first == replace(common, drift=False, compute=2.0)
    assert second == replace(common, drift=True)
    fleet = read(PLAIN)
    assert {master_config(fleet, iad).placement for iad in fleet.iad} == {MasterPlacement()}
    fleet = read(text + more)
    keys = Numbered(fleet)
    files = {host.name: files_of(fleet, host, keys) for host in hosts(fleet) if not host.node}
    written = [file.content for own in files.values() for file in own if file.path == "master.toml"]
    made = [config.parse(tomllib.loads(text.decode()), MasterConfig, "m") for text in written]
    assert [each.placement.drift for each in made] == [False, True]


OPTIONS = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), OPTIONS, max_size=3))
@settings(deadline=None, max_examples=examples(50))
def test_whatever_a_driver_is_told_reaches_it(options):
    """An inventory's TOML may hold any names and values there."""
    fleet = read(PLAIN)
    node = fleet.iad[0].node[0]
    table = {
        "name": "n1",
        "address": "a",
        "areas": ["b1"],
        "sensor": [{"driver": "dht", "options": options}],
    }
    node = config.parse(table, type(node), "test")
    written = toml.dump(edge_config(fleet, fleet.iad[0], node))
    assert tomllib.loads(written)["sensor"][0].get("options", {}) == options


def test_a_master_has_the_names_of_rooms_that_its_nodes_are_in():
    first, second = (iad.node[0].areas[0] for iad in read(PLAIN).iad)
    floor = first.rpartition("/")[0]
    named = (
        f'\n[rooms]\n"{first}" = "Küche"\n"{floor}" = "Erster Stock"\n"{second}" = "Meeting 4.13"\n'
    )
    fleet = read(PLAIN + named)
    assert (problems(fleet), warnings(fleet)) == ([], [])
    rooms = [master_config(fleet, iad).iad.rooms for iad in fleet.iad]
    assert rooms[0][first] == "Küche"
    assert second not in rooms[0]
    assert rooms[1][second] == "Meeting 4.13"
    text = toml.dump(master_config(fleet, fleet.iad[0]))
    assert config.parse(tomllib.loads(text), MasterConfig, "x").iad.rooms == rooms[0]


def test_a_name_for_an_area_without_a_node_is_likely_a_misprint():
    [area] = read(PLAIN).iad[0].node[0].areas
    [line] = warnings(read(PLAIN + f'\n[rooms]\n"{area}x" = "Kitchen"\n'))
    assert line == f"rooms: {area}x has a name, and no node covers it; did you mean {area}?"
