"""The import-linter contract "circles": no files import one another in a circle.

Imports inside functions and for type checking count, too: whoever reads one file of a circle has to
read all of it.
"""

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class CirclesContract(Contract):
    """Breaks where files of the root packages import one another."""

    type_name = "circles"

    # ARG002: import-linter passes verbose by name.
    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        """Look at every import until a circle is found. O(files + imports)."""
        roots = self.session_options["root_packages"]
        own = {name for name in graph.modules if name.split(".")[0] in roots}
        circle = find_circle(
            {
                name: graph.find_modules_directly_imported_by(name) & own - {name}
                for name in sorted(own)
            }
        )
        return ContractCheck(kept=not circle, metadata={"circle": circle})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the circle."""
        output.print_error(f"- {' imports '.join(check.metadata['circle'])}", bold=False)


def find_circle(imported: Mapping[str, set[str]]) -> list[str]:
    """A circle, from one file back to itself, of files that each import the next; [] if there is
    none. `imported` are those that each file imports."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]
    return []
