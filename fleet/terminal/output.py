"""Output conventions of all commands: data on stdout, progress on stderr, prompts only on a
terminal."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import Struct
    from rich.console import Console
    from rich.progress import Progress, TextColumn

# C1, and what changes the direction of text or ends a line.
_CONTROLS: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def whole(value: Any) -> Any:
    """What is to be encoded as JSON for programs: a Struct with all its keys, also those that a
    message on the wire leaves out as they have their default. A key that is UNSET does not belong
    to this document."""
    import msgspec

    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        if config.array_like:
            return value
        tag = {} if config.tag_field is None else {config.tag_field: config.tag}
        fields = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        found = ((key, getattr(value, name)) for name, key in fields)
        return tag | {key: whole(each) for key, each in found if each is not msgspec.UNSET}
    if isinstance(value, dict):
        return {key: whole(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [whole(each) for each in value]
    return value


def json_text(encoded: bytes) -> str:
    """JSON for stdout, which may be a terminal: those controls that JSON lets stand are escaped as
    it escapes the others. It is the same document."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded.decode())


def write_json(document: Struct) -> None:
    """Print one JSON document, for programs: the whole of stdout."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(whole(document)), indent=2)
    sys.stdout.write(json_text(text) + "\n")


def write_json_line(document: Struct) -> None:
    """Print one document on a line of its own and flush, for output that continues."""
    import msgspec

    sys.stdout.write(json_text(msgspec.json.encode(whole(document))) + "\n")
    sys.stdout.flush()


def printable(text: str) -> str:
    """`text` without control characters that would move a terminal's cursor or change its
    colours."""
    return "".join([c if c.isprintable() or c == "\t" else "?" for c in text])


def once(say: Callable[[str], None]) -> Callable[[str], None]:
    """`say`, but each line only once: work for many targets often prints the same."""
    said = set()

    def say_new(line: str) -> None:
        if line not in said:
            said.add(line)
            say(line)

    return say_new


def say(text: str) -> None:
    """Print one line of progress; control characters from hosts are removed. On a terminal it is
    folded between words."""
    line = printable(" ".join(text.split()))
    if sys.stderr.isatty():
        line = _folded(line)
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _folded(line: str) -> str:
    import shutil
    import textwrap

    return textwrap.fill(
        line,
        shutil.get_terminal_size().columns,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def say_as_it_is(text: str) -> None:
    """The same, with leading blanks kept."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def hosts_bar(console: Console) -> Progress:
    """A transient progress bar over many hosts: number, elapsed time, and as its description the
    latest event."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    return Progress(
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        words("{task.description}"),
        console=console,
        transient=True,
        expand=True,
    )


def words(template: str) -> TextColumn:
    """A text beside a bar, in a Progress that expands: on a narrow terminal it is folded, and takes
    no room from the other columns."""
    from rich.progress import TextColumn
    from rich.table import Column

    return TextColumn(template, markup=False, table_column=Column(overflow="fold", ratio=1))


def confirm(question: str, *, yes: bool) -> bool:
    """Whether to go on: `yes`, or the answer on the terminal. Without a terminal there is no
    prompt, but click.UsageError, status 2, which says that --yes is needed."""
    if yes:
        return True
    require_terminal(question)
    return click.confirm(question, err=True)


def require_terminal(question: str) -> None:
    """click.UsageError if no prompt is possible; call it before any work is done for the
    question."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{question} There is no terminal to ask on: give --yes")
