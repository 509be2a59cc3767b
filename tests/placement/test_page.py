"""The example of docs/understand/placement.md prints what stands below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/understand/placement.md"


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"```python\n(.*?)```\n\n((?:    [^\n]*\n)+)", PAGE.read_text(), re.DOTALL)
    assert found is not None
    exec(found[1], {})
    expected = [line.strip() for line in found[2].splitlines()]
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == expected
