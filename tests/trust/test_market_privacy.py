"""What crosses an IAD's border while services are set up, changed and used, in the bytes."""

import re
import signal

import pytest

from agent.wire.messages import Slo
from agent.wire.operator import AddIad, DropService, RemoveIad
from tests.trust.border import ALLOWED, TO_DIRECTORY, decoded, keys_of, texts_of
from tests.trust.market import LEASE_S, Market, ask, create
from tests.trust.rig import IADS, NODES, ROOMS
from tests.trust.tap import Tap

# In iad2, and in the room of iad1.
SECOND = "pi-avocet"


@pytest.fixture
def tapped(tmp_path):
    """A market without keys, its masters' taps by IAD, and that of the registration service."""
    market = Market(tmp_path, keyed=False)
    taps = {iad: Tap(market.sockets[iad]["public"]) for iad in IADS}
    drs = Tap(market.drs)
    market.via = {iad: tap.address for iad, tap in taps.items()}
    market.drs_via = drs.address
    market.offered["iad2"].append(ROOMS["iad1"])
    # iad2 can promise what iad1 cannot.
    market.cold_start_ms = {"iad1": 1_000.0, "iad2": 1.0}
    try:
        market.start()
        market.start_node("iad2", SECOND, area=ROOMS["iad1"])
        market.wait_until("iad2", lambda s: [n.state for n in s.nodes] == ["live"] * 2)
        yield market, taps, drs
    finally:
        market.processes[SECOND].send_signal(signal.SIGCONT)
        market.stop()
        for tap in (*taps.values(), drs):
            tap.close()


def change(market, wanted):
    report = market.ask_service("iad1", wanted)
    assert report.ok, report
    return report


def answered(market, service):
    for iad in IADS:
        with market.client(iad) as client:
            answer = ask(client, service)
            assert answer.status == "complete", answer


def trade(market):
    """Every message of the market: accepted, countered, refused, released, joined, left."""
    # iad1 has to refuse, so that iad2's acceptance is given back.
    hard = create("hard", slo=Slo(99.0, 300.0), fewest=2)
    assert not market.ask_service("iad1", hard).ok
    # iad1 would keep six seconds at that rate, and nothing like a hundredth of a millisecond.
    for latency_ms, rate_per_s in ((3_000.0, 1.0), (0.01, 50.0)):
        never = create("never", slo=Slo(99.0, latency_ms), rate_per_s=rate_per_s, fewest=2)
        assert not market.ask_service("iad2", never).ok
    change(market, create("climate", rate_per_s=1.0))
    answered(market, "climate")
    change(market, RemoveIad("r", "climate", "iad2"))
    with market.client("iad1") as client:
        assert ask(client).status == "complete"
    change(market, AddIad("a", "climate", "iad2"))
    answered(market, "climate")
    change(market, DropService("d", "climate"))


def cancel(market):
    """Two IADs cover a room, and the second stands still."""
    change(market, create("pair", rate_per_s=1.0, redundant=True))
    market.processes[SECOND].send_signal(signal.SIGSTOP)
    with market.client("iad1") as client:
        for _ in range(4):
            ask(client, "pair", (ROOMS["iad1"],))


def test_nothing_about_nodes_is_in_the_bytes_of_the_market(tapped):
    market, taps, drs = tapped
    trade(market)
    cancel(market)
    market.wait_until("iad1", lambda _status: "renew" in decoded([drs]))
    between = decoded(taps.values())
    assert between.keys() == ALLOWED.keys()
    assert {offer["verdict"] for offer in between["offer"]} == {"accepted", "countered", "refused"}
    told = decoded([drs])
    assert {"register", "renew", "discover", "list_accounts"} <= told.keys()
    replies = {"registered", "found", "accounts", "denied"}
    assert told.keys() <= TO_DIRECTORY.keys() | replies

    check_names_of_fields(between, ALLOWED)
    check_names_of_fields({k: told[k] for k in told.keys() - replies}, TO_DIRECTORY)
    for register in told["register"]:
        assert (register["address"], register["lease_s"]) == (market.via[register["iad"]], LEASE_S)
        assert {offering["capability"] for offering in register["offerings"]} == {"temperature"}
    check_bytes(market, b"".join(tap.bytes for tap in (*taps.values(), drs)))
    for texts in (texts_of(m) for kinds in (between, told) for ms in kinds.values() for m in ms):
        for text in texts:
            assert not re.search(r"\d+ (node|pod|subtask)|queue|\bpi-", text), text


def check_names_of_fields(kinds, allowed):
    for kind, messages in kinds.items():
        for message in messages:
            assert keys_of(message) <= allowed[kind], kind


def check_bytes(market, seen):
    for name in (*NODES.values(), SECOND):
        assert name.encode() not in seen
    # Not even where a master really listens: it advertises another address.
    for sockets in market.sockets.values():
        for address in sockets.values():
            assert address.rpartition(":")[2].encode() not in seen
    advertised = {address.removeprefix("tcp://").encode() for address in market.via.values()}
    assert set(re.findall(rb"\d+\.\d+\.\d+\.\d+:\d+", seen)) == advertised
