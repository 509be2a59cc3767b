"""Each earlier state of the code in turn."""

import pytest

from tests.upgrades.rig import ALL, RECENT


def _built(earlier):
    if not earlier.folder.is_dir():
        pytest.skip("the earlier state is not built; make test-upgrades does")
    return earlier


@pytest.fixture(params=ALL, ids=lambda each: each.commit[:8])
def earlier(request):
    """Of any age."""
    return _built(request.param)


@pytest.fixture
def recent():
    """One with topics, clones and the gateway."""
    return _built(RECENT)
