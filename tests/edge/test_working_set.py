"""What is given back, and that nothing is lost by it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from agent.edge.working_set import SMAPS, code

SAMPLE = """\
55d0c0a00000-55d0c0b00000 r--p 00000000 fe:01 1234 /usr/bin/python3.11
Rss:                 100 kB
Private_Dirty:         0 kB
55d0c0b00000-55d0c0d00000 r-xp 00100000 fe:01 1234 /usr/bin/python3.11
Rss:                2048 kB
Private_Clean:      2048 kB
Private_Dirty:         0 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000001000 r-xp 00000000 fe:01 99 /usr/lib/lib with a space.so
Private_Dirty:         0 kB
7f0000002000-7f0000003000 r-xp 00000000 fe:01 98 /usr/lib/changed.so
Private_Dirty:         4 kB
7f0000004000-7f0000005000 rw-p 00000000 fe:01 97 /usr/lib/data.so
Private_Dirty:         0 kB
7f0000006000-7f0000007000 r-xp 00000000 00:00 0
Private_Dirty:         0 kB
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]
Private_Dirty:         0 kB
"""
SETTLED = """
import json, sqlite3, zmq
from agent.edge.working_set import shrink
def resident():
    lines = open("/proc/self/smaps_rollup")
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))
sqlite3.connect(":memory:").execute("PRAGMA integrity_check").fetchall()
before = resident()
shrink()
print(before, resident(), sqlite3.connect(":memory:").execute("SELECT 6 * 7").fetchone()[0])
"""


def test_only_unchanged_code_of_files():
    assert list(code(SAMPLE.splitlines())) == [
        (0x55D0C0B00000, 0x200000),
        (0x7F0000000000, 0x1000),
    ]


def test_it_reads_what_this_kernel_writes():
    text = Path(SMAPS).read_text(errors="replace")
    executable = re.findall(r"^[0-9a-f]+-[0-9a-f]+ r-xp .* /", text, re.MULTILINE)
    assert 0 < len(list(code(text.splitlines()))) <= len(executable)


def test_a_process_shrinks_and_works_on():
    done = subprocess.run(
        [sys.executable, "-c", SETTLED], capture_output=True, text=True, check=True, timeout=60
    )
    before, after, answer = map(int, done.stdout.split())
    assert answer == 42
    assert after < before
