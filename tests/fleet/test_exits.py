"""A command's error is one line, whatever somebody else has put into it."""

import pytest

from fleet.common import exits


def test_no_terminal_obeys_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.fail("a\nb \x1b[2J\x9b\u202e\udcff é", exits.FAILED) == exits.FAILED
    assert capsys.readouterr().err == "fleet: a b ?[2J??? é\n"
