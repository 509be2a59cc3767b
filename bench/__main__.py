"""Run all benchmarks, or those named: ``python -m bench [--page] [name …]``; one line of JSON per
result. With --page the results go to docs/results/speed.md, too. One that cannot run here is a line
on stderr, as is one that fails; the others run all the same."""

import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from bench import (
    about,
    areas,
    bad_processors,
    big_json,
    cli_start,
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
    gateway_beside,
    gateway_mqtt,
    gateway_paint,
    handover,
    history,
    homes_plan,
    hostile,
    master_rate,
    matching,
    pipeline,
    placement_events,
    processing_hop,
    push,
    query,
    query_peers,
    ranks,
    simulation,
    slow_disk,
    speed_page,
    take_over,
    too_large,
)
from bench.output import CannotRunError, Result, report
from bench.pipeline import report as day_report

# By the names of their measures, so that one can be run alone.
BENCHMARKS: dict[str, Callable[[], Iterable[Result]]] = {
    "about": about.run,
    "edf": edf.run,
    "deadline": deadline.run,
    "areas": areas.run,
    "cli-start": cli_start.run,
    "loop-big-json": big_json.run,
    "too-large": too_large.run,
    "query": query.run,
    **{f"query-{name}": functools.partial(query_peers.run, name) for name in query_peers.PEERS},
    "dispatch": dispatch.run,
    "master-rate": master_rate.run,
    "processing-hop": processing_hop.run,
    "bad-processors": bad_processors.run,
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
    "gateway-idle": gateway.idle,
    "gateway-beside": gateway_beside.run,
    "gateway-paint": gateway_paint.run,
    "pipeline": pipeline.run,
    "placement-events": placement_events.run,
    "homes-plan": homes_plan.run,
    "push": push.run,
    "ranks": ranks.run,
    "report": day_report.run,
    "loop-slow-disk": slow_disk.run,
    **{f"hostile-{name}": functools.partial(hostile.run, name) for name in hostile.ATTACKS},
}
# Benchmarks with options.
WITH_OPTIONS = {"pipeline": pipeline.run, "push": push.run, "ranks": ranks.run}


def main() -> None:
    """Run the command."""
    page = sys.argv[1:2] == ["--page"]
    names = sys.argv[1 + page :] or list(BENCHMARKS)
    if names[0] in WITH_OPTIONS and names[1:2] and names[1].startswith("-"):
        show(WITH_OPTIONS[names[0]](names[1:]), page)
        return
    for name in names:
        if name not in BENCHMARKS:
            sys.exit(f"error: no benchmark {name!r}; known: {', '.join(BENCHMARKS)}")
    failed = [name for name in names if not reported(name, page)]
    if failed:
        sys.exit(f"error: failed: {', '.join(failed)}")


def show(results: Iterable[Result], page: bool) -> None:
    """Print the results, and with `page` keep them in it."""
    report(speed_page.kept(results, Path("docs/results")) if page else results)


def reported(name: str, page: bool) -> bool:
    """Run this one and print its results; false: it failed."""
    # Not all are generators: some have run when they return.
    results = (each for run in (BENCHMARKS[name],) for each in run())
    try:
        show(results, page)
    except CannotRunError as error:
        print(f"{name}: skipped, as this host lacks {error}", file=sys.stderr)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an hour of others is left to run
        told = " ".join(str(error).split()) or "no reason given"
        print(f"{name}: failed: {type(error).__name__}: {told}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    main()
