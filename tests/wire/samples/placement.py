"""What masters tell each other for placement, and what operators ask."""

from agent.wire import placement as p
from agent.wire.base import Message
from agent.wire.messages import Slo

UNIT = p.UnitName("processor", "comfort")
FACTS = p.PlacementFacts(
    "iad1",
    1_763_900_000,
    17,
    5.0,
    cores=4,
    mode="draining",
    compute=3.5,
    storage_bytes=4e9,
    most_processors=32,
    opening_cost=0.25,
    topics=(
        p.TopicFacts(
            "comfort",
            (p.Source("iad1", 2.5), p.Source("iad2", 0.5)),
            "comfort_index",
            cpu_ms=0.75,
            latency_ms=41.5,
            state_bytes=18_000.0,
            slo=Slo(90.0, 1_000.0),
        ),
        p.TopicFacts("notes"),
    ),
    listeners=(p.Listeners("comfort", 3),),
    homes=(
        p.HomeFacts("n1", {"iad1": 0.5, "iad2": 2.25}, 1.5, {"comfort": 0.5}, ("notes",)),
        p.HomeFacts("n2", {"iad1": 0.5}),
    ),
    delays=(p.Delay("iad2", 1.25, 2.5, 0.5),),
    pins=(p.PinnedUnit(UNIT, "iad2"),),
    wants=True,
)
SAMPLES: dict[str, Message] = {
    "placement_facts": FACTS,
    "placement_facts_bare": p.PlacementFacts("iad2", 1_763_900_001, 0, 60.0),
    "placement_echo": p.PlacementEcho(1_763_900_000, 17),
    "placement_facts_peers": p.PlacementFacts(
        "iad1",
        1_763_900_002,
        1,
        5.0,
        topics=(p.TopicFacts("comfort", peers=(p.PeerRate("notes", 0.5, "iad2"),)),),
        homes=(p.HomeFacts("n1", {"iad1": 0.5, "iad2": 2.25}, exchanges=(p.Source("iad2", 4.0),)),),
    ),
    "ask_grant": p.AskGrant(
        "iad1", 1_763_900_000, 3, UNIT, "iad2", "keep", (p.UnitName("processor", "notes"),), 5
    ),
    "grant_told": p.GrantTold("iad2", 1_763_900_000, 3, "ask", granted=True, token=5, facts=FACTS),
    "grant_told_refused": p.GrantTold(
        "iad2", 1_763_900_000, 3, "keep", granted=False, message="processor notes is moving"
    ),
    "placement_echo_short": p.PlacementEcho(1_763_900_000, 17, short=True),
    "same_facts": p.SameFacts("iad1", 1_763_900_000, 18, 5.0, 17),
    "show_placement": p.ShowPlacement("s"),
    "pin_unit": p.PinUnit("p", UNIT, "iad2"),
    "pin_unit_no_more": p.PinUnit("p", UNIT),
    "set_placement_mode": p.SetPlacementMode("f", "iad1", "frozen"),
    "apply_plan": p.ApplyPlan("a", (p.PlannedMove(UNIT, "iad1", "iad2", 0.125),)),
    "placement_report": p.PlacementReport(
        "s",
        ok=True,
        iad="iad1",
        known=(
            p.KnownFacts(FACTS, 0.0),
            p.KnownFacts(p.PlacementFacts("iad2", 1_763_900_001, 0, 60.0), 190.5, silent=True),
        ),
        moves=(p.MoveTold(UNIT, "iad1", "iad2", "plan", "settled", 4.5),),
        move_cost=0.01,
    ),
    "placement_report_costs": p.PlacementReport(
        "s",
        ok=True,
        iad="iad1",
        moves=(p.MoveTold(UNIT, "iad1", "iad2", "drift", "settled", 4.5, gain=0.25),),
        costs=(p.CostAt(60.0, None), p.CostAt(30.0, 1.5), p.CostAt(0.0, 1.25)),
    ),
    "placement_report_refused": p.PlacementReport(
        "a", ok=False, iad="iad1", message="there is no master 'iad9': known are iad1, iad2"
    ),
}
