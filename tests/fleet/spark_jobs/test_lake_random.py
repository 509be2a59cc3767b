"""Random landings, split into several ingests in any order: the tables are those of plain loops."""

import json
import random
import shutil

import pytest

from fleet.lake.ingest.compaction import compact
from fleet.lake.ingest.stream import ingest
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.tables import base
from tests.examples import campaign
from tests.fleet.spark_jobs import landings
from tests.fleet.spark_jobs.lake_oracle import expected
from tests.fleet.spark_jobs.lake_tables import everything

DAY_MS = 86_400_000
NOON_MS = 1_795_003_200_000 - 1_795_003_200_000 % DAY_MS + DAY_MS // 2
BROKEN = (
    ("nonsense", "no JSON"),
    ('{"record":"que', "no JSON"),
    ('{"record":"query"}{"record":"query"}', "no JSON"),
    ('{"record":"later"}', "no record kind is called 'later'"),
    ("[1]", "record is missing"),
)


def lines(draw):
    """Records of three days, and what is none, each with the reason."""
    found = []
    for n in range(40):
        iad, node = draw.choice(("a1", "a2")), f"n{n % 3}"
        wall_ms = NOON_MS + draw.randrange(3 * DAY_MS)
        made = {
            0: landings.query(iad, f"q{n}", wall_ms),
            1: landings.task(iad, f"t{n}", wall_ms, reason=None, unloaded_ms=None),
            2: landings.subtask(iad, f"t{n}", node, wall_ms, later={"x": [1]}),
            3: landings.event(iad, node, n, wall_ms, text="ä °C"),
            4: landings.processing(iad, f"topic{n}", wall_ms, achieved_ms=None),
            5: landings.move(iad, f"unit{n}", wall_ms, pause_ms=None),
            6: landings.placement(iad, wall_ms, start_s=float(n), compute=None),
        }[draw.randrange(7)]
        found.append((json.dumps(made, ensure_ascii=bool(n % 2)), None))
    return found + list(BROKEN)


def groups(draw):
    """Row groups; some at midnight, some that come again with other times, up to twice."""
    found = []
    for n in range(24):
        node = f"n{n % 3}"
        count = draw.randrange(1, 6)
        first_ms = NOON_MS + draw.randrange(3) * DAY_MS
        if n % 4 == 0:
            first_ms += DAY_MS // 2 - 2000  # over midnight
        numbers = [draw.choice((None, float(k))) for k in range(count)]
        more = {
            "channels": [
                {
                    "name": "temperature", "value": numbers,
                    "raw": [1.5] * count if n % 2 else None,
                    "quality": [draw.randrange(9) for _ in numbers] if n % 3 else None,
                },
                {"name": "humidity", "value": numbers[::-1], "raw": None, "quality": None},
            ],
            "age_ms": [7] * count if n % 5 == 0 else None,
            "source_time_ms": [NOON_MS] * count if n % 7 == 0 else None,
        }  # fmt: skip
        shift = 0
        for revision in range(draw.choice((1, 1, 2, 3))):
            # The first is of a clock that began in 1970 where another one follows far from it.
            shift += draw.randrange(1, 3) * DAY_MS if revision else 0
            found.append(
                landings.group(
                    "a1", node, 1000 * n, first_ms + shift, count,
                    exported_ms=NOON_MS + 9 * DAY_MS + revision, shift_ms=shift,
                    synchronised=revision > 0, **more,
                )
            )  # fmt: skip
    return found


def files(draw):
    """(kind, name, content): each row in one file at least, some in several, some files twice."""
    every = {"records": lines(draw), "groups": groups(draw)}
    every["nodes"] = [
        landings.node("a1", f"n{n % 3}", NOON_MS + n * DAY_MS // 4, [f"r{n}"]) for n in range(9)
    ]
    every["pulls"] = [landings.pull("a1", f"a1/n{n % 3}", NOON_MS + n * DAY_MS) for n in range(4)]
    made = []
    for kind, rows in every.items():
        count = 5 if kind in ("records", "groups") else 3
        parts = [[] for _ in range(count)]
        for row in rows:
            for part in draw.sample(parts, draw.choice((1, 1, 2))):
                part.append(row)
        parts.append(draw.choice(parts))
        for number, part in enumerate(parts):
            draw.shuffle(part)
            if part:
                made.append((kind, f"{number}-{draw.randrange(10**6)}", part))
    return made


def iad_of(kind, name):
    """The IAD whose folder a file is in; some records in it are another's."""
    return "a2" if kind == "records" and int(name.partition("-")[0]) % 2 else "a1"


def write(lake, kind, name, content):
    if kind == "records":
        lines = [text for text, _ in content]
        landings.write_lines(lake, f"{name}.jsonl", lines, iad_of(kind, name))
    else:
        landings.write_rows(lake, kind, f"{name}.parquet", content)


def told(tables):
    """Without the file that a broken line was first seen in: that depends on the order."""
    at = [n for n in base.QUARANTINE.names if n != "date"].index("source")
    quarantine = [row[:at] + row[at + 1 :] for row in tables["quarantine"]]
    return tables | {"quarantine": sorted(quarantine)}


@pytest.mark.parametrize("seed", [pytest.param(n, marks=campaign(n, 3)) for n in range(3)])
def test_any_split_in_any_order_gives_the_same_tables(spark, tmp_path, seed):
    draw = random.Random(seed)
    lake = Lake(tmp_path / "a lake [1]")
    landed = files(draw)
    order = draw.sample(landed, len(landed))
    cuts = sorted(draw.sample(range(1, len(order)), 2))
    named = [(kind, f"iad={iad_of(kind, name)}/{name}", content) for kind, name, content in landed]
    for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True):
        for one in order[start:end]:
            write(lake, *one)
        ingest(spark, lake, compact=False)
    wanted = told(expected(named))
    assert told(everything(lake)) == wanted
    # Whatever comes again, and whatever was forgotten about it.
    shutil.rmtree(lake.checkpoints)
    write(lake, *order[0])
    again = ingest(spark, lake)
    assert (again.changed, again.files) == (False, len(landed))
    before = sum(1 for _ in lake.tables.rglob("*.parquet"))
    assert compact(spark, lake) > 0
    assert sum(1 for _ in lake.tables.rglob("*.parquet")) < before
    assert compact(spark, lake) == 0
    assert told(everything(lake)) == wanted
