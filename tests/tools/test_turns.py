"""In as many turns as there are parts each test file is run once."""

from pathlib import Path

import pytest

from tests.turns import turn

ROOT = Path(__file__).parents[2]
FILES = [str(file.relative_to(ROOT)) for file in ROOT.glob("tests/**/test_*.py")]


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_each_file_has_its_turn_once(parts):
    for begin in (0, 1_234):
        runs = [turn(f"{n}/{parts}") for n in range(begin, begin + parts)]
        assert {sum(is_in(file) for is_in in runs) for file in FILES} == {1}


def test_parts_have_about_as_many_files():
    half = sum(map(turn("1/2"), FILES))
    assert 0.4 * len(FILES) < half < 0.6 * len(FILES)


@pytest.mark.parametrize("text", ["", "1", "1/0", "-1/2", "1/2/3", "a/b"])
def test_what_is_no_turn_is_refused_in_words(text):
    with pytest.raises(ValueError, match=r"two numbers are expected, such as 7/2"):
        turn(text)
