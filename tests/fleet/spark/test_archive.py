"""The archive of Spark's classes: written once, adopted when it is whole, and never in the way."""

import os
from pathlib import Path

import pytest

from fleet.spark import archive

WHOLE, HALF = b"\xa8\xba\x0b\xf0rest", bytes(4) + b"rest"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sanderling"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Java with an archive of its own classes."""
    base = tmp_path / "java" / archive.BASES[0]
    base.parent.mkdir(parents=True)
    base.touch()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17"\n')
    return tmp_path / "java"


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark.jar").write_bytes(b"1")
    return tmp_path / "jars"


def written(options: tuple[str, ...]) -> Path:
    """The part that a session is to write."""
    name, _, part = options[0].partition("=")
    assert name == "-XX:ArchiveClassesAtExit"
    return Path(part)


def used(options: tuple[str, ...]) -> Path:
    name, _, file = options[0].partition("=")
    assert name == "-XX:SharedArchiveFile"
    return Path(file)


def test_the_first_session_writes_it_and_the_next_ones_use_it(
    cache: Path, home: Path, jars: Path
) -> None:
    part = written(archive.options(home, jars))
    part.write_bytes(WHOLE)
    file = used(archive.options(home, jars))
    assert file.read_bytes() == WHOLE
    assert used(archive.options(home, jars)) == file
    assert list(cache.iterdir()) == [file]


def test_while_one_session_is_to_write_it_others_do_without(
    home: Path, jars: Path, cache: Path
) -> None:
    part = written(archive.options(home, jars))
    assert archive.options(home, jars) == ()
    part.write_bytes(HALF)
    assert archive.options(home, jars) == ()
    part.write_bytes(WHOLE)
    used(archive.options(home, jars))


def test_a_part_whose_session_was_killed_keeps_nobody_from_writing(
    home: Path, jars: Path, cache: Path
) -> None:
    part = written(archive.options(home, jars))
    part.write_bytes(HALF)
    os.utime(part, (0, 0))
    written(archive.options(home, jars))


def test_other_jars_or_another_java_have_another_archive(
    home: Path, jars: Path, cache: Path
) -> None:
    part = written(archive.options(home, jars))
    (jars / "spark.jar").write_bytes(b"22")
    other = written(archive.options(home, jars))
    (home / "release").write_text('JAVA_VERSION="21"\n')
    assert len({part, other, written(archive.options(home, jars))}) == 3


def test_archives_that_nobody_used_for_long_go_when_another_one_comes(
    home: Path, jars: Path, cache: Path
) -> None:
    cache.mkdir(parents=True)
    old, recent = cache / "spark-old.jsa", cache / "spark-recent.jsa"
    wrapper = cache / "java-1"
    for path in (old, recent, wrapper):
        path.touch()
    for path in (old, wrapper):
        os.utime(path, (0, 0))
    written(archive.options(home, jars)).write_bytes(WHOLE)
    assert old.exists()
    file = used(archive.options(home, jars))
    assert sorted(cache.iterdir()) == sorted([file, recent, wrapper])


def test_without_the_means_there_are_no_options(
    home: Path, jars: Path, cache: Path, tmp_path: Path
) -> None:
    cache.parent.mkdir()
    cache.write_text("a file")
    assert archive.options(home, jars) == ()
    cache.unlink()
    (home / archive.BASES[0]).unlink()
    assert archive.options(home, jars) == ()  # there is no Java to make one
    assert list(cache.iterdir()) == []


JAVA = """\
#!/bin/sh
echo "$@" >> {folder}/calls
for word do
    case $word in -XX:SharedArchiveFile=*) echo base > "${{word#*=}}" ;; esac
done
exit {status}
"""


@pytest.fixture(params=[0, 1])
def bare(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> tuple[Path, int]:
    """A Java without an archive, as that of the wheel, which can make one or fails at it."""
    (home / archive.BASES[0]).unlink()
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA.format(folder=tmp_path, status=request.param))
    java.chmod(0o755)
    return home, request.param


def test_a_java_without_an_archive_of_its_own_gets_one_in_the_cache(
    bare: tuple[Path, int], jars: Path, cache: Path, tmp_path: Path
) -> None:
    home, status = bare
    options = archive.options(home, jars)
    if status:
        assert options == ()
        assert list(cache.iterdir()) == []
        return
    part = written(options)
    base = used(options[1:])
    assert base.read_text() == "base\n"
    part.write_bytes(WHOLE)
    both = str(used(archive.options(home, jars)))
    assert both.split(":") == [str(base), str(part).partition(".part")[0]]
    assert sorted(cache.iterdir()) == sorted(map(Path, both.split(":")))
    [call] = (tmp_path / "calls").read_text().splitlines()
    assert call.startswith("-Xshare:dump ")


def test_a_folder_that_spark_would_split_is_not_used(
    home: Path, jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    assert archive.options(home, jars) == ()
    assert list((tmp_path / "my cache" / "sanderling").iterdir()) == []
