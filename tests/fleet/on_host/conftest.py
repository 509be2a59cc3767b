"""A host of one's own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet.on_host.rig import (
    Fake,
)


@pytest.fixture
def host(tmp_path: Path) -> Fake:
    return Fake(tmp_path)
