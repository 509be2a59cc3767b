"""A fleet that is gone after the test."""

import pytest

from tests.trust.rig import Fleet


@pytest.fixture
def fleet(tmp_path):
    made = []

    def fleet(**options):
        made.append(Fleet(tmp_path, **options))
        return made[-1]

    yield fleet
    for each in made:
        each.stop()
