"""Which hosts are meant: against a naive oracle, and what is said where none is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.inventory.parties import hosts
from fleet.inventory.selection import SelectionError, one_host, select
from tests.fleet.inventory.inventories import ANY, PLAIN, read

FLEET = read(PLAIN)
PATTERNS = st.sampled_from(
    ["a/*", "*", "n*", "n1", "*/n?", "b/master", "master", "[ab]/n1", "x*/a", "zz", "!n1", "!*/n2"]
)


def chosen(**options: object) -> list[str]:
    return [host.name for host in select(FLEET, **options)]  # type: ignore[arg-type]


def naive(pattern: str, iad: str, own: str) -> bool:
    """The pattern as a regular expression for each side of the slash."""

    def side(glob: str, name: str) -> bool:
        expression = re.escape(glob).replace(r"\*", ".*").replace(r"\?", ".")
        return re.fullmatch(expression.replace(r"\[", "[").replace(r"\]", "]"), name) is not None

    of_iad, slash, of_own = pattern.rpartition("/")
    return side(of_own, own) and side(of_iad if slash else "*", iad)


@given(
    ANY,
    st.lists(st.sampled_from(["a", "b", "n1"]), max_size=2),
    st.lists(st.sampled_from(["a", "b", "n1"]), max_size=2),
    st.lists(PATTERNS, max_size=3),
)
def test_the_hosts_are_those_of_a_naive_search(fleet, iads, groups, patterns):
    expected = []
    matched = set()
    for host in hosts(fleet):
        own = host.node.name if host.node else "master"
        in_groups = host.node is not None and any(g in host.node.groups for g in groups)
        found = (not iads or host.iad.name in iads) and (not groups or in_groups)
        hits = {p for p in patterns if naive(p.removeprefix("!"), host.iad.name, own)}
        matched |= {p for p in hits if found or p.startswith("!")}
        wanted = [p for p in patterns if not p.startswith("!")]
        found = found and (not wanted or any(p in hits for p in wanted))
        if found and not any(p in hits for p in patterns if p.startswith("!")):
            expected.append(host)
    known = all(name in [iad.name for iad in fleet.iad] for name in iads)
    known = known and all(name in [group.name for group in fleet.group] for name in groups)
    if not expected or not known or matched != set(patterns):
        with pytest.raises(SelectionError) as refused:
            select(fleet, iads=iads, groups=groups, limit=",".join(patterns))
        assert "\n" not in str(refused.value)
    else:
        assert select(fleet, iads=iads, groups=groups, limit=",".join(patterns)) == expected


def test_everything_is_meant_unless_something_is_said():
    everybody = ["iad1/master", "iad1/n1", "iad1/n2", "iad2/master", "iad2/n1"]
    assert chosen() == everybody
    assert chosen(limit="*") == everybody
    assert chosen(limit=" !iad1/* , !master ") == ["iad2/n1"]
    assert chosen(iads=["iad2"], limit="n1") == ["iad2/n1"]
    assert chosen(groups=["canary"]) == ["iad1/n1"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"iads": ["iad3"]}, "there is no IAD iad3; did you mean iad"),
        ({"iads": ["x"]}, "there is no IAD x; known: iad1, iad2"),
        ({"groups": ["cannary"]}, "there is no group cannary; did you mean canary?"),
        ({"limit": "iad1/n9"}, "--limit iad1/n9 matches no host; did you mean iad1/n"),
        ({"limit": "iad1"}, "did you mean iad1/*, which is all of the IAD?"),
        ({"limit": "!n9"}, "--limit n9 matches no host"),
        ({"limit": "iad1/n1", "iads": ["iad2"]}, "matches no host of those chosen otherwise"),
        ({"limit": "n1,"}, "has an empty pattern"),
        ({"limit": "!"}, "has an empty pattern"),
        ({"limit": "!*"}, "no host is left"),
    ],
)
def test_what_means_no_host_is_told_with_the_nearest_name(options, says):
    with pytest.raises(SelectionError) as refused:
        select(FLEET, **options)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_one_host_by_its_name():
    assert one_host(FLEET, "iad2/master").party == ("master", "iad2")
    assert one_host(FLEET, "iad1/n2").party == ("node", "iad1/n2")
    with pytest.raises(SelectionError, match="did you mean iad2/master"):
        one_host(FLEET, "iad2/mster")
