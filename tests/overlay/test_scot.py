"""The overlay's topology, against networkx and by hand."""

import gc
import tracemalloc
from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.overlay import scot as scot_module
from agent.overlay import tree as tree_module
from agent.overlay.scot import BrokerId, Scot, ScotError
from tests.examples import examples

# The paper's Fig. 3: six vertices, four of them at the edge, and a triangle.
SIX = [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("d", "f")]


@st.composite
def trees(draw, most=9):
    """The links of a random tree of 1 to `most` vertices in any order, and its vertices."""
    count = draw(st.integers(1, most))
    names = draw(st.permutations([f"v{i}" for i in range(count)]))
    links = [(names[draw(st.integers(0, i - 1))], names[i]) for i in range(1, count)]
    links = [link[:: draw(st.sampled_from([1, -1]))] for link in draw(st.permutations(links))]
    return links, names


def product(links, vertices, clusters):
    """The same overlay as networkx makes it."""
    tree = nx.Graph(links)
    tree.add_nodes_from(vertices)
    return nx.cartesian_product(tree, nx.complete_graph(clusters))


@settings(max_examples=examples(150), deadline=None)
@given(trees(), st.integers(1, 5))
def test_links_and_measures_are_those_of_the_product(tree, clusters):
    links, vertices = tree
    scot, graph = Scot(links, clusters, vertices), product(links, vertices, clusters)
    brokers = set(scot.brokers())
    assert brokers == set(graph)
    assert scot.order == len(graph) == len(list(scot.brokers()))
    joined = [*scot.a_links(), *scot.i_links()]
    assert {frozenset(link) for link in joined} == {frozenset(link) for link in graph.edges}
    assert scot.size == graph.number_of_edges() == len(joined)
    assert scot.a_link_count == len(list(scot.a_links()))
    assert scot.i_link_count == len(list(scot.i_links()))
    assert scot.diameter == nx.diameter(graph)
    assert scot.minimum_degree == min(degree for _, degree in graph.degree)
    for broker in brokers:
        primary, secondary = scot.cluster_neighbours(broker), scot.region_neighbours(broker)
        assert sorted(primary + secondary) == sorted(graph[broker])
        assert scot.is_edge(broker) == (len(primary) <= 1)
        assert all(scot.link_kind(broker, each) == "aLink" for each in primary)
        assert all(scot.link_kind(broker, each) == "iLink" for each in secondary)
        for other in brokers - set(graph[broker]):
            assert scot.link_kind(broker, other) is None


@settings(max_examples=examples(60), deadline=None)
@given(trees(6), st.integers(1, 4))
def test_connectivity_is_what_the_formulas_say(tree, clusters):
    links, vertices = tree
    scot, graph = Scot(links, clusters, vertices), product(links, vertices, clusters)
    if scot.order == 1:
        assert scot.vertex_connectivity == scot.edge_connectivity == 0
    else:
        assert scot.vertex_connectivity == nx.node_connectivity(graph)
        assert scot.edge_connectivity == nx.edge_connectivity(graph)


@settings(max_examples=examples(150), deadline=None)
@given(trees(14), st.integers(1, 3))
def test_ways_are_the_shortest(tree, clusters):
    links, vertices = tree
    scot, graph = Scot(links, clusters, vertices), product(links, vertices, clusters)
    distances = dict(nx.all_pairs_shortest_path_length(graph))
    for a in scot.brokers():
        for b in scot.brokers():
            assert scot.distance(a, b) == distances[a][b]
    flat = nx.Graph(links)
    flat.add_nodes_from(vertices)
    for a in vertices:
        for b in vertices:
            path = nx.shortest_path(flat, a, b)
            assert scot.path(a, b) == tuple(path)
            if a != b:
                assert scot.next_vertex(a, b) == path[1]


