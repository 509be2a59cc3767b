"""Tests of the pipeline that take minutes: `make test-pipeline` runs them."""

import os

import pytest

# How often the streaming job is killed; 0 outside that target.
KILLS = int(os.environ.get("SANDERLING_PIPELINE", "0"))
only_when_long = pytest.mark.skipif(not KILLS, reason="only with make test-pipeline")
