"""`fleet plan` in this process."""

from collections.abc import Callable

import pytest

from fleet.cli.commands import run


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the command: status, stdout, stderr."""

    def called(*arguments: str) -> tuple[int, str, str]:
        status = run(["plan", *arguments])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return called
