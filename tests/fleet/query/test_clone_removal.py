"""`fleet clone`: what it says about a change."""

from __future__ import annotations

import pytest

from agent.wire.clones import CloneReport
from fleet.cli.commands import run
from fleet.common import exits

AWAY = "it ends as soon as that is possible: the master of iad2, where it lives, cannot be reached"


class Master:
    """Answers every request with `message`."""

    message = ""

    def __init__(self, *_) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def ask_clone(self, request, _timeout_ms):
        return CloneReport(request.id, ok=True, message=self.message)


@pytest.mark.parametrize(
    ("message", "line"),
    [("", "iad1/n1 has no clone any more"), (AWAY, f"clone of iad1/n1: {AWAY}")],
)
def test_a_clone_that_is_still_there_is_not_said_to_be_gone(monkeypatch, capsys, message, line):
    monkeypatch.setattr("fleet.query.clone.Operator", Master)
    monkeypatch.setattr(Master, "message", message)
    assert run(["clone", "remove", "iad1/n1", "--operator", "ipc:///run/o"]) == exits.DONE
    assert " ".join(capsys.readouterr().out.split()) == line
