"""Areas at the schedulers and between parties: what they find is what comparing each asked area
with each declared one finds, in the same order."""

from hypothesis import given
from hypothesis import strategies as st

from agent.market.terms import common_areas
from agent.scheduling.pools import Offers
from agent.scheduling.tasks.contracts import Contract
from agent.scheduling.tasks.entry import Node
from agent.scheduling.tasks.nodes import NodeTable
from agent.wire import areas as areas_module
from agent.wire.areas import AreaSet
from agent.wire.market import Member
from agent.wire.node_messages import Hello
from tests.oracles import areas as oracle

area = st.lists(st.sampled_from(["b1", "b", "f4", "f41", "r4"]), min_size=1, max_size=4).map(
    "/".join
)
areas = st.lists(area, max_size=6).map(tuple)
some = st.lists(area, min_size=1, max_size=6).map(tuple)


def hello(name, incarnation, own):
    return Hello(name, incarnation, "h", own, (), 1, "1.0")


def told(covering):
    return [(node.name, own) for node, own in covering.nodes], covering.unmatched


# Nodes as they say hello, one after the other: a name that comes again has changed its areas.
@given(st.lists(st.tuples(st.sampled_from("abcd"), areas), max_size=8), st.lists(some, max_size=4))
def test_who_covers_areas(hellos, asked):
    table = NodeTable()
    declared: dict[str, tuple[str, ...]] = {}
    for number, (name, own) in enumerate(hellos):
        node = table.named(name) or Node(name, number)
        table.bind(node, hello(name, str(number), own), number, "")
        declared[name] = own
        for each in asked:
            nodes, unmatched = oracle.covering(each, declared.items())
            assert told(table.covering(each)) == (nodes, unmatched)
            assert table.count_within(each) == len(nodes)
    assert table.count_within(None) == len(declared)


def test_a_node_that_comes_again_with_the_same_areas_changes_nothing():
    table = NodeTable()
    node = Node("a", 0)
    table.bind(node, hello("a", "1", ("b1", "b2")), 1, "")
    before = table.covering(("b1",))
    table.bind(node, hello("a", "2", ("b1", "b2")), 2, "")
    assert table.covering(("b1",)) is before
    table.bind(node, hello("a", "3", ("b2",)), 3, "")
    assert told(table.covering(("b1",))) == ([], ["b1"])


def test_many_areas_are_not_compared_with_each_of_many_nodes(monkeypatch):
    table, looks = NodeTable(), []
    for number in range(1_000):
        name = f"n{number}"
        table.bind(Node(name, 0), hello(name, "1", (f"b1/f{number % 10}/r{number}",)), name, "")
    look = AreaSet.places_within
    monkeypatch.setattr(
        AreaSet, "places_within", lambda self, asked: looks.append(asked) or look(self, asked)
    )

    def compared(*_):
        raise AssertionError("two areas are compared by their names")

    monkeypatch.setattr(areas_module, "covers", compared)
    monkeypatch.setattr(areas_module, "overlaps", compared)
    asked = tuple(f"b1/f{number % 10}/r{number}" for number in range(1_024))
    assert len(table.covering(asked).nodes) == 1_000
    assert looks == [asked]


def test_many_changes_of_areas_cost_one_look_at_all_nodes(monkeypatch):
    table, added = NodeTable(), []
    for name in "abcd":
        table.bind(Node(name, 0), hello(name, "1", (f"b1/{name}",)), name, "")
    add = AreaSet.add
    monkeypatch.setattr(AreaSet, "add", lambda self, own: added.append(own) or add(self, own))
    for number in range(50):
        table.bind(table.named("a"), hello("a", "1", (f"b2/r{number}",)), "a", "")
    assert added == []
    assert told(table.covering(("b2", "b1/a"))) == ([("a", ["b2/r49"])], ["b1/a"])
    assert len(table.areas) == len(added) == 4
    # A new one between a change and the next look.
    table.bind(table.named("a"), hello("a", "1", ("b1/a",)), "a", "")
    table.bind(Node("e", 0), hello("e", "1", ("b1/e",)), "e", "")
    assert table.count_within(("b1",)) == 5


@given(areas, some)
def test_the_part_that_a_service_is_about(offered, asked):
    contract = Contract("s", {}, offered=offered)
    assert tuple(contract.within(asked)) == oracle.inside(asked, offered)


@given(st.lists(some, max_size=4), some)
def test_whom_a_query_goes_to(offers, asked):
    members = [Member(f"iad{n}", "inproc://", own) for n, own in enumerate(offers)]
    fanout = Offers(members).all_that_overlap(asked)
    matches, unmatched = oracle.all_that_overlap([(m.iad, m.areas) for m in members], asked)
    assert [tuple(match)[:3] for match in fanout.matches] == matches
    assert fanout.unmatched == unmatched
    assert fanout.k_q == len(matches)


@given(areas, areas)
def test_what_two_parties_both_mean(asked, offered):
    assert common_areas(asked, offered) == oracle.common_areas(asked, offered)
