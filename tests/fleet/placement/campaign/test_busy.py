"""The processor of a campaign, as workers find it."""

import sys
import time

import pytest

from fleet.placement.campaign import busy
from processors.base import ProcessorError
from processors.registry import open_processor


def test_it_is_a_processor_of_another_package_that_takes_its_cpu_time(tmp_path, monkeypatch):
    folder = busy.install(tmp_path / "processor")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    process = open_processor(busy.NAME, {"cpu_ms": 3.0})
    before_s = time.thread_time()
    assert process({"n": 1}, {}) is None
    assert time.thread_time() - before_s >= 0.003
    with pytest.raises(ProcessorError, match="cpu_ms"):
        open_processor(busy.NAME, {})
