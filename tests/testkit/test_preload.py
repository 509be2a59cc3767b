"""The preloaded library: a wall clock that is stepped while its process runs."""

import shutil
import subprocess
import sys
import time

import pytest

from testkit.preload import Preload

CLOCKS = """
import time
while input():
    print(time.time(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic(), flush=True)
"""

pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def test_a_running_process_has_its_wall_clock_stepped_and_no_other_clock(tmp_path):
    machine = Preload(tmp_path, ["n1", "n2"])
    command = [*machine.command("n1"), sys.executable, "-c", CLOCKS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:

        def off_s():
            child.stdin.write("and?\n")
            child.stdin.flush()
            *walls, monotonic = map(float, child.stdout.readline().split())
            return [*(round((at - time.time()) / 600) for at in walls),
                    round((monotonic - time.monotonic()) / 600)]  # fmt: skip

        assert off_s() == [0, 0, 0]
        machine.step("n1", 3_600)
        machine.step("n2", -1)
        assert off_s() == [6, 6, 0]
        machine.delay("n1", 5)
        machine.step("n1", -1_200)
        assert off_s() == [-2, -2, 0]
        machine.step("n1", 0)
        assert off_s() == [0, 0, 0]
        child.stdin.write("\n")
