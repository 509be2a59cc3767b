"""The end of a terminal, and SIGTERM, as Ctrl-C."""

from __future__ import annotations

import io
import signal
import sys
from contextlib import contextmanager

import msgspec
import pytest

from fleet.cli import commands
from fleet.common.interrupts import ENDING, as_interrupts
from fleet.image import assemble, build, emulate, layers, recipe


@contextmanager
def handled(number, by):
    before = signal.signal(number, by)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", ENDING)
def test_what_ends_a_command_interrupts_it_once(number):
    taken = []
    with handled(number, lambda *_: taken.append(number)):
        with as_interrupts():
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
            signal.raise_signal(number)  # while it ends
        assert taken == []
        signal.raise_signal(number)
    assert taken == [number]


@pytest.mark.parametrize("number", ENDING)
def test_what_is_ignored_stays_so(number):
    with handled(number, signal.SIG_IGN), as_interrupts():
        signal.raise_signal(number)


@pytest.mark.parametrize("number", ENDING)
@pytest.mark.parametrize(
    ("module", "work", "words"),
    [
        (build, "build", ["image", "build", "--model", "pi4"]),
        (emulate, "run", ["image", "emulate", "card.img"]),
    ],
)
def test_images_leave_nothing_that_goes_on(tmp_path, monkeypatch, module, work, words, number):
    """mmdebstrap and QEMU have sessions of their own: the end of a terminal does not reach them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fleet.toml").write_text('[fleet]\nname = "f"\n')
    (tmp_path / "card.img").touch()
    monkeypatch.setattr(module, work, lambda *_: signal.raise_signal(number))
    with (
        handled(number, lambda *_: pytest.fail("it is no interrupt")),
        pytest.raises(KeyboardInterrupt),
    ):
        commands.run(words)


@pytest.mark.parametrize("number", ENDING)
def test_what_an_image_was_unpacked_into_is_removed(monkeypatch, number):
    plan = recipe.plan(layers.read_library(), layers.read_recipe("pi4"), {})
    what = assemble.Specification(plan, "root.tar", "bundle", "r", "", 0, "card.img", "work")
    told = io.TextIOWrapper(io.BytesIO(msgspec.json.encode(what)))
    monkeypatch.setattr("os.umask", lambda _: None)
    monkeypatch.setattr(sys, "stdin", told)
    monkeypatch.setattr(assemble, "run", lambda _: signal.raise_signal(number))
    with (
        handled(number, lambda *_: pytest.fail("it is no interrupt")),
        pytest.raises(KeyboardInterrupt),
    ):
        assemble.main()
