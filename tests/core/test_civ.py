"""Cluster index vectors against their naive twin, and their wire form byte by byte."""

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from _core.matching.civ import Civ
from tests.examples import examples
from tests.oracles.civ import NaiveCiv

WIDTHS = st.one_of(
    st.sampled_from([1, 5, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1_023, 1_024]),
    st.integers(1, 1_024),
)


@st.composite
def vectors(draw, width):
    """The clusters of some vector, many or few."""
    number = draw(st.integers(0, 2**width - 1) | st.sampled_from([0, 1, 2 ** (width - 1)]))
    return [i for i in range(width) if number >> i & 1]


class CivAgainstTwin(RuleBasedStateMachine):
    @initialize(
        width=WIDTHS,
        context=st.sampled_from(["publication"] * 2 + ["advertisement", "subscription"]),
        data=st.data(),
    )
    def start(self, width, context, data):
        everybody = range(width)
        self.clusters = st.integers(0, width - 1)
        own = data.draw(self.clusters)
        if context == "publication":
            self.civ, self.twin = Civ(width), NaiveCiv(width, everybody)
        elif context == "advertisement":
            self.civ = Civ.advertisement(width, own)
            self.twin = NaiveCiv(width, set(everybody) - {own})
        else:
            self.civ = Civ.subscription(width, own)
            self.twin = NaiveCiv(width, {own})

    @rule(data=st.data())
    def set(self, data):
        # From the meaningful ones, too, or one bit in a thousand would rarely be hit.
        cluster = data.draw(self.clusters | st.sampled_from(sorted(self.twin.meaningful) or [0]))
        try:
            expected = self.twin.set(cluster)
        except ValueError:
            with pytest.raises(ValueError, match="own"):
                self.civ.set(cluster)
        else:
            assert self.civ.set(cluster) is expected

    @rule(data=st.data())
    def clear(self, data):
        cluster = data.draw(self.clusters | st.sampled_from(sorted(self.twin.clusters) or [0]))
        assert self.civ.clear(cluster) is self.twin.clear(cluster)

    @rule(data=st.data())
    def unite(self, data):
        clusters = data.draw(vectors(self.twin.width))
        other = Civ(self.twin.width, clusters)
        before = self.civ
        assert set(self.civ.union(other)) == self.twin.clusters | set(clusters)
        try:
            self.twin.unite(clusters)
        except ValueError:
            with pytest.raises(ValueError, match="own"):
                self.civ |= other
        else:
            self.civ |= other
        assert self.civ is before
        assert list(other) == clusters

    @rule(data=st.data())
    def subtract(self, data):
        clusters = data.draw(vectors(self.twin.width))
        other = Civ(self.twin.width, clusters)
        before = self.civ
        assert set(self.civ.difference(other)) == self.twin.clusters - set(clusters)
        self.twin.subtract(clusters)
        self.civ -= other
        assert self.civ is before
        assert list(other) == clusters

    @rule()
    def away_and_back(self):
        self.civ = pickle.loads(pickle.dumps(self.civ))

    @invariant()
    def same_clusters(self):
        civ, twin = self.civ, self.twin
        assert list(civ) == sorted(twin.clusters)
        assert len(civ) == len(twin.clusters)
        assert bool(civ) == bool(twin.clusters)
        assert civ.width == twin.width
        assert [i for i in range(twin.width) if i in civ] == sorted(twin.clusters)
        data = civ.to_bytes()
        assert data == twin.to_bytes()
        assert Civ.from_bytes(twin.width, data) == civ


TestCivAgainstTwin = CivAgainstTwin.TestCase
TestCivAgainstTwin.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None
)


@given(WIDTHS, st.data())
def test_whatever_comes_in_goes_out_again_or_is_refused(width, data):
    length = (width + 7) // 8
    wire = data.draw(st.binary(min_size=length, max_size=length))
    if int.from_bytes(wire, "little") < 2**width:
        assert Civ.from_bytes(width, wire).to_bytes() == wire
    else:
        with pytest.raises(ValueError, match="bits of others set"):
            Civ.from_bytes(width, wire)


@pytest.mark.parametrize(
    ("width", "clusters", "wire"),
    [
        (1, [], "00"),
        (1, [0], "01"),
        (3, [0, 2], "05"),  # the paper writes 101
        (8, [7], "80"),
        (9, [8], "0001"),
        (16, [0, 9], "0102"),
        (65, [0, 63, 64], "010000000000008001"),
        (1_024, [0, 1_023], "01" + "00" * 126 + "80"),
    ],
)
def test_the_wire_form(width, clusters, wire):
    assert Civ(width, clusters).to_bytes().hex() == wire
    assert list(Civ.from_bytes(width, bytes.fromhex(wire))) == clusters


