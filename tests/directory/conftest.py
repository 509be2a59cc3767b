"""Fixtures: a registration service and its mirrors, gone after the test."""

import pytest

from tests.directory.rig import Asker, DrsProcess


@pytest.fixture
def start_drs(tmp_path):
    running = []

    def start(name="drs", **options):
        running.append(DrsProcess(tmp_path / name, **options))
        return running[-1]

    yield start
    for drs in running:
        drs.stop()


@pytest.fixture
def drs(start_drs):
    return start_drs()


@pytest.fixture
def asker(context):
    def connect(drs, handshake=None):
        return Asker(context, drs.public, handshake)

    return connect
