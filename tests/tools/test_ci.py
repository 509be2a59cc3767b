"""`.ci/run` is red when it could not run all that it is asked for, unless it is told otherwise."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def stub(path, *lines):
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


@pytest.fixture
def ci(tmp_path):
    """Runs a copy of it in which every target of make passes."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci/run")
    stubs = tmp_path / "stubs"
    stub(stubs / "make", 'echo "$@" >>made')
    stub(stubs / "apt-get", 'echo "E: Unable to locate package" >&2', "exit 100")

    def run(*, root, missing, may_skip=False):
        stub(stubs / "id", f"echo {0 if root else 1000}")
        stub(tmp_path / "tools/missing_packages.sh", f"printf '{missing}'")
        environment = os.environ | {"PATH": f"{stubs}:{os.environ['PATH']}"}
        environment.pop("SANDERLING_CI_MAY_SKIP", None)
        if may_skip:
            environment["SANDERLING_CI_MAY_SKIP"] = "1"
        done = subprocess.run(
            ["bash", tmp_path / ".ci/run"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout, (tmp_path / "made").read_text()

    return run


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (
            {"root": True, "missing": "mmdebstrap qemu-user"},
            "apt-get cannot install mmdebstrap qemu-user: E: Unable to locate package",
        ),
        ({"root": False, "missing": ""}, "this is not root"),
    ],
)
def test_it_is_red_when_the_targets_for_root_cannot_run(ci, host, why):
    status, said, made = ci(**host)
    assert status == 1
    assert f"The targets for root cannot run: {why}." in said
    assert "test-hosts" not in made
    status, said, made = ci(**host, may_skip=True)
    assert status == 0
    assert f"Skipping the targets for root: {why}." in said
    assert "test-hosts" not in made
