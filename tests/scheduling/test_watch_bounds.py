"""Whose a watch is, how much watches may read, and what a restart keeps of them."""

import msgspec
import pytest

from agent.scheduling.watches import register
from agent.scheduling.watches.events import (
    CancelArrived,
    ClientGone,
    Cursor,
    ForgetWatch,
    Resumed,
    RoundsDue,
    SavedWatch,
    SaveWatch,
    SendWatch,
    WatchArrived,
)
from agent.scheduling.watches.register import LOOK_S
from agent.scheduling.watches.rounds import MAX_AHEAD
from agent.scheduling.watches.scheduler import EXPIRE_S, FOUND_S, LAG_S, SETTLE_S
from agent.wire.principals import Sender
from agent.wire.watches import Cancel, Watching
from tests.scheduling.watch_rig import ALICE, BOB, T0, Rig, watch, windows

LONG = {"window_s": 10_800.0, "form": "series", "interval_s": 60.0}


def test_without_keys_all_connections_of_a_host_read_what_one_client_may():
    rig = Rig(most_readings_per_s=600.0)
    opened = []
    for number in range(9):
        sender = Sender("anyone", f"c{number}", host="127.0.0.1")
        opened.append(rig.watch(watch(id=f"w{number}", **LONG), sender, f"c{number}").state)
    assert opened == ["open"] * 3 + ["refused"] * 6
    assert rig.sent[-1].message.startswith("watches from your host would read 724 readings/s of")
    # Another host's, and a key's, have their own.
    for sender in (Sender("anyone", "c9", host="127.0.0.2"), Sender("anyone", "ca"), ALICE):
        assert rig.watch(watch(id=f"w{sender.name}", **LONG), sender).state == "open"
    # One that comes over a new connection still counts once.
    again = Sender("anyone", "cb", host="127.0.0.1")
    assert rig.watch(watch(id="w1", after=0, **LONG), again).state == "open"
    assert rig.watch(watch(id="wb", **LONG), again).state == "refused"


def test_after_a_restart_all_watches_together_read_no_more_than_before():
    rooms = 0
    rig = Rig(most_readings_per_s=600.0, rooms=lambda _areas: rooms)
    names = [f"w{number}" for number in range(16)]
    for name in names:
        saved = SavedWatch(f"client{name}", round(T0 * 1e3), watch(id=name, **LONG))
        rig.scheduler.restore(saved, Cursor(), rig.now)
    # Of four rooms each, as is known when the nodes are back.
    rooms = 4
    said = [rig.watch(watch(id=name, **LONG), Sender("client", f"client{name}")) for name in names]
    refused = [reply for reply in said if reply.state == "refused"]
    assert 0 < len(refused) < 16
    assert all("all watches here read" in reply.message for reply in refused)
    # Whoever is refused keeps its watch, for when there is room.
    assert rig.scheduler.open_watches == 16
    first = Sender("client", "clientw0")
    rig.do(CancelArrived("link", first, Cancel("w0")))
    last = refused[-1].id
    assert rig.watch(watch(id=last, **LONG), Sender("client", f"client{last}")).state == "open"


@pytest.mark.parametrize(
    ("before", "after"),
    [(ALICE, ALICE), (Sender("anyone", "c1", host="::1"), Sender("anyone", "c2", host="::1"))],
)
def test_after_a_restart_what_was_kept_counts_towards_its_clients_share(before, after):
    rooms = 1
    rig = Rig(most_readings_per_s=600.0, most_watches=9, rooms=lambda _areas: rooms)
    for number in range(3):
        assert rig.watch(watch(id=f"w{number}", **LONG), before).state == "open"
    saved = [i.saved for i in rig.all if isinstance(i, SaveWatch)]
    rooms = 0  # the nodes are not back yet
    rig = Rig(most_readings_per_s=600.0, most_watches=9, rooms=lambda _areas: rooms)
    for each in saved:
        rig.scheduler.restore(each, Cursor(), rig.now)
    rig.scheduler.check_invariants()
    new = watch(id="new", **LONG)
    assert "would read 724 readings/s of 600" in rig.watch(new, after).message
    assert rig.watch(new, BOB).state == "open"
    for number in range(3):
        again = watch(id=f"w{number}", after=0, **LONG)
        assert rig.watch(again, after).state == "open"
    assert rig.watch(new, after).state == "refused"
    rig.do(CancelArrived("link", after, Cancel("w1")))
    assert rig.watch(new, after).state == "open"


