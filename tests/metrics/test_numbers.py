"""Counters, histograms and bounded names, beside the plainest way to count."""

from hypothesis import given
from hypothesis import strategies as st

from agent.metrics.directory_families import DRS
from agent.metrics.edge_families import EDGE
from agent.metrics.families import Family
from agent.metrics.master_families import MASTER
from agent.metrics.numbers import BoundedNames, Count, Histogram

SIZES = Family("sizes_seconds", "histogram", ("label",), "seconds", "", (0.1, 0.5, 1.0))
SECONDS = st.floats(0.0, 2.0) | st.sampled_from(SIZES.bounds)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(SECONDS))))
def test_a_histogram_counts_each_value_once_at_or_below_its_bound(batches):
    histogram = Histogram(SIZES)
    for label, values in batches:
        histogram.observe((label,), values)
    shown = histogram.samples().distributions
    for label in "ab":
        values = [v for name, batch in batches if name == label for v in batch]
        if not values:
            assert (label,) not in shown
            continue
        counts, total = shown[(label,)]
        edges = [*SIZES.bounds, float("inf")]
        for n, bound in enumerate(edges, start=1):
            assert sum(counts[:n]) == sum(v <= bound for v in values)
        assert abs(total - sum(values)) < 1e-9


def test_copies_do_not_change():
    count, histogram = Count(SIZES), Histogram(SIZES)
    count.add(("a",))
    histogram.observe(("a",), [0.2])
    copies = count.samples(), histogram.samples()
    count.add(("a",), 5)
    histogram.observe(("a",), [0.2, 7.0])
    assert copies[0].values == {("a",): 1}
    assert copies[1].distributions[("a",)].counts == (0, 1, 0, 0)


@given(st.lists(st.tuples(st.text("xyz", max_size=2), st.booleans())))
def test_names_are_bounded_and_stay_what_they_were(calls):
    name = BoundedNames(3)
    given_before = {}
    for text, new in calls:
        value = name(text, new=new)
        assert value == (text or "none") or value == "other"
        if given_before.get(text, "other") != "other":
            assert value == given_before[text]
        given_before[text] = value
    assert len(set(given_before.values()) - {"none", "other"}) <= 3


def test_a_name_that_must_not_be_new_takes_no_place():
    name = BoundedNames(1)
    assert name("stranger", new=False) == "other"
    assert name("client") == "client"
    assert name("client", new=False) == "client"
    assert name("stranger") == "other"


def test_families_keep_the_conventions_of_prometheus():
    for family in {*MASTER, *DRS, *EDGE}:
        assert family.name.startswith("sanderling_")
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        told_in_s = family.name.removesuffix("_total").endswith("_seconds")
        assert told_in_s == (family.unit == "seconds"), family.name
        assert bool(family.bounds) == (family.kind == "histogram"), family.name
        assert list(family.bounds) == sorted(set(family.bounds)), family.name
        assert "le" not in family.labels
    for table in (MASTER, DRS, EDGE):
        assert len({family.name for family in table}) == len(table)
