"""Clones of devices."""

from agent.wire import clones as c
from agent.wire.base import Message
from agent.wire.messages import Slo
from agent.wire.predicates import Predicate
from agent.wire.topics import Clone, CreateTopic, Topic

CLONE = c.CloneOf(
    "iad4/n3",
    "smooth",
    parameters={"window_s": 60.0},
    every_s=5.0,
    channels=("temperature",),
    service="climate",
    peers=("iad1/n2",),
    peers_where="temperature > 20",
    leaves=True,
    slo=Slo(90.0, 1_000.0),
    limits={"memory_bytes": 2.0**27},
    areas=("b1/f4/r3",),
)
NAME = "clone-0123456789abcdef"
DIGEST = "0123456789abcdef" * 4
SAMPLES: dict[str, Message] = {
    "create_topic_clone": CreateTopic(
        "c",
        Topic(
            NAME,
            processor="smooth",
            clone=Clone(
                "iad4",
                leaves=True,
                peers=("clone-fedcba9876543210",),
                peers_where=((Predicate("temperature", ">", (20.0,)),),),
            ),
        ),
    ),
    "create_topic_clone_bare": CreateTopic(
        "c", Topic("clone.0123456789abcdef", processor="smooth", clone=Clone("iad4"))
    ),
    "create_clone": c.CreateClone("c", CLONE),
    "create_clone_bare": c.CreateClone("c", c.CloneOf("iad4/n3", "smooth")),
    "remove_clone": c.RemoveClone("r", "iad4/n3"),
    "list_clones": c.ListClones("l"),
    "clone_report": c.CloneReport(
        "l",
        ok=True,
        clones=(
            c.CloneStatus(
                CLONE,
                NAME,
                "open",
                "iad1",
                rounds=120,
                rounds_failed=3,
                outputs=117,
                output={"mean": 21.5, "feels": "some"},
                output_ms=1_700_000_000_000,
            ),
            c.CloneStatus(
                c.CloneOf("iad4/n4", "smooth"), NAME, "open", trouble="no area had a reading"
            ),
        ),
    ),
    "clone_report_waiting": c.CloneReport(
        "l",
        ok=True,
        clones=(c.CloneStatus(c.CloneOf("iad4/n4", "smooth"), NAME, "open", waiting=17),),
    ),
    "clone_report_refused": c.CloneReport("c", ok=False, message="no node n3 is known here"),
    "resolve_clones": c.ResolveClones("clone.1", "iad4", (DIGEST,)),
    "clones_resolved": c.ClonesResolved("clone.1", (NAME, "")),
    "end_clone": c.EndClone("clone.2", "iad4", NAME),
    "clone_ended": c.CloneEnded("clone.2", NAME, ok=True),
    "clone_ended_moved": c.CloneEnded("clone.2", NAME, ok=False, moved="iad2"),
}
