"""A unit on its way from one master to another, and what an operator asks about it."""

from agent.wire import handover as h
from agent.wire.base import Message

CARRIED: dict[str, h.HandoverMessage] = {
    "ask": h.MoveAsk(7_340_033, 5.0),
    "grant": h.MoveGrant(7_340_033),
    "refuse": h.MoveRefuse(7_340_033, "it is here already"),
    "copy": h.MoveState(7_340_033, b"\x93\x01\x02\x03"),
    "final": h.MoveState(7_340_033, b"\x93\x01\x02", 4, 1, 2),
    "ready": h.MoveReady(7_340_033),
    "took": h.MoveTook(4),
    "settled": h.MoveSettled(4),
    "reclaimed": h.MoveReclaimed(4),
    "abort": h.MoveAbort(7_340_033),
    "late": h.MoveLate(12, b"\x91\x07"),
    "kept": h.MoveKept(12, 1),
    "standby_ask": h.StandbyAsk(4, b"\x92\x01\x02"),
    "standby_ready": h.StandbyReady(2),
    "standby_refuse": h.StandbyRefuse("its pool has less than three masters"),
    "standby_update": h.StandbyUpdate(7_340_034, 4, 3, 7_340_033, 2, b"\x95\x01\x02", 1, 2),
    "standby_kept": h.StandbyKept(3, 7_340_034),
    "standby_dismiss": h.StandbyDismiss(3, 7_340_035, 4, "f1"),
    "standby_dismissed": h.StandbyDismissed(3, 7_340_035),
    "standby_took": h.StandbyTook(1_048_576),
    "standby_took_proof": h.StandbyTook(3, "9f3c1e0b7a5d42688c90d1f6e4b7a352"),
}
SAMPLES: dict[str, Message] = {
    **{
        f"handover_{name}": h.Handover("handover.7340033", "iad1", "processor", "comfort", message)
        for name, message in CARRIED.items()
    },
    "move_unit": h.MoveUnit("m", "processor", "comfort", "iad2"),
    "move_unit_pinned": h.MoveUnit("m", "home", "n1", "iad2", "pin"),
    "list_moves": h.ListMoves("l"),
    "move_report": h.MoveReport(
        "l",
        ok=True,
        moves=(
            h.UnitMove(
                "processor",
                "comfort",
                "iad1",
                "iad2",
                "plan",
                "settled",
                1_377_298_800_000,
                pause_ms=8.25,
                idle_ms=6.5,
            ),
            h.UnitMove(
                "home",
                "n1",
                "iad1",
                "iad3",
                "drift",
                "aborted",
                1_377_298_900_000,
                trouble="no answer in time",
            ),
        ),
    ),
    "move_report_refused": h.MoveReport("m", ok=False, message="no link to iad9"),
}
