"""What all tests of logs have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.lake.pull import landing_files
from fleet.lake.schema.folder import Lake
from tests.fleet.lake.pull.histories import Node


@pytest.fixture(autouse=True)
def quick_storage(request, monkeypatch):
    """Nothing waits for the disk, but in tests that ask for `real_storage`."""
    if "real_storage" not in request.fixturenames:
        monkeypatch.setattr(landing_files, "sync", lambda path: None)


@pytest.fixture
def real_storage():
    """Have fsync."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path / "node")
