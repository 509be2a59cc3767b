"""What is printed on a narrow terminal: no line is longer than it, and nothing is cut off."""

import io
import random

import pytest
from rich.console import Console
from rich.text import Text

from fleet.terminal import screen
from fleet.terminal.tables import Table
from fleet.terminal.wrapping import folded, whole

WIDTH = 80


def terminal(width=WIDTH):
    return Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system=None, highlight=False
    )


def shown(console):
    return console.file.getvalue().splitlines()


def test_what_fits_stays_as_it_is():
    text = "time             area         metric"
    assert [each.plain for each in folded(Text(text), WIDTH)] == [text]
    assert [each.plain for each in folded(Text(""), WIDTH)] == [""]


def test_a_line_goes_on_below_indented():
    text = Text("    " + "abc " * 12, "red")
    assert [each.plain for each in folded(text, 30)] == [
        "    abc abc abc abc abc abc",
        "    " + "  abc abc abc abc abc abc",
    ]


def test_an_option_keeps_its_value_beside_it():
    text = f"go on with {whole('--durable pager --after 1')} or {whole('end it')}"
    lines = ["go on with", "  --durable pager --after 1 or", "  end it"]
    assert [each.plain for each in folded(Text(text), 30)] == lines
    console, file = terminal(), Console(file=io.StringIO(), width=200)
    for to in (console, file):
        screen.line(to, text)
        assert shown(to) == [" ".join(" ".join(lines).split())]


def test_a_command_between_backticks_stays_whole():
    command = "`fleet deploy --limit iad4/master,iad4/n1`"
    lines = [each.plain for each in folded(Text(f"3 hosts have none: {command} sends it"), 44)]
    assert lines == ["3 hosts have none:", f"  {command}", "  sends it"]
    wide = [each.plain for each in folded(Text(f"first {command} and then"), 34)]
    assert wide == ["first", f"  {command}", "  and then"]


def test_a_lone_backtick_folds_no_prose_away():
    text = "a`b " + "abc " * 60 + "`fleet up`"
    assert max(len(each.plain) for each in folded(Text(text), WIDTH)) <= WIDTH


def test_a_path_stays_whole():
    path = "/a" * 60
    lines = [each.plain for each in folded(Text(f"wrote {path} and more"), WIDTH)]
    assert [line.strip() for line in lines] == ["wrote", path, "and more"]


@pytest.mark.parametrize("seed", range(20))
def test_no_word_is_lost_and_no_line_is_too_long(seed):
    draw = random.Random(seed)
    words = ["x°" * draw.randrange(1, 12) for _ in range(draw.randrange(1, 60))]
    text = " " * draw.randrange(9) + (" " * draw.randrange(1, 3)).join(words)
    width = draw.randrange(34, 120)
    lines = [each.plain for each in folded(Text(text), width)]
    assert " ".join(lines).split() == words
    assert max(map(len, lines)) <= width


def test_a_table_without_room_tells_its_rows_in_words():
    console = terminal()
    table = screen.plain_table("host", "health", *(f"column {n}" for n in range(8)), left=2)
    table.add_row("a1/n1", Text("down", "red"), *(str(10**6 + n) for n in range(7)), "")
    screen.show_table(console, table)
    assert max(map(len, shown(console))) <= WIDTH
    said = " ".join(" ".join(shown(console)).split())
    assert said.startswith("a1/n1 health down column 0 1000000 column 1 1000001 ")
    assert said.endswith("column 6 1000006")  # what is empty is not told


def test_a_table_with_room_stays_one():
    console = terminal()
    table = screen.plain_table("host", "health")
    table.add_row("a1/n1", "ok")
    screen.show_table(console, table)
    assert [line.rstrip() for line in shown(console)] == ["host   health", "a1/n1      ok"]


def test_rows_and_columns_of_a_result_change_places_where_that_makes_it_fit():
    policies = ("FIFO", "SPR", "T-EDFQ", "EDFQ", "Sanderling", "Sanderling, sizes known")
    sizes = ("100 (4 × 25)", "1,000 (20 × 50)", "4,000 (40 × 100)")
    loads = [f"{n}.00 ± 0.31" for n in range(len(policies))]
    rows = [(kind, size, *loads) for kind in ("one k_t", "a k_t each") for size in sizes]
    table = Table("Loads", ("fanouts", "nodes (IADs × nodes)", *policies), rows, left=2)
    console = terminal()
    table.show(console)
    title, *lines = (line.rstrip() for line in shown(console))
    first = ["one k_t", "nodes (IADs × nodes)     100 (4 × 25)  1,000 (20 × 50)  4,000 (40 × 100)"]
    assert (title, lines[:2]) == ("Loads", first)
    assert lines[2].startswith("FIFO  ")
    assert lines[2].count("0.00 ± 0.31") == len(sizes)
    assert lines[8] == "a k_t each"
    assert len(lines) == 2 * (2 + len(policies))
    table.show(wide := terminal(140))
    assert len(shown(wide)) == 2 + len(rows)


def test_a_text_that_is_folded_stands_on_the_left_also_after_numbers():
    console = terminal()
    table = screen.plain_table("unit", "pause", "", left=1, folds=("",))
    table.add_row("processor comfort", "9 ms", "full " * 15 + "up")
    table.add_row("processor means", "12 ms", "")
    screen.show_table(console, table)
    first, last = shown(console)[1:3]
    assert last.rstrip().endswith("up")
    assert len(last.rstrip()) < len(first.rstrip())
    assert last.index("full") == first.index("full")


def test_what_is_to_be_copied_is_not_folded():
    console = terminal()
    command = "fleet query " * 12
    screen.as_it_is(console, command.strip())
    assert shown(console) == [command.strip()]


def test_in_a_pipe_each_row_is_one_line_however_wide():
    console = Console(file=io.StringIO(), width=screen.FILE_WIDTH)
    table = screen.plain_table("node", "what", left=2, folds=("what",))
    table.add_row("n1", "word " * 60 + "end")
    screen.show_table(console, table)
    assert shown(console) == ["node  what", "n1    " + "word " * 60 + "end"]
