"""What all tests of logs have in common."""

import pytest

from fleet.lake.pull import landing_files


@pytest.fixture(autouse=True)
def quick_storage(request, monkeypatch):
    """Nothing waits for the disk, but in tests that ask for `real_storage`."""
    if "real_storage" not in request.fixturenames:
        monkeypatch.setattr(landing_files, "sync", lambda path: None)


@pytest.fixture
def real_storage():
    """Have fsync."""
