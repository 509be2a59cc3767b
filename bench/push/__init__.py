"""Alerts end to end, against mosquitto: ``python -m bench push [--seconds 5] [--results FOLDER]``.

Four masters (a path of two vertices times two clusters) and 5,000 subscriptions, each of which
matches 2 % of the alerts, over several processes. In one case each subscription has a connection of
its own, in another fifty share one. The MQTT broker has as many connections, in as many processes.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.output import Result, result

if TYPE_CHECKING:
    from bench.push.measure import Contender

# Connections, and alerts per second.
CASES: Final = {"own": (5_000, 5.0), "shared": (100, 50.0)}
PEERS: Final = {"tree": "mosquitto, clients filter all", "topics": "mosquitto, by topic"}
LEAST_P99: Final = {"own": 1.0, "shared": 0.5}
MAX_BYTES: Final = 110.0  # of a delivery


def run(arguments: Sequence[str] = ()) -> Iterator[Result]:
    """Goals: p99 of push-own at most mosquitto's, of push-shared twice that; of push-own a fiftieth
    of the bytes where 2 % are wanted, and at most 110 bytes of a delivery."""
    parser = argparse.ArgumentParser("python -m bench push")
    parser.add_argument("--seconds", type=float, default=5.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="folder for push.md and its tables")
    chosen = parser.parse_args(arguments)
    # Imported on demand: the overlay and NumPy.
    from bench.push import measure, page, rig
    from lab import pages
    from lab.provenance import load_average, now

    rig.program()
    provenance = now(shlex.join(["python", "-m", "bench", "push", *arguments]))
    taken = {}
    for name, (connections, rate) in CASES.items():
        case = measure.Case(
            connections, rate, rounds=chosen.rounds, round_s=chosen.seconds, seed=chosen.seed
        )
        taken[name] = case, measure.run(case)
        yield from _results(name, taken[name][1])
    if chosen.results:
        more = {"load average just after": f"{load_average():.2f}", "seed": str(chosen.seed)}
        pages.write(chosen.results, page.NAME, page.tables(taken), provenance, more)


def _results(name: str, found: dict[str, Contender]) -> Iterator[Result]:
    """Ours beside mosquitto with clients that take all and filter, and with a topic for each floor
    and metric."""
    ours = found["alerts"]
    for kind, how in PEERS.items():
        peer = found[kind]
        for percent in (50, 99):
            yield result(
                f"push-{name}-{kind}-p{percent}",
                ours.percentile(percent) / 1e3,
                "ms",
                how,
                peer.percentile(percent) / 1e3,
                least_ratio=LEAST_P99[name] if percent == 99 else None,
                by_round=ours.by_round(percent),
                peer_by_round=peer.by_round(percent),
                durable_ms=round(found["durable"].percentile(percent), 2),
                missing=ours.expected - ours.delivered,
                peer_missing=peer.expected - peer.delivered,
            )
        yield result(
            f"push-{name}-{kind}-bytes",
            ours.payload / ours.alerts,
            "bytes an alert",
            how,
            peer.payload / peer.alerts,
            least_ratio=50.0 if (name, kind) == ("own", "tree") else None,
            messages=round(ours.messages / ours.alerts, 1),
            peer_messages=round(peer.messages / peer.alerts, 1),
        )
    topics = found["topics"]
    yield result(
        f"push-{name}-message",
        ours.payload / ours.messages,
        "bytes",
        PEERS["topics"],
        topics.payload / topics.messages,
        most=MAX_BYTES if name == "own" else None,
    )
