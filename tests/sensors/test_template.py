"""A copy of the template is a package that pip installs, with a test of its own. About 5 s."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sensors import _template

CONFIG = """\
[node]
name = "n1"
areas = ["b1"]

[master]
address = "tcp://127.0.0.1:5701"

[[sensor]]
driver = "cpu"
"""


def run(folder: Path, *arguments: str | Path) -> str:
    """What the command said; it must end with status 0. `folder/site` is where packages lie."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "site"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_copy_is_installed_found_and_passes_its_own_test(tmp_path: Path) -> None:
    (tmp_path / "edge.toml").write_text(CONFIG)
    shutil.copytree(
        Path(_template.__file__).parent,
        tmp_path / "acme_cpu",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    assert " passed" in run(tmp_path, "pytest", "-p", "no:cacheprovider", "acme_cpu")
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    run(tmp_path, "pip", "install", *offline, "--target", "site", "./acme_cpu")
    assert run(tmp_path, "agent.edge.main", "--config", "edge.toml", "--check") == "edge.toml: ok\n"
