"""Links that come and go with pools, and follow a change of keys."""

import pytest

from agent.master.requests.partner_links import (
    KEPT_S,
    LOOK_S,
    MAX_LINKS,
    MOST_LINES,
    TRY_S,
    PartnerLinks,
)
from agent.runtime.console import operator_log
from agent.wire.directory import Account

OLD, NEW, NEWER, EVIL = "o" * 40, "n" * 40, "w" * 40, "e" * 40


class Peers:
    def __init__(self):
        self.links = {}
        self.owners = {}
        self.dialled = set()
        self.unreachable = ()

    def connect(self, iad, address, keys, *, owner=""):
        if address == "nowhere":
            raise OSError("cannot connect to nowhere")
        self.links[iad] = (address, tuple(keys))
        self.dialled.add(address)
        self.owners[iad] = owner

    def connected(self, iad):
        return iad in self.links and iad not in self.unreachable

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
    return {"iad2": {""}}


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
    links = PartnerLinks(reactor, peers, fixed=(), needed=dict, say=operator_log("iad1"))
    assert links.next_due is None
    links.connect("iad2", "x", ())
    assert links.next_due == LOOK_S
    links.tick(KEPT_S + LOOK_S)
    assert links.next_due is None


def test_a_pool_of_addresses_that_are_none_is_told_at_a_limited_rate(reactor, peers):
    said = []
    links = PartnerLinks(reactor, peers, fixed=(), needed=dict, say=said.append)
    for turn in range(10):
        reactor.now = 0.1 * turn
        for member in range(50):
            links.connect(f"x{member}", "nowhere", (OLD,), "iad2")
    assert said[0] == "no link to a pool's member: x0: cannot connect to nowhere\n"
    assert len(said) == MOST_LINES
    reactor.now = LOOK_S
    links.tick(LOOK_S)
    assert said[MOST_LINES:] == ["no link to a pool's member: 484 more of these\n"]


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
    said = capsys.readouterr().err
    assert said == "iad1: no link to a pool's member: iad5: cannot connect to nowhere\n"


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


class Parties:
    """An allow-list."""

    def __init__(self):
        self.party_listeners = []
        self.iads = {}
        self.owners = {"", "honest", "evil"}

    def iad_keys(self, iad):
        return self.iads.get(iad, ())

    def may_vouch(self, owner):
        return owner in self.owners

    def changed(self):
        for listener in self.party_listeners:
            listener()


@pytest.fixture
def parties():
    return Parties()


@pytest.fixture
def market(reactor, peers, needed, parties):
    """Links for the pools of owners, whom the allow-list knows."""
    say = operator_log("iad1")
    needed["iad2"] = {"honest", "evil"}
    return PartnerLinks(reactor, peers, fixed=(), needed=lambda: needed, say=say, parties=parties)


def pass_time(reactor, links, seconds):
    """Tick when it is due until then."""
    ends_s = reactor.now + seconds
    while links.next_due is not None and links.next_due <= ends_s:
        reactor.now = links.next_due
        links.tick(reactor.now)
    reactor.now = ends_s


@pytest.mark.parametrize("source", ["file", "directory"])
def test_no_pool_gives_another_key_to_a_name_that_is_known(reactor, peers, parties, market, source):
    if source == "file":
        parties.iads = {"iad2": (NEW,)}
        market.accounts_changed([Account("iad2", "iad", (NEWER,))])
    else:
        market.accounts_changed([Account("iad2", "iad", (NEW,))])
    market.connect("iad2", "at evil", (EVIL,), "evil")
    assert peers.links["iad2"] == ("at evil", (NEW,))
    # Nobody with this key is there.
    peers.unreachable = ("iad2",)
    market.connect("iad2", "at iad2", (NEW,), "honest")
    pass_time(reactor, market, TRY_S)
    assert peers.links["iad2"] == ("at iad2", (NEW,))
    peers.unreachable = ()
    market.connect("iad2", "at evil", (EVIL,), "evil")
    pass_time(reactor, market, 2 * LOOK_S)
    assert peers.links["iad2"] == ("at iad2", (NEW,))


