"""`fleet plan --models`: what the lake's models say, and what is refused."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from fleet.lake.schema.tables.model import Table
from fleet.lake.schema.tables.models import ARRIVALS, SIZES, UNLOADED
from fleet.plan.models import _spread, read_models
from fleet.plan.result import CapacityReport

TYPES = {"string": pa.string(), "double": pa.float64(), "bigint": pa.int64(), "int": pa.int32()}
FAST = ("--queries", "2000", "--seeds", "2", "--policy", "fifo")
Row = dict[str, Any]
Plan = Callable[..., tuple[int, str, str]]


def write_table(folder: Path, table: Table, rows: Iterable[Row]) -> None:
    """A table of models as Spark writes it: a folder with a file and the mark of success."""
    schema = pa.schema([(column.name, TYPES[column.type]) for column in table.columns])
    place = folder / table.name
    place.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(list(rows), schema), place / "part-0.parquet")
    (place / "_SUCCESS").touch()


def bucket(node: str, low_ms: float, count: int, **other: Any) -> Row:
    row = {"iad": "iad1", "node": node, "window_s": 64.0, "low_ms": low_ms, "count": count}
    return row | {"high_ms": low_ms * 2**0.125, "mean_ms": low_ms * 1.04} | other


def size(label: str, queries: int, iads: int, iad: str | None, **other: Any) -> Row:
    row = {"class": label, "service": "default", "percentile": 99.0, "slo_ms": 500.0}
    row |= {"areas": iads, "iads": iads, "iad": iad, "nodes": 1, "window_s": 64.0}
    return row | {"queries": queries, "share": 0.0} | other


SIZED = (
    size("survey", 300, 2, None, slo_ms=900.0, nodes=2),
    size("survey", 100, 2, None, slo_ms=900.0, nodes=1),
    size("alarm", 290, 1, "iad2", percentile=95.0),
    size("alarm", 10, 1, "iad1", percentile=95.0),
    size("alarm", 200, 1, "iad1"),
    size("alarm", 95, 1, "iad3", window_s=128.0),
    size("rare", 5, 1, "iad1"),
    size("refused", 20, 0, None, nodes=None, window_s=None),
)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A lake: node n1 was measured, n2 a little."""
    folder = tmp_path / "lake" / "models"
    buckets = [bucket("iad1-n1", 2.0**k, 100) for k in (4, 5)]
    # A bucket of another size of requests is the same bucket.
    buckets += [bucket("iad1-n1", 16.0, 100, window_s=128.0), bucket("iad1-n2", 16.0, 9)]
    write_table(folder, UNLOADED, buckets)
    write_table(folder, SIZES, SIZED)
    arrivals = {"service": "default", "percentile": 99.0, "slo_ms": 500.0, "queries": 1}
    arrivals |= {"seconds": 60.0, "rate_per_s": 2.25, "peak_per_s": 3.0}
    write_table(folder, ARRIVALS, [arrivals | {"iad": i, "class": "c"} for i in ("iad1", "iad2")])
    return folder


def test_models_give_times_and_classes(plan: Plan, models: Path) -> None:
    status, out, _ = plan("--models", str(models.parent), *FAST, "--json")
    assert status == 0
    report = msgspec.json.decode(out, type=CapacityReport)
    # 200 of 16.64 ms, 100 of 33.28 on average.
    assert report.unloaded_mean_ms["iad1"]["iad1-n1"] == pytest.approx(22.19, rel=0.02)
    assert report.assumptions[:2] == (
        "Unloaded response times: measured at 1 of 32 nodes (309 subtasks in the models, to 9 %).",
        "With less than 100 samples, and so taken as typical of the IAD: 7 nodes.",
    )
    shapes = {k.name: (k.percentile, k.iads, k.nodes, k.iad) for k in report.classes}
    assert shapes == {
        "survey": (99.0, 2, 2, None),
        "alarm": (95.0, 1, 1, "iad2"),
        # Of this one 68 % ask iad1: no hot spot, they are spread evenly.
        "alarm (2)": (99.0, 1, 1, None),
    }
    shares = [kind.share for kind in report.classes]
    assert shares == pytest.approx([400 / 995, 300 / 995, 295 / 995])
    came, *rest = report.assumptions[-3:]
    assert came.startswith(
        "Classes: those of 995 of 1,020 queries in the models, which came at 4.5"
    )
    assert rest == [
        "Left out, under 1 % of the queries: rare.",
        "Class survey: all taken to ask 2 × 2 (IADs × nodes), as 75 % did.",
    ]


def test_classes_of_a_file_come_first(plan: Plan, models: Path, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[[class]]\nname = "a"\nshare = 1.0\nslo_ms = 500\n')
    status, out, _ = plan("--models", str(models), "--classes", str(tmp_path / "c.toml"), *FAST)
    assert status == 0
    assert "Classes:" not in out


def test_models_and_records_are_one_too_many(plan: Plan, models: Path) -> None:
    status, _, err = plan("--models", str(models), "--records", str(models))
    assert (status, err) == (2, "fleet: give --records or --models: models are made of records\n")


def test_a_folder_without_models_is_one_line(plan: Plan, tmp_path: Path) -> None:
    status, _, err = plan("--models", str(tmp_path))
    assert status == 2
    assert err == f"fleet: {tmp_path}: no models; fleet report writes them into its lake\n"


def test_files_that_are_none_are_one_line(plan: Plan, models: Path) -> None:
    (models / "sizes" / "part-0.parquet").write_bytes(b"nothing")
    status, _, err = plan("--models", str(models))
    assert status == 2
    assert err.startswith(f"fleet: {models / 'sizes'}: ")
    assert len(err.splitlines()) == 1


def test_models_of_another_version_are_one_line(plan: Plan, models: Path) -> None:
    file = models / "sizes" / "part-0.parquet"
    parquet.write_table(parquet.read_table(file).drop_columns(["iads"]), file)
    status, _, err = plan("--models", str(models))
    assert (status, err) == (
        2,
        f"fleet: {models / 'sizes'}: no column iads; let fleet report write it anew\n",
    )


def test_models_of_other_iads_are_refused(plan: Plan, tmp_path: Path) -> None:
    write_table(tmp_path, UNLOADED, [bucket("n", 16.0, 200, iad="elsewhere")])
    for table in (SIZES, ARRIVALS):
        write_table(tmp_path, table, [])
    status, _, err = plan("--models", str(tmp_path))
    assert status == 2
    assert err == "fleet: the models are of elsewhere, no IAD of the fleet is among them\n"


def test_names_that_a_terminal_takes_for_commands_are_left_out(tmp_path: Path) -> None:
    write_table(tmp_path, UNLOADED, [bucket("\x1b[31mn", 16.0, 200), bucket("n", 16.0, 1)])
    write_table(tmp_path, SIZES, [size("a\x1b[31m" + 40 * "b", 10, 1, "iad1")])
    write_table(tmp_path, ARRIVALS, [])
    found = read_models(tmp_path)
    assert list(found.measured.unloaded_s) == [("iad1", "n")]
    assert [kind.name for kind in found.classes] == ["a?[31m" + 26 * "b"]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1_000])
@pytest.mark.parametrize("mean", [10.0, 10.1, 10.5, 10.9])
def test_what_is_spread_in_a_bucket_has_its_mean(count: int, mean: float) -> None:
    spread = _spread(10.0, 11.0, mean, count)
    assert len(spread) == count
    assert spread.min() >= 10.0
    assert spread.max() <= 11.0
    assert spread.mean() == pytest.approx(mean, abs=0.03)
