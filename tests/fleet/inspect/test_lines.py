"""Whole lines out of bytes that come in any pieces."""

from hypothesis import given
from hypothesis import strategies as st

from fleet.inspect.lines import MAX_LINE, Lines
from fleet.terminal.output import printable, say


@given(st.lists(st.binary(max_size=20)))
def test_lines_do_not_depend_on_how_the_bytes_are_cut(pieces):
    cut = Lines()
    found = [line for piece in pieces for line in cut.feed(piece)] + cut.end()
    whole = b"".join(pieces)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert found == [each.decode(errors="replace").removesuffix("\r") for each in expected]


def test_a_line_without_end_does_not_fill_the_memory():
    cut = Lines()
    found = [line for _ in range(40) for line in cut.feed(b"x" * 10_000)] + cut.end()
    assert "".join(found) == "x" * 400_000
    assert max(map(len, found)) <= MAX_LINE


def test_what_moves_the_cursor_is_not_shown():
    assert printable("a\x1b[2Jb\tc\x07°") == "a?[2Jb\tc?°"


def test_progress_does_not_let_a_host_steer_the_terminal(capsys):
    say("n1: it wrote: \x1b[2J\x1b]0;owned\x07 done")
    assert capsys.readouterr().err == "n1: it wrote: ?[2J?]0;owned? done\n"
