"""A short campaign on a real master, from its records to a model."""

import pytest

from agent.wire.records import ProcessingRecord
from fleet.cli.commands import run
from fleet.lake.schema.folder import Lake
from fleet.placement.campaign.command import trained
from fleet.placement.campaign.lake import intervals
from fleet.placement.campaign.run import INTERVALS, Extent, measure
from fleet.placement.training import TrainingError
from fleet.testbed.run_records import read_records
from tests.fleet.spark.shared import shared_session


@pytest.mark.long
def test_a_campaign_goes_through_the_lake_into_a_model(tmp_path):
    folder = tmp_path / "run"
    said = []
    measure(folder, Extent(runs=10, sizes=(1, 2), interval_s=4.0, most_load=0.3), 1, said.append)
    assert len(said) == 10
    found = list(read_records(folder / "measured" / "records"))
    assert all(isinstance(each, ProcessingRecord) for each in found)
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