def test_the_overlay_of_the_paper():
    scot = Scot(SIX, 3)
    assert scot.vertices == ("a", "b", "c", "d", "e", "f")
    assert scot.order == 18
    assert scot.a_link_count == 15  # 3 · 5
    assert scot.i_link_count == 18  # 6 · 3
    assert scot.diameter == 4  # a – b – d – e, and into another cluster
    assert [vertex for vertex in scot.vertices if not scot.is_edge(BrokerId(vertex, 2))] == [
        "b",
        "d",
    ]
    assert scot.cluster_neighbours(BrokerId("b", 1)) == (("a", 1), ("c", 1), ("d", 1))
    assert scot.region_neighbours(BrokerId("b", 1)) == (("b", 0), ("b", 2))
    assert scot.region("e") == (("e", 0), ("e", 1), ("e", 2))
    assert scot.path("a", "e") == ("a", "b", "d", "e")
    assert scot.distance(BrokerId("a", 0), BrokerId("e", 2)) == 4
    assert scot.vertex_connectivity == scot.edge_connectivity == 3


def test_the_overlay_of_the_evaluation():
    inner = ["F", "G", "H", "I"]
    links = [("F", "G"), ("G", "H"), ("H", "I"), *((inner[i % 4], f"e{i}") for i in range(10))]
    scot = Scot(links, 5)
    assert scot.order == 70
    assert sum(scot.is_edge(broker) for broker in scot.brokers()) == 50
    assert scot.size == 5 * 13 + 14 * 10 == 205
    assert 2 * scot.size - scot.order + 1 == 341  # what a flood costs


def test_the_smallest_overlays():
    alone = Scot([], 1, ["only"])
    assert (alone.order, alone.size, alone.diameter, alone.minimum_degree) == (1, 0, 0, 0)
    assert alone.is_edge(BrokerId("only", 0))
    assert alone.cluster_neighbours(BrokerId("only", 0)) == ()
    assert alone.path("only", "only") == ("only",)
    region = Scot([], 4, ["only"])
    assert (region.order, region.size, region.diameter) == (4, 6, 1)
    assert region.vertex_connectivity == 3


def test_ten_thousand_vertices_in_a_row():
    names = [f"n{i}" for i in range(10_000)]
    scot = Scot(pairwise(names), 2)
    assert scot.order == 20_000
    assert scot.diameter == 10_000
    assert scot.next_vertex("n5000", "n0") == "n4999"
    assert scot.next_vertex("n5000", "n9999") == "n5001"
    star = Scot([("hub", name) for name in names], 1)
    assert star.next_vertex("hub", "n777") == "n777"
    assert star.next_vertex("n777", "n778") == "hub"


def test_memory_grows_with_the_tree_and_with_nothing_else():
    def taken(vertices, clusters):
        names = [f"n{i}" for i in range(vertices)]
        gc.collect()  # what lies in free lists would be used again, and not be counted
        tracemalloc.start()
        scot = Scot(pairwise(names), clusters)
        # Threads of other tests may allocate meanwhile.
        ours = [tracemalloc.Filter(True, each.__file__) for each in (scot_module, tree_module)]
        snapshot = tracemalloc.take_snapshot().filter_traces(ours)
        tracemalloc.stop()
        assert scot.order == vertices * clusters
        return sum(each.size for each in snapshot.traces)

    assert taken(2_000, 2) < 1_000 * 2_000
    assert taken(2_000, 500) < 1.1 * taken(2_000, 2)
    assert taken(4_000, 2) < 3 * taken(2_000, 2)  # dicts grow by leaps; O(n²) would be 4


def test_the_fingerprint_is_that_of_the_overlay_not_of_how_it_is_written():
    fingerprint = Scot(SIX, 3).fingerprint
    assert fingerprint == "5e59e6b9476d995f"
    assert Scot([link[::-1] for link in reversed(SIX)], 3).fingerprint == fingerprint
    others = [
        Scot(SIX, 4),
        Scot(SIX[:-1], 3),
        Scot([*SIX[:-1], ("b", "f")], 3),
        Scot([*SIX[:-1], ("d", "g")], 3),
    ]
    assert len({fingerprint, *(each.fingerprint for each in others)}) == 5
    assert Scot([], 1, ["a"]).fingerprint != Scot([], 1, ["b"]).fingerprint


