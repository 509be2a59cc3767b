"""What a lock says for one target."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.release.lock import pinned
from fleet.release.target import PYTHON_OF, Target, parse

ONE, TWO, THREE = "1" * 64, "2" * 64, "a" * 64
LOCK = f"""\
# made by a program
every-where==1.0 \\
    --hash=sha256:{ONE} \\
    --hash=sha256:{TWO}
    # via something
on_a.pi==2.0 ; platform_machine == 'aarch64' \\
    --hash=sha256:{THREE}
    # via
    #   -c another lock
elsewhere==3 ; implementation_name == 'pypy' \\
    --hash=sha256:{THREE}
old==4 ; python_full_version < '3.12' \\
    --hash=sha256:{THREE}
"""


@pytest.mark.parametrize(
    ("target", "names"),
    [
        (Target("aarch64", "3.11"), ["every-where", "on-a-pi", "old"]),
        (Target("aarch64", "3.13"), ["every-where", "on-a-pi"]),
        (Target("x86_64", "3.11"), ["every-where", "old"]),
    ],
)
def test_markers_are_the_targets(target, names):
    assert [pin.name for pin in pinned(LOCK, target)] == names


def test_versions_and_all_hashes_are_read():
    first = pinned(LOCK, Target("x86_64", "3.13"))[0]
    assert (first.version, first.sha256) == ("1.0", {ONE, TWO})
    assert str(first) == f"every-where==1.0 --hash=sha256:{ONE} --hash=sha256:{TWO}"


@pytest.mark.parametrize("python", PYTHON_OF.values())
def test_the_lock_of_a_release_pins_all_with_hashes(python):
    text = (Path(__file__).parents[3] / "locks/release.txt").read_text()
    on_pi = pinned(text, Target("aarch64", python))
    elsewhere = pinned(text, Target("x86_64", python))
    assert all(pin.sha256 for pin in on_pi)
    assert {pin.name for pin in on_pi} - {pin.name for pin in elsewhere} == {"gpiod"}
    assert {"pyzmq", "msgspec", "psutil", "sdnotify"} <= {pin.name for pin in elsewhere}


def test_a_targets_name_is_read_back():
    assert parse(str(Target("aarch64", "3.13"))) == Target("aarch64", "3.13")


@pytest.mark.parametrize("text", ["", "aarch64", "aarch64-py2.7", "z80-py3.11", "aarch64-py"])
def test_other_names_are_none(text):
    with pytest.raises(ValueError, match="is no target"):
        parse(text)
