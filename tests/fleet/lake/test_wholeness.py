"""Lakes of which files were cut off, such as by a copy that ended early."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fleet.cli.commands import run
from fleet.common import exits
from fleet.lake.schema.folder import Lake
from fleet.lake.schema.wholeness import CutFileError, require_whole


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path / "lake")
    made.landing.mkdir(parents=True)
    for day in ("2026-11-01", "2026-11-02"):
        folder = made.table("readings") / "iad=a" / f"date={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"value": [1.0] * 1000}), folder / "part.parquet")
        (folder / ".part.parquet.crc").touch()
        (folder / "_SUCCESS").touch()
    return made


@pytest.mark.parametrize("left", [0, 3, 400, -1])
def test_files_that_are_cut_off_are_named(lake, left):
    require_whole(lake)
    first, second = sorted(lake.tables.rglob("part.parquet"))
    second.write_bytes(second.read_bytes()[:left])
    with pytest.raises(CutFileError, match=r"date=2026-11-02/part\.parquet is"):
        require_whole(lake)
    first.unlink()
    first.symlink_to("none")
    with pytest.raises(CutFileError, match=r"date=2026-11-01/part\.parquet \(and 1 more\) is"):
        require_whole(lake)


def test_a_file_that_is_cut_off_is_named_before_spark_starts(lake, capsys):
    pytest.importorskip("pyspark")  # comes with `make pipeline`, and is asked for first
    _, second = sorted(lake.tables.rglob("part.parquet"))
    second.write_bytes(b"PAR1")
    for command in (["report"], ["report", "--no-ingest"], ["lake", "sql", "SELECT 1"]):
        assert run([*command, "--lake", str(lake.root)]) == exits.USAGE
        said = capsys.readouterr().err
        assert said.startswith(f"fleet: {second} is damaged, perhaps cut off when it was copied: ")
        assert said.count("\n") == 1
