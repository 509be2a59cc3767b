"""One Spark session for all tests of the pipeline."""

import pytest

from tests.fleet.spark.shared import shared_session


@pytest.fixture(scope="session")
def spark():
    return shared_session()
