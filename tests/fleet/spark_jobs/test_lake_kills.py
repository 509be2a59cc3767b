"""`fleet lake follow`, killed at random points while files land: nothing is lost or doubled.

The points are not times but files: the process is killed when the k-th new file has appeared below
the lake, whatever it is: of the checkpoint, in the staging, in the journal or among the tables.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleet.lake.ingest.stream import ingest
from fleet.lake.schema.folder import Lake
from testkit.agent_process import LISTENS
from tests.examples import KILLS
from tests.fleet.spark_jobs import landings
from tests.fleet.spark_jobs.lake_oracle import expected
from tests.fleet.spark_jobs.lake_tables import everything
from tests.fleet.spark_jobs.test_lake_random import NOON_MS, told

pytestmark = pytest.mark.long
SEED = 7
# About what a start and its first batches make.
MAX_FILES = 70
PATIENCE_S = 300
JAVA = "-Xmx512m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Feeder:
    """Puts files into the landing, each with something new and something that was there."""

    def __init__(self, lake, draw):
        self.lake = lake
        self.draw = draw
        self.landed = []
        self.repeated = []

    def feed(self):
        n = len(self.landed)
        lines = [
            json.dumps(landings.query(query=f"q{n}", wall_ms=NOON_MS + n)),
            json.dumps(landings.subtask(task=f"q{n}/1", wall_ms=NOON_MS + n)),
        ]
        content = [(line, None) for line in lines] + [(f"torn {n // 2}", "no JSON")]
        self._land("records", content)
        shifted = n % 3 == 2
        group = landings.group(
            sequence=1000 * (n - 2 if shifted else n),
            first_ms=NOON_MS + 43_199_000,
            shift_ms=86_400_000 if shifted else 0,
            exported_ms=NOON_MS + n,
        )
        if shifted:
            group["time_ms"] = [ms + 86_400_000 for ms in group["time_ms"]]
            group |= {"first_ms": group["time_ms"][0], "last_ms": group["time_ms"][-1]}
        self._land("groups", [group])

    def _land(self, kind, content):
        again = self.draw.choice(self.repeated) if self.repeated else (kind, [])
        if again[0] == kind:
            content = content + again[1]
        self.repeated.append((kind, content[:1]))
        name = f"iad=a1/{len(self.landed)}"
        self.landed.append((kind, name, content))
        if kind == "records":
            landings.write_lines(self.lake, f"{name[7:]}.jsonl", [text for text, _ in content])
        else:
            landings.write_rows(self.lake, kind, f"{name[7:]}.parquet", content)


def files_of(lake):
    """Every file below the lake that an ingest makes."""
    found = set()
    for folder in (lake.staging, lake.journal, lake.tables, lake.checkpoints, lake.index):
        for path, _, names in os.walk(folder):
            found.update(f"{path}/{name}" for name in names)
    return found


def tell(text):
    """A line for whoever watches (-s)."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def start(lake, log):
    command = [Path(sys.executable).with_name("fleet"), "lake", "follow", "--every", "50ms"]
    environment = os.environ | {"JAVA_TOOL_OPTIONS": JAVA}
    return subprocess.Popen(
        [*LISTENS, *command, "--spark", "local[2]", "--lake", lake.root],
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        env=environment,
    )


def waiting(process, log):
    """Yields until the process is gone or too much time is."""
    end = time.monotonic() + PATIENCE_S
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        yield


def await_start(process, log):
    """Until it follows; the Java of the one before may end only now."""
    before = log.read_text().count("following")
    for _ in waiting(process, log):
        if log.read_text().count("following") > before:
            return


def follow_until(lake, feeder, count, log):
    """Follow, feeding, until so many files appeared; then kill. The last of them."""
    with log.open("ab") as out, start(lake, out) as process:
        try:
            await_start(process, log)
            seen = files_of(lake)
            batches = committed(lake)
            appeared = []
            patience = waiting(process, log)
            while len(appeared) < count:
                next(patience)
                if committed(lake) > batches:
                    batches = committed(lake)
                    feeder.feed()
                now = files_of(lake)
                appeared += sorted(now - seen)
                seen |= now
            return str(Path(appeared[-1]).relative_to(lake.root))
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()


def follow_and_end(lake, feeder, number, log):
    """Follow for a batch, then send a signal; the exit status."""
    with log.open("ab") as out, start(lake, out) as process:
        try:
            await_start(process, log)
            batches = committed(lake)
            feeder.feed()
            for _ in waiting(process, log):
                if committed(lake) > batches:
                    break
            process.send_signal(number)
            return process.wait(PATIENCE_S)
        finally:
            if process.poll() is None:
                process.kill()


def committed(lake):
    """How many batches the checkpoint has seen the end of."""
    folder = lake.checkpoints / "landing" / "commits"
    return max((int(p.name) for p in folder.glob("[0-9]*")), default=-1)


def test_killed_at_random_points_nothing_is_lost_or_doubled(spark, tmp_path):
    draw = random.Random(SEED)
    lake = Lake(tmp_path / "lake")
    feeder = Feeder(lake, draw)
    log = tmp_path / "log"
    began = time.monotonic()
    for kill in range(KILLS):
        feeder.feed()
        at = draw.randrange(1, MAX_FILES)
        last = follow_until(lake, feeder, at, log)
        tell(f"{time.monotonic() - began:6.0f} s  kill {kill + 1} after {at} files: {last}")
    assert follow_and_end(lake, feeder, signal.SIGTERM, log) == 0
    assert follow_and_end(lake, feeder, signal.SIGINT, log) == 130
    assert "Traceback" not in log.read_text()
    feeder.feed()
    # Its lock waits for the last Java that was left behind.
    ingest(spark, lake, compact=False)
    wanted = told(expected(feeder.landed))
    found = told(everything(lake))
    for table, rows in wanted.items():
        assert found[table] == rows, table
    assert not list(lake.journal.iterdir())
    assert not list((lake.staging / "tables").iterdir())
    # Of three feeds two bring a group of six rows, the third another revision of one of these.
    assert len(wanted["readings"]) >= 4 * KILLS
    total = sum(map(len, wanted.values()))
    tell(f"{time.monotonic() - began:6.0f} s  {KILLS} kills, {total} rows, none lost or doubled")