@pytest.mark.parametrize(
    ("links", "vertices", "clusters", "words"),
    [
        ([("a", "b"), ("c", "d")], (), 2, "no way leads from a to c, d: a link is missing"),
        ([("a", "b")], ("a", "b", "x"), 2, "no way leads from a to x: a link is missing"),
        (
            [("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")],
            (),
            2,
            "the links d – c – b – d form a cycle: one of them has to go",
        ),
        ([("a", "a")], (), 2, "'a' is linked to itself"),
        ([("a", "b"), ("b", "a")], (), 2, "the link b – a is there twice"),
        (
            [("a", "b")],
            ("a",),
            2,
            "the link a – b has an end 'b' that is none of the vertices",
        ),
        ([], ("a", "b", "a"), 2, "vertex 'a' is named twice"),
        ([], (), 2, "there is no vertex: name one, or a link"),
        (
            [("a b", "c")],
            (),
            2,
            "a vertex has a name of 1 to 64 letters, digits, '_', '.' or '-', not 'a b'",
        ),
        (
            [],
            ("x" * 65,),
            2,
            f"a vertex has a name of 1 to 64 letters, digits, '_', '.' or '-', not '{'x' * 65}'",
        ),
        (SIX, (), 0, "an overlay has 1 to 1,024 clusters, not 0"),
        (SIX, (), 1025, "an overlay has 1 to 1,024 clusters, not 1,025"),
        (SIX, (), True, "the number of clusters is a whole number, not True"),
        (SIX, (), 2.0, "the number of clusters is a whole number, not 2.0"),
        (
            [("hub", f"n{i}") for i in range(1024)],
            (),
            1024,
            "are more than the 1,048,576 brokers that an overlay may have",
        ),
    ],
)
def test_factors_that_form_no_overlay(links, vertices, clusters, words):
    with pytest.raises(ScotError) as refused:
        Scot(links, clusters, vertices)
    assert str(refused.value).endswith(words)


def test_long_cycles_and_large_parts_are_told_in_short():
    ring = [(f"n{i}", f"n{(i + 1) % 50}") for i in range(50)]
    with pytest.raises(ScotError, match=r"n49 – .* – \(45 more\) – n49 form a cycle"):
        Scot(ring, 1)
    apart = [("a", "b"), *((f"n{i}", f"n{i + 1}") for i in range(50))]
    with pytest.raises(ScotError, match=r"from a to n0, .*, \(45 more\), n50: a link is missing"):
        Scot(apart, 1)


@pytest.mark.parametrize(
    ("broker", "words"),
    [
        ((2, "a"), "a broker is (vertex, cluster): (2, 'a') is turned round"),
        (("x", 0), "the overlay has no vertex 'x'"),
        (("a", 3), "the clusters are numbered 0 to 2: there is no 3"),
        (("a", -1), "the clusters are numbered 0 to 2: there is no -1"),
        (("a", "0"), "the clusters are numbered 0 to 2: there is no '0'"),
    ],
)
def test_brokers_that_are_not_there(broker, words):
    scot = Scot(SIX, 3)
    assert broker not in scot
    with pytest.raises(ScotError) as refused:
        scot.check(broker)
    assert str(refused.value) == words


def test_a_broker_has_no_next_vertex_to_itself():
    scot = Scot(SIX, 3)
    scot.check(BrokerId("a", 2))
    assert ("a", 2) in scot
    assert "a" not in scot
    with pytest.raises(ValueError, match="no next vertex on the way to itself"):
        scot.next_vertex("a", "a")
    with pytest.raises(KeyError):
        scot.next_vertex("a", "x")