def test_a_watch_that_an_earlier_version_kept_counts_once_its_client_is_back():
    rig = Rig(most_readings_per_s=600.0, most_watches=9)
    earlier = {"client": "alice", "start_ms": round(T0 * 1e3), "watch": watch(id="w0", **LONG)}
    body = msgspec.msgpack.encode(earlier)
    saved = msgspec.msgpack.decode(body, type=SavedWatch)
    rig.scheduler.restore(saved, Cursor(), rig.now)
    for number in range(1, 4):
        assert rig.watch(watch(id=f"w{number}", **LONG)).state == "open"
    assert rig.watch(watch(id="w0", after=0, **LONG)).state == "open"
    assert rig.watch(watch(id="w4", **LONG)).state == "refused"


def test_a_watch_belongs_to_the_key_that_opened_it():
    rig = Rig()
    rig.watch(watch())
    assert "no watch" in rig.watch(watch(after=0), BOB).message
    rig.do(CancelArrived("b", BOB, Cancel("w")))
    assert rig.scheduler.open_watches == 1
    rig.watch(watch(interval_s=9.0), BOB)
    assert rig.scheduler.open_watches == 2


def test_without_a_key_a_watch_follows_its_id():
    rig = Rig()
    rig.watch(watch(), Sender("anyone", "c1"), "c1")
    assert rig.watch(watch(after=0), Sender("anyone", "c2"), "c2").state == "open"


def test_a_client_has_so_many_watches_and_no_more():
    rig = Rig()
    for number in range(3):
        assert rig.watch(watch(id=f"w{number}")).state == "open"
    assert rig.watch(watch(id="w3")).message == "3 watches are open for you; cancel one"
    assert rig.watch(watch(id="w3"), BOB).state == "open"
    rig.do(CancelArrived("link", ALICE, Cancel("w1")))
    assert rig.watch(watch(id="w3")).state == "open"


def test_a_watch_of_which_nothing_is_heard_ends():
    rig = Rig()
    rig.watch(watch())
    rig.until(100.0)
    rig.watch(watch())
    rig.until(100.0 + EXPIRE_S + 2.0 - 0.001)
    assert rig.scheduler.open_watches == 1
    rig.until(100.0 + EXPIRE_S + 2.0)
    assert rig.scheduler.open_watches == 0
    assert rig.all[-1] == ForgetWatch(("alice", "w"))


def test_of_a_silent_client_is_found_out_whether_it_is_there():
    rig = Rig()
    rig.watch(watch("event", trigger="hot"))
    look_s = LOOK_S + 2.0
    rig.until(look_s - 0.001)
    assert len(rig.sent) == 1
    rig.until(look_s)
    assert rig.sent[1:] == [Watching("w", "open", 1)]
    rig.until(2 * look_s)
    assert len(rig.sent) == 3
    # Who acknowledges is there.
    rig.acknowledge(0)
    rig.until(3 * look_s - 0.001)
    assert len(rig.sent) == 3


def test_nothing_is_asked_for_a_client_that_is_gone():
    rig = Rig()
    rig.watch(watch("event", trigger="hot"))
    rig.until(1.0 + LAG_S)
    rig.answer()
    rig.do(ClientGone(("alice", "w"), "another link"))
    rig.until(2.0 + LAG_S)
    assert [a.query.id for a in rig.asked] == ["w.2"]
    rig.do(ClientGone(("alice", "w"), "link"))
    rig.answer()
    for looks in range(1, 9):
        rig.until(looks * (LOOK_S + 2.0) + FOUND_S / 2)
        assert len(rig.sent) == 1 + looks
        rig.do(ClientGone(("alice", "w"), "link"))
    rig.until(8 * (LOOK_S + 2.0) + FOUND_S)
    assert not rig.asked
    # It is back, on a new connection: what it missed is asked now.
    assert rig.watch(watch("event", trigger="hot", after=0), peer="new").state == "open"
    assert [a.query.id for a in rig.asked] == [f"w.{n}" for n in range(3, 3 + MAX_AHEAD)]


def test_a_socket_that_connects_again_gets_its_rounds():
    rig = Rig()
    rig.watch(watch())
    rig.do(ClientGone(("alice", "w"), "link"))
    rig.until(LOOK_S + 2.0)
    assert not rig.asked
    rig.until(LOOK_S + 2.0 + FOUND_S)
    assert len(rig.asked) == MAX_AHEAD
    rig.do(ClientGone(("alice", "w"), "link"))
    for _ in range(MAX_AHEAD):
        rig.answer()
    assert not rig.asked
    # It says itself that it is there.
    rig.acknowledge(0)
    rig.acknowledge(3)
    assert [a.query.id for a in rig.asked] == ["w.9", "w.10", "w.11"]


