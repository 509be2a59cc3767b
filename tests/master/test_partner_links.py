"""Links that come and go with pools, and follow a change of keys."""

import pytest

from agent.master.partner_links import KEPT_S, LOOK_S, MAX_LINKS, PartnerLinks
from agent.runtime.console import operator_log
from agent.wire.directory import Account

OLD, NEW, NEWER = "o" * 40, "n" * 40, "w" * 40


class Peers:
    def __init__(self):
        self.links = {}
        self.unreachable = ()

    def connect(self, iad, address, keys):
        if address == "nowhere":
            raise OSError("cannot connect to nowhere")
        self.links[iad] = (address, tuple(keys))

    def drop(self, iad):
        del self.links[iad]


class Reactor:
    now = 0.0

    def clock(self):
        return self.now

    def add_timer(self, part):
        pass


@pytest.fixture
def reactor():
    return Reactor()


@pytest.fixture
def peers():
    return Peers()


@pytest.fixture
def needed():
    return {"iad2"}


@pytest.fixture
def links(reactor, peers, needed):
    made = PartnerLinks(
        reactor, peers, fixed={"iad9"}, needed=lambda: needed, say=operator_log("iad1")
    )
    peers.connect("iad9", "at iad9", (OLD,))
    for iad in ("iad2", "iad3"):
        made.connect(iad, f"at {iad}", (OLD,))
    return made


def test_a_link_closes_when_nobody_has_needed_it_for_long(links, peers, needed):
    links.tick(KEPT_S)
    assert peers.links.keys() == {"iad2", "iad3", "iad9"}
    links.tick(KEPT_S + LOOK_S)
    assert peers.links.keys() == {"iad2", "iad9"}
    needed.clear()
    links.tick(2 * KEPT_S)
    assert "iad2" in peers.links
    links.tick(2 * KEPT_S + 2 * LOOK_S)
    assert peers.links.keys() == {"iad9"}


def test_no_links_no_wakes(reactor, peers):
    links = PartnerLinks(reactor, peers, fixed=(), needed=tuple, say=operator_log("iad1"))
    assert links.next_due is None
    links.connect("iad2", "x", ())
    assert links.next_due == LOOK_S
    links.tick(KEPT_S + LOOK_S)
    assert links.next_due is None


def test_a_standing_connection_outlives_a_second_key(links, peers):
    links.accounts_changed([Account("iad2", "iad", (NEW, OLD))])
    assert peers.links["iad2"] == ("at iad2", (OLD,))
    peers.unreachable = ("iad2",)
    links.tick(LOOK_S)
    assert peers.links["iad2"] == ("at iad2", (NEW, OLD))


def test_a_key_that_is_gone_is_replaced_at_once(links, peers):
    links.accounts_changed([Account("iad2", "iad", (NEW, NEWER)), Account("iad7", "iad", (NEW,))])
    assert peers.links["iad2"] == ("at iad2", (NEW, NEWER))
    assert peers.links["iad3"] == ("at iad3", (OLD,))


def test_the_directory_knows_keys_better_than_an_old_pool(links, peers):
    links.accounts_changed([Account("iad4", "iad", (NEW,))])
    links.connect("iad4", "at iad4", (OLD,))
    assert peers.links["iad4"] == ("at iad4", (NEW,))


def test_an_address_that_is_none_costs_a_line(links, peers, capsys):
    links.connect("iad5", "nowhere", ())
    assert capsys.readouterr().err == "iad1: no link to iad5: cannot connect to nowhere\n"


def test_a_pool_takes_no_link_away_from_others(links, peers):
    links.connect("iad9", "elsewhere", (NEW,))
    links.connect("iad2", "elsewhere", (OLD,))
    assert peers.links["iad9"] == ("at iad9", (OLD,))
    assert peers.links["iad2"] == ("at iad2", (OLD,))
    peers.unreachable = ("iad2",)
    links.connect("iad2", "elsewhere", (OLD,))
    assert peers.links["iad2"] == ("elsewhere", (OLD,))


def test_pools_of_very_many_take_a_bounded_number_of_links(links, peers, needed, capsys):
    for number in range(MAX_LINKS + 10):
        links.connect(f"x{number}", "somewhere", ())
    assert len(peers.links) == MAX_LINKS + len({"iad9"})
    assert capsys.readouterr().err == (
        f"iad1: there are links to {MAX_LINKS} IADs; no more are made\n"
    )
    needed.clear()
    links.tick(KEPT_S + LOOK_S)
    links.connect("late", "somewhere", ())
    assert peers.links.keys() == {"iad9", "late"}
