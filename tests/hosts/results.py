"""What the scenarios saw, for docs/results/deploy.md."""

from __future__ import annotations

from typing import Final, NamedTuple

from lab import provenance
from testkit.root_file_system import ROOT

PAGE: Final = ROOT / "docs/results/deploy.md"
COMMAND: Final = "make test-hosts ARGS=results"
BEGIN: Final = "<!-- written by `make test-hosts ARGS=results` -->"
FIGURES: Final = "<!-- written by `SANDERLING_HOSTS=results python -m bench fleet` -->"
END: Final = "<!-- end -->"


class Row(NamedTuple):
    """A scenario: what was done to the fleet, the very lines that it printed, and what then was."""

    done: str
    said: tuple[str, ...]
    then: str


class Results:
    """The rows of the table, in order."""

    def __init__(self) -> None:
        self.provenance = provenance.now(COMMAND)
        self.rows: list[Row] = []

    def tell(self, done: str, said: str | tuple[str, ...], then: str) -> None:
        """Add a row."""
        self.rows.append(Row(done, (said,) if isinstance(said, str) else said, then))

    def write(self) -> None:
        """Put the table into the page, in place of the one before."""
        put(BEGIN, self.table())

    def table(self) -> str:
        """The table in Markdown, and where it is from."""
        lines = ["| what was done | what it said | and then |", "|---|---|---|"]
        for row in self.rows:
            # What is said may have backticks itself.
            said = "<br>".join(f"`` {_cell(line)} ``" for line in row.said)
            lines.append(f"| {_cell(row.done)} | {said} | {_cell(row.then)} |")
        return "\n".join([self.provenance.table().markdown(), "", *lines])


def put(begin: str, text: str) -> None:
    """Put `text` into the page, between `begin` and the next end."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
