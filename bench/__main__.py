"""Run all benchmarks, or those named: ``python -m bench [name …]``; one line of JSON per result."""

import functools
import sys
from collections.abc import Callable, Iterable

from bench import (
    about,
    areas,
    big_json,
    clones,
    colocation,
    deadline,
    directory,
    dispatch,
    edf,
    edge,
    file_limit,
    fleet,
    gateway,
    gateway_mqtt,
    handover,
    history,
    homes_plan,
    hostile,
    matching,
    pipeline,
    placement_events,
    processing_hop,
    push,
    query,
    ranks,
    simulation,
    slow_disk,
    take_over,
    too_large,
)
from bench.output import Result, report

# By the names of their measures, so that one can be run alone.
BENCHMARKS: dict[str, Callable[[], Iterable[Result]]] = {
    "about": about.run,
    "edf": edf.run,
    "deadline": deadline.run,
    "areas": areas.run,
    "loop-big-json": big_json.run,
    "too-large": too_large.run,
    "query": query.run,
    "dispatch": dispatch.run,
    "processing-hop": processing_hop.run,
    "handover": handover.run,
    "take-over": take_over.run,
    "clones": clones.run,
    "edge": edge.run,
    "history": history.run,
    "directory": directory.run,
    "matching": matching.run,
    "colocation": colocation.run,
    "packing-70": colocation.packing,
    "simulate": simulation.run,
    "file-limit": file_limit.run,
    "fleet": fleet.run,
    "gateway-mqtt": gateway_mqtt.run,
    "gateway": gateway.run,
    "pipeline": pipeline.run,
    "placement-events": placement_events.run,
    "homes-plan": homes_plan.run,
    "push": push.run,
    "ranks": ranks.run,
    "loop-slow-disk": slow_disk.run,
    **{f"hostile-{name}": functools.partial(hostile.run, name) for name in hostile.ATTACKS},
}
# Benchmarks with options.
WITH_OPTIONS = {"pipeline": pipeline.run, "push": push.run, "ranks": ranks.run}


def main() -> None:
    """Run the command."""
    names = sys.argv[1:] or list(BENCHMARKS)
    if names[0] in WITH_OPTIONS and names[1:2] and names[1].startswith("-"):
        report(WITH_OPTIONS[names[0]](names[1:]))
        return
    for name in names:
        if name not in BENCHMARKS:
            sys.exit(f"error: no benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
        report(BENCHMARKS[name]())


if __name__ == "__main__":
    main()