def test_a_cancelled_watch_is_gone_and_late_answers_are_nobodys():
    rig = Rig()
    rig.watch(watch())
    rig.until(1.0 + LAG_S)
    rig.do(CancelArrived("link", ALICE, Cancel("w")))
    assert rig.sent[-1].state == "cancelled"
    assert rig.answer() == []
    assert rig.scheduler.next_tick is None
    rig.do(CancelArrived("link", ALICE, Cancel("w")))
    assert rig.sent[-1].state == "cancelled"


def test_a_watch_is_on_disk_before_its_client_is_told():
    rig = Rig()
    done = rig.do(WatchArrived("link", ALICE, watch()))
    assert [type(i) for i in done] == [SaveWatch, SendWatch]
    assert done[0].saved == SavedWatch(
        "alice", int(T0 * 1000), watch(), done[0].saved.load, "alice"
    )
    assert done[0].saved.load > 0


def test_what_was_on_disk_waits_for_its_client():
    rig = Rig()
    rig.scheduler.restore(SavedWatch("alice", int(T0 * 1000), watch()), Cursor(4, 4), rig.now)
    rig.until(30.0)
    assert not rig.asked
    rig.acknowledge(4)
    assert rig.watch(watch(after=5)) == Watching("w", "open", 6)
    assert windows(rig.asked)[0] == (5000, 6000)


def test_after_a_restart_rounds_wait_for_the_nodes():
    rig = Rig()
    rig.until(20.0)
    rig.scheduler.restore(SavedWatch("alice", int(T0 * 1000), watch()), Cursor(4, 4), rig.now)
    assert rig.watch(watch(after=5)) == Watching("w", "open", 6)
    rig.until(20.0 + SETTLE_S - 0.1)
    assert not rig.asked
    rig.until(20.0 + SETTLE_S)
    assert windows(rig.asked)[0] == (5000, 6000)


def test_after_a_stop_rounds_wait_for_the_nodes():
    rig = Rig()
    rig.watch(watch())
    rig.now = T0 + 20.0
    rig.do(Resumed())
    rig.do(RoundsDue())
    rig.until(20.0 + SETTLE_S - 0.1)
    assert not rig.asked
    rig.until(20.0 + SETTLE_S)
    assert windows(rig.asked)[:2] == [(0, 1000), (1000, 2000)]


def test_only_clients_watch_and_another_partys_equal_name_is_not_theirs():
    rig = Rig()
    rig.watch(watch())
    iad = Sender("iad", "alice")
    assert "a key of role iad may not query" in rig.watch(watch(after=0), iad, "iad").message
    rig.do(CancelArrived("iad", iad, Cancel("w")))
    assert rig.scheduler.open_watches == 1
    some = Sender("client", "carol", ("climate",))
    assert "carol may not query service default" in rig.watch(watch(), some).message


def test_all_watches_together_have_so_many_areas_and_no_more(monkeypatch):
    monkeypatch.setattr(register, "MAX_WATCHED_AREAS", 4)
    rig = Rig()
    assert rig.watch(watch(areas=("b1", "b2", "b3"))).state == "open"
    assert "3 areas are watched here" in rig.watch(watch(id="v", areas=("b1", "b2"))).message
    rig.do(CancelArrived("link", ALICE, Cancel("w")))
    assert rig.watch(watch(id="v", areas=("b1", "b2"))).state == "open"


def test_what_watches_read_again_and_again_is_bounded_for_a_client_and_in_all():
    rig = Rig(most_watches=100, most_readings_per_s=10_000.0, rooms=lambda areas: 32 * len(areas))
    long = {"window_s": 10_800.0, "form": "series"}
    refused = rig.watch(watch(id="w0", interval_s=0.05, **long))
    assert refused.state == "refused"
    assert refused.message.startswith("your watches would read 6,918,400 readings/s of 10,000:")
    # A minute between its rounds is 5,766 a second.
    assert rig.watch(watch(id="w1", interval_s=60.0, **long)).state == "open"
    assert rig.watch(watch(id="w2", interval_s=60.0, **long)).state == "refused"
    # What each reading is read for once, or at the nodes, costs little.
    assert rig.watch(watch("streaming", id="w3", interval_s=5.0, form="series")).state == "open"
    assert rig.watch(watch(id="w4", interval_s=1.0, form="aggregate")).state == "open"
    for number in range(6):
        name = f"c{number}"
        sent = rig.watch(
            watch(id=f"x{number}", interval_s=60.0, **long), sender=Sender("client", name)
        )
        assert sent.state == ("open" if number < 5 else "refused")
    assert "all watches here read" in sent.message
    # Who ends one has room for another.
    rig.do(CancelArrived("link", ALICE, Cancel("w1")))
    assert rig.watch(watch(id="w5", interval_s=60.0, **long)).state == "open"
