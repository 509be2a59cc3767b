"""How the streaming job of a lake stops while Spark begins a batch. No Spark is needed."""

import threading
from datetime import UTC, datetime

import pytest

from fleet.lake.ingest.stream import Job, StoppingError
from fleet.lake.ingest.work import USUAL
from fleet.lake.schema.folder import Lake

PATIENCE_S = 60


class Query:
    """What Spark does on `stop`: it waits for the batch that it has begun."""

    def __init__(self, job):
        self.job = job
        self.raised = []

    def _begin(self):
        try:
            self.job._batch(None, 7)
        except StoppingError as error:
            self.raised.append(error)

    def stop(self):
        batch = threading.Thread(target=self._begin, daemon=True)
        batch.start()
        batch.join(PATIENCE_S)
        assert not batch.is_alive(), "the batch waits for the job, and the job for the batch"

    def awaitTermination(self, _seconds):  # noqa: N802 - Spark's name
        return False


@pytest.fixture
def job(tmp_path):
    told = []
    job = Job(None, Lake(tmp_path), USUAL, lambda: datetime.now(UTC), told.append)
    job.told = told
    job._query = Query(job)
    return job


def test_a_batch_that_begins_while_it_stops_is_left_to_the_next_run(job):
    until = threading.Event()
    until.set()
    job.wait(until)
    # Spark would take a batch that returns for done, and never show its files again.
    assert len(job._query.raised) == 1
    assert not job.told