def test_an_iad_that_restarts_is_found_again_whatever_others_say_meanwhile(
    reactor, peers, parties, market
):
    parties.iads = {"iad2": (NEW,)}
    market.connect("iad2", "at iad2", (NEW,), "honest")
    pass_time(reactor, market, LOOK_S)
    peers.unreachable = ("iad2",)
    tried = set()
    for second in range(int(4 * TRY_S)):
        market.connect("iad2", f"at evil {second}", (EVIL,), "evil")
        pass_time(reactor, market, 1.0)
        tried.add(peers.links["iad2"][0])
        assert peers.links["iad2"][1] == (NEW,)
        if second >= 2 * TRY_S and "at iad2" in peers.links["iad2"]:
            break
    else:
        raise AssertionError(tried)


def test_the_files_key_replaces_a_pools_as_soon_as_it_is_there(reactor, peers, parties, market):
    market.connect("iad2", "at evil", (EVIL,), "evil")
    assert peers.links["iad2"] == ("at evil", (EVIL,))
    parties.iads = {"iad2": (NEW,)}
    parties.changed()
    pass_time(reactor, market, 0.0)
    assert peers.links["iad2"][1] == (NEW,)


def test_of_a_name_that_only_pools_know_the_first_stays_whoever_is_away(reactor, peers, market):
    market.connect("iad2", "at iad2", (NEW,), "honest")
    peers.unreachable = ("iad2",)
    market.connect("iad2", "at evil", (EVIL,), "evil")
    market.connect("iad2", "at evil", (EVIL,), "unknown")
    pass_time(reactor, market, 10 * LOOK_S)
    assert peers.links["iad2"] == ("at iad2", (NEW,))
    assert peers.dialled == {"at iad2"}
    # This master's own word, which comes from its directory, is more.
    market.connect("iad2", "elsewhere", (NEWER,))
    assert peers.links["iad2"] == ("elsewhere", (NEWER,))


def test_what_a_pool_said_counts_while_its_owner_may_vouch_and_names_it(
    reactor, peers, parties, needed, market
):
    market.connect("iad2", "at evil", (EVIL,), "evil")
    market.connect("iad2", "at iad2", (NEW,), "honest")
    assert (peers.links["iad2"], peers.owners["iad2"]) == (("at evil", (EVIL,)), "evil")
    parties.owners.remove("evil")
    parties.changed()
    pass_time(reactor, market, 0.0)
    assert (peers.links["iad2"], peers.owners["iad2"]) == (("at iad2", (NEW,)), "honest")
    # Without any, it stays as it is, and the guard knows its owner.
    parties.owners.remove("honest")
    parties.changed()
    pass_time(reactor, market, 0.0)
    assert (peers.links["iad2"], peers.owners["iad2"]) == (("at iad2", (NEW,)), "honest")
    parties.owners |= {"evil", "honest"}
    needed["iad2"] = {"evil"}
    pass_time(reactor, market, LOOK_S)
    assert (peers.links["iad2"], peers.owners["iad2"]) == (("at evil", (EVIL,)), "evil")


def test_one_owners_pools_leave_as_many_links_as_they_have(peers, market, needed, capsys):
    for owner, links in (("evil", MAX_LINKS // 2), ("honest", MAX_LINKS // 4)):
        before = len(peers.links)
        for number in range(MAX_LINKS):
            market.connect(f"{owner}-{number}", "somewhere", (OLD,), owner)
        assert len(peers.links) - before == links
    assert capsys.readouterr().err == (
        "iad1: the pools of evil have 400 links, as many as they leave to others\n"
    )
    # Its own come first.
    for number in range(MAX_LINKS):
        market.connect(f"own-{number}", "somewhere", (OLD,))
    assert len(peers.links) == MAX_LINKS


def test_this_masters_own_word_about_an_address_counts_at_once(reactor, peers, parties, market):
    parties.iads = {"iad2": (NEW,)}
    market.connect("iad2", "at evil", (EVIL,), "evil")
    peers.unreachable = ("iad2",)
    market.connect("iad2", "at honest", (NEW,), "honest")
    assert peers.links["iad2"] == ("at evil", (NEW,)), "for as long as a handshake takes"
    market.connect("iad2", "at iad2", (NEW,))
    assert peers.links["iad2"] == ("at iad2", (NEW,))
