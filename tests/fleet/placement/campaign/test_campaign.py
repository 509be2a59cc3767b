"""A short campaign on a real master, from its records to a model."""

import psutil
import pytest

from agent.wire.records import ProcessingRecord
from fleet.cli.commands import run
from fleet.lake.schema.folder import Lake
from fleet.placement.campaign.command import trained
from fleet.placement.campaign.lake import intervals
from fleet.placement.campaign.run import INTERVALS, Extent, Taken, cores, measure
from fleet.placement.training import TrainingError
from fleet.testbed.run_records import read_records
from tests.fleet.spark.shared import shared_session


@pytest.mark.long
def test_a_campaign_goes_through_the_lake_into_a_model(tmp_path):
    folder = tmp_path / "run"
    said = []
    extent = Extent(runs=10, sizes=(1, 2), interval_s=4.0, most_load=0.3)
    others = measure(folder, extent, 1, said.append)
    assert len(said) == len(others) == 10
    assert all(0.0 <= each <= cores() for each in others)
    records = read_records(folder / "measured" / "records")
    found = [each for each in records if isinstance(each, ProcessingRecord)]
    whole = [each for each in found if each.seconds >= 4.0]
    assert len(whole) >= 15 * (INTERVALS - 1)
    assert {each.processor for each in found} == {"busy"}
    assert run(["logs", "pull", "--local", str(folder)]) == 0
    spark = shared_session()
    lake = Lake(folder / "lake")
    from fleet.lake.ingest.stream import ingest

    ingest(spark, lake)
    model, stays = trained(intervals(spark, lake, 90.0), 90.0)
    assert model.discipline == "shared-queue"
    assert len(stays) == 10
    assert model.runs == sum(map(len, stays))
    assert model.model()


def test_records_of_no_processor_train_nothing():
    with pytest.raises(TrainingError, match="no processor has a record"):
        trained([], 90.0)


def test_what_others_took_is_all_but_ours():
    before = Taken(at_s=100.0, by_all_s=5_000.0, by_ours_s=10.0)
    assert Taken(110.0, 5_012.0, 14.0).others_since(before) == pytest.approx(0.8)
    # Both are read one after the other, in ticks of 10 ms.
    assert Taken(110.0, 5_004.0, 14.5).others_since(before) == 0.0
    now = Taken.now(psutil.Process())
    assert 0.0 < now.by_ours_s < now.by_all_s
