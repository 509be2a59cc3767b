"""`fleet lab placement-topics`: models, packings and queues of topics, on a simulated broker."""

from __future__ import annotations

from pathlib import Path

from fleet.common import exits
from fleet.terminal import screen
from lab import provenance
from lab.placement import accuracy, results, topics

QUICK = topics.Extent(
    models=accuracy.Extent(ours=10, fewest=5, paper=20, held=30),
    topics=(20,),
    requests=2,
    exact=False,
    drifts=3,
    events=40,
)


def run(folder: Path, seed: int, *, quick: bool, extent: topics.Extent | None = None) -> int:
    """Run and write; the exit status."""
    terminal = screen.console()
    words = f"fleet lab placement-topics --seed {seed}{' --quick' if quick else ''}"
    origin = provenance.now(words)
    chosen = extent or (QUICK if quick else topics.Extent())
    screen.line(terminal, "a simulation of a broker with four cores, not a measurement of one")
    found = topics.run(chosen, seed, lambda text: screen.line(terminal, text, "dim"))
    for path in results.write(found, origin, folder):
        screen.line(terminal, f"wrote {path}")
    return exits.DONE
