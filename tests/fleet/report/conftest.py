"""The Spark session, and a report of tables made by hand with hostile names."""

import pytest

from tests.fleet.report.samples import sample, write_sample
from tests.fleet.spark.shared import shared_session


@pytest.fixture(scope="session")
def spark():
    return shared_session()


@pytest.fixture(scope="session")
def folder(spark, tmp_path_factory):
    """The folder of a report: page, pictures, data."""
    path = tmp_path_factory.mktemp("report") / "r [1]"
    path.mkdir()
    write_sample(spark, path, sample(hostile=True))
    return path
