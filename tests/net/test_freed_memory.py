"""Freed memory goes back to the system."""

import subprocess
import sys

from agent.net.freed_memory import TRIM_BYTES, TRIM_S, Trimmer

MIB = 1 << 20

# Messages of 1 MiB, twice, each with a small block allocated after it that stays.
FLOODS = """
import ctypes, os, sys
from pathlib import Path
from agent.net.freed_memory import return_freed

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
if sys.argv[1] == "mapped":
    return_freed(libc, flood=True)
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = resident()
for _ in range(2):
    blocks = []
    for _ in range(64):
        blocks.append(libc.malloc(1 << 20))
        ctypes.memset(blocks[-1], 1, 1 << 20)
        libc.malloc(512)
    for each in blocks:
        libc.free(each)
print(resident() - before)
"""


def test_memory_is_given_back_after_it_grew_and_seldom_if_that_does_not_help():
    trimmer = Trimmer(100 * MIB, 0.0)
    assert not trimmer.wants(100 * MIB + TRIM_BYTES, 1.0)
    assert trimmer.wants(200 * MIB, 1.0)
    trimmer.trimmed(200 * MIB, 101 * MIB, 1.0)
    assert not trimmer.wants(200 * MIB, 1.0 + TRIM_S / 2)
    now, trims = 10.0, 0
    while now < 1_000.0:
        if trimmer.wants(200 * MIB, now):
            trims += 1
            trimmer.trimmed(200 * MIB, 200 * MIB, now)
        now += 1.0
    assert 3 <= trims <= 8


def test_a_large_block_is_returned_when_it_is_freed():
    kept = {}
    for how in ("mapped", "as by default"):
        command = (sys.executable, "-c", FLOODS, how)
        kept[how] = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert kept["mapped"] < 8 * MIB < kept["as by default"]
