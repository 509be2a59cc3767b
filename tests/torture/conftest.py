"""The recorder, built once."""

from __future__ import annotations

import pytest

from tests.torture import recording


@pytest.fixture(scope="session")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the recorder; skips where none can be built."""
    if why := recording.unavailable():
        pytest.skip(why)
    return recording.built(str(tmp_path_factory.mktemp("recorder")))