def test_contexts_of_one_notification():
    # The publisher's host is in cluster 2 of 4; clusters 0 and 3 want its notifications.
    targets = Civ.advertisement(4, 2)
    scb = Civ.subscription(4, 3)
    assert scb.set(3), "the first match: tell the host"
    assert not scb.set(3), "it knows"
    targets.set(0)
    targets.set(3)
    with pytest.raises(ValueError, match="cluster 2 is the advertisement's own, never a target"):
        targets.set(2)
    with pytest.raises(
        ValueError, match="broker of cluster 3 keeps its own bit alone, not that of 0"
    ):
        scb.set(0)
    to_reach = targets.copy()
    to_reach.set(2)  # in a notification any cluster may still be to be reached
    assert to_reach.clear(3), "served"
    assert not to_reach.clear(3)
    assert list(targets) == [0, 3]


def test_a_refused_union_changes_nothing():
    targets = Civ.advertisement(130, 129)
    with pytest.raises(ValueError, match="never a target"):
        targets |= Civ(130, [0, 1, 129])
    assert not targets


def test_bits_may_go_while_they_are_read():
    civ = Civ(200, range(0, 200, 3))
    for cluster in civ:
        civ.clear(cluster)
    assert not civ


def test_equal_are_width_and_clusters():
    assert Civ(5, [1]) == Civ(5, [1])
    assert Civ(5, [1]) == Civ.advertisement(5, 0).union(Civ(5, [1]))
    assert Civ(5, [1]) != Civ(6, [1])
    assert Civ(5, [1]) != Civ(5, [2])
    assert Civ(5, [1]) != {1}
    assert repr(Civ(5, [1, 4])) == "Civ(5, [1, 4])"
    with pytest.raises(TypeError, match="take its to_bytes"):
        hash(Civ(5))


@pytest.mark.parametrize("civ", [Civ.advertisement(70, 3), Civ.subscription(70, 4)])
@pytest.mark.parametrize(
    "make", [copy.copy, copy.deepcopy, lambda civ: pickle.loads(pickle.dumps(civ))]
)
def test_the_context_goes_with_a_pickle_but_not_with_a_copy_for_a_notification(civ, make):
    civ.set(4)
    assert make(civ) == civ
    with pytest.raises(ValueError, match="own"):
        make(civ).set(3)
    assert civ.copy().set(3)
    assert civ.union(civ).set(3)
    assert civ.difference(civ).set(3)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, Civ.copy])
def test_copies_are_apart(make):
    first = Civ(70, [1, 69])
    second = make(first)
    assert first == second
    second.clear(1)
    assert list(first) == [1, 69]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: Civ(0), ValueError, "a vector has 1 to 1,024 clusters, not 0"),
        (lambda: Civ(1_025), ValueError, "a vector has 1 to 1,024 clusters, not 1,025"),
        (lambda: Civ(2**70), ValueError, "a vector has 1 to 1,024 clusters, not 1,180,591,"),
        (lambda: Civ("5"), TypeError, "the width of a vector is an int, not str"),
        (lambda: Civ(True), TypeError, "the width of a vector is an int, not bool"),
        (lambda: Civ(5, [5]), IndexError, "numbered 0 to 4: there is no 5"),
        (lambda: Civ(5).set(-1), IndexError, "numbered 0 to 4: there is no -1"),
        (lambda: Civ(5).clear(2**70), IndexError, "numbered 0 to 4: there is no 1,180,591,"),
        (lambda: 5 in Civ(5), IndexError, "numbered 0 to 4: there is no 5"),
        (lambda: Civ(5).set(1.0), TypeError, "a cluster is an int, not float"),
        (lambda: Civ.advertisement(5, 5), IndexError, "numbered 0 to 4: there is no 5"),
        (lambda: Civ.subscription(5, 5), IndexError, "numbered 0 to 4: there is no 5"),
        (lambda: Civ(5).union(Civ(6)), ValueError, "of 5 and 6 clusters do not go together"),
        (lambda: Civ(5).difference(Civ(6)), ValueError, "of 5 and 6 clusters do not go together"),
        (lambda: Civ(5).__ior__(Civ(6)), ValueError, "of 5 and 6 clusters do not go together"),
        (lambda: Civ(5).__isub__(Civ(6)), ValueError, "of 5 and 6 clusters do not go together"),
        (lambda: Civ(5).union(None), TypeError, "None"),
        (lambda: Civ.from_bytes(9, b"\x00"), ValueError, "of 9 clusters takes 2 bytes, not 1"),
        (
            lambda: Civ.from_bytes(9, b"\x00\x02"),
            ValueError,
            "of 9 clusters has bits of others set",
        ),
        (lambda: Civ.from_bytes(9, "00"), TypeError, "bytes"),
    ],
)
def test_mistakes_are_told(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()
