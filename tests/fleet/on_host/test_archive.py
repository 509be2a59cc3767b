"""What is sent to hosts: one archive, the same bytes each time, of the standard library alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.on_host.places import UNDO
from fleet.ssh.remote import host_files, host_program, packed


def test_it_is_the_same_each_time():
    assert packed(host_files()) == host_program()


@pytest.mark.parametrize("path", [path for path in host_files() if path != "__main__.py"])
def test_a_module_imports_the_standard_library_and_its_own_room_alone(path):
    imported = set()
    for node in ast.walk(ast.parse(host_files()[path])):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or ".")
    others = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    assert not [name for name in others if not name.startswith("fleet.on_host.")]


def test_what_is_left_on_a_host_does_nothing_elsewhere(tmp_path: Path):
    program = tmp_path / Path(UNDO).name
    program.write_bytes(host_program())
    done = subprocess.run(
        [sys.executable, "-I", "-S", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"this is started by a timer, as {UNDO}\n"
