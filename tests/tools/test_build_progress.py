"""Building the Cython modules: how many of how many are built is said, and shown."""

import runpy
import shutil
import subprocess
from pathlib import Path

import Cython.Build
import pytest
import setuptools
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parents[2]


@pytest.fixture
def command(monkeypatch):
    """The build command of setup.py with its extensions, which compiles nothing."""
    given = {}
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(setuptools, "setup", lambda **keys: given.update(keys))
    monkeypatch.setattr(Cython.Build, "cythonize", lambda extensions, **_: extensions)
    monkeypatch.setattr(build_ext, "build_extension", lambda self, ext: None)
    runpy.run_path("setup.py")
    distribution = setuptools.Distribution({"ext_modules": given["ext_modules"]})
    made = given["cmdclass"]["build_ext"](distribution)
    made.ensure_finalized()
    return made


def test_each_module_is_counted_once_it_is_built(command, capsys):
    command.check_extensions_list(command.extensions)
    command.build_extensions()
    lines = capsys.readouterr().out.splitlines()
    total = len(command.extensions)
    assert [line.split(":")[0] for line in lines] == [
        f"built {number} of {total}" for number in range(1, total + 1)
    ]
    assert {line.split(": ")[1] for line in lines} == {each.name for each in command.extensions}


def test_the_script_shows_the_count_and_nothing_of_the_compiler(tmp_path):
    for name in ("build_core.sh", "check_prerequisites.sh"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        shutil.copy(ROOT / "tools" / name, tmp_path / "tools")
    (tmp_path / "tools/check_prerequisites.sh").write_text("#!/bin/sh\n")
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        "#!/bin/sh\n"
        "echo '[ 2/32] Cythonizing _core/matching/civ.pyx'\n"
        "echo \"building '_core.matching.civ' extension\"\n"
        "echo 'gcc -O3 -c civ.c'\n"
        "echo 'built 12 of 32: _core.matching.civ'\n"
        "echo '  built 13 of 32: _core.wire.elements'\n"  # pip indents what setup.py says
    )
    python.chmod(0o755)
    ran = subprocess.run(
        [tmp_path / "tools/build_core.sh", "release"], capture_output=True, text=True, check=True
    )
    assert ran.stderr.splitlines() == [
        "  Cythonizing _core/matching/civ.pyx",
        "  12 of 32: _core.matching.civ",
        "  13 of 32: _core.wire.elements",
    ]
