"""Word wrapping to the width of a terminal; nothing is truncated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from fleet.terminal.output import printable

INDENT: Final = 2
# On narrower lines continuation lines are indented less.
LEAST_ROOM: Final = 20
# A blank at which lines are not broken; printed as an ordinary blank.
NO_BREAK: Final = "\u00a0"
# Text from elsewhere may have a backtick of its own: prose up to the next one is longer.
COMMAND: Final = re.compile(r"`[^`\n]{1,160}`")


def whole(words: str) -> str:
    """Words that stay on one line, such as an option and its value."""
    return words.replace(" ", NO_BREAK)


def spaced(text: Text) -> Text:
    """The text with ordinary blanks again."""
    drawn = text.copy()
    drawn.plain = text.plain.replace(NO_BREAK, " ")
    return drawn


def harmless(text: str | Text) -> Text:
    """Text from elsewhere, without control characters that would move the cursor or change
    colours; lines may end."""
    found = text.copy() if isinstance(text, Text) else Text(text)
    found.plain = "\n".join(map(printable, found.plain.split("\n")))
    return found


def folded(text: Text, width: int) -> Iterator[Text]:
    """`text`, made `harmless`, in lines of at most `width` columns; continuation lines are
    indented. A longer word, such as a path, stays whole, so that it can be copied, and so does a
    command between backticks."""
    for each in _with_whole_commands(text).split(allow_blank=True):
        indent = len(each.plain) - len(each.plain.lstrip(" ")) + INDENT
        if width - indent < LEAST_ROOM:
            indent = INDENT
        left, rest = 0, each
        while cell_len(rest.plain) > width - left:
            cut = _cut(rest.plain, width - left)
            if cut is None:
                break
            first, rest = rest.divide([cut])
            first.rstrip()
            yield harmless(spaced(Text(" " * left).append_text(first)))
            rest = rest[len(rest.plain) - len(rest.plain.lstrip(" ")) :]
            left = indent
        rest.rstrip()
        yield harmless(spaced(Text(" " * left).append_text(rest)))


def _with_whole_commands(text: Text) -> Text:
    found = text.copy()
    found.plain = COMMAND.sub(lambda command: whole(command[0]), text.plain)
    return found


def _cut(line: str, room: int) -> int | None:
    """Position to break: at the last blank within the width, otherwise at the first after it."""
    found = None
    column = 0
    for place, letter in enumerate(line):
        if letter == " " and line[:place].strip(" "):
            if column <= room:
                found = place
            elif found is None:
                return place if line[place:].strip(" ") else None
        column += cell_len(letter)
        if column > room and found is not None:
            return found
    return None


def fits(table: Table, screen: Console) -> bool:
    """Whether each column has the room that it needs: a column that folds needs room for its
    longest word."""
    between = table.padding[1] + table.padding[3]
    needed = sum(_least_width(column) + between for column in table.columns)
    return needed - between <= screen.width


def _natural_width(column: Column) -> int:
    texts = [_text(cell).plain for cell in (column.header, *column.cells)]
    return max(cell_len(part) for text in texts for part in text.split("\n"))


def _least_width(column: Column) -> int:
    if column.no_wrap:
        return _natural_width(column)
    texts = [_text(cell).plain for cell in (column.header, *column.cells)]
    longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
    return min(longest, LEAST_ROOM)


def _share(table: Table, width: int) -> None:
    """Give each column that folds room for its longest word, and its part of the rest: Rich, left
    to itself, would break words."""
    between = table.padding[1] + table.padding[3]
    natural = [_natural_width(column) for column in table.columns]
    left = width + between - sum(each + between for each in natural)
    if left >= 0:
        return
    folding = [
        (room, column)
        for room, column in zip(natural, table.columns, strict=True)
        if not column.no_wrap
    ]
    left += sum(room - _least_width(column) for room, column in folding)
    # Those that want least more first: what they leave is for the others.
    folding.sort(key=lambda each: each[0] - _least_width(each[1]))
    for number, (room, column) in enumerate(folding):
        least = _least_width(column)
        column.width = least + min(room - least, left // (len(folding) - number))
        left -= column.width - least


def fitted(part: Table | Text, screen: Console) -> Iterator[RenderableType]:
    """A table unchanged if the terminal is wide enough; otherwise each of its rows as a text: the
    first column, then the others with their headers. A text is folded."""
    if isinstance(part, Text):
        yield from folded(part, screen.width)
    elif fits(part, screen):
        _share(part, screen.width)
        yield part
    else:
        for row in _rows_as_text(part):
            yield from folded(row, screen.width)


def _rows_as_text(table: Table) -> Iterator[Text]:
    if table.title:
        yield _text(table.title)
    columns = [list(column.cells) for column in table.columns]
    headers = [" ".join(_text(column.header).plain.split()) for column in table.columns]
    for cells in zip(*columns, strict=True):
        row = _text(cells[0])
        for header, cell in zip(headers[1:], cells[1:], strict=True):
            said = _text(cell)
            if said.plain.strip():
                row.append("  ").append(f"{header} ", "dim").append_text(said)
        yield row


def _text(cell: RenderableType) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))
