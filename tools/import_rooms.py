"""The import-linter contract "rooms": which room's code may import which other room.

Each line of ``rooms`` reads ``room: room, room`` or ``room: nothing``. A room is a module or a
package with everything below it, except what a line of its own names. Since every module is in a
room and every import is checked, no import can go round the table through a third module.
"""

from collections.abc import Iterable

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class RoomsContract(Contract):
    """Breaks where a module imports a room that its own room's line does not name."""

    type_name = "rooms"

    rooms = fields.ListField(subfield=fields.StringField())
    pure = fields.ListField(subfield=fields.StringField())

    # ARG002: import-linter passes verbose by name.
    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        """Look at every import once."""
        may_import = parse_lines(self.rooms, self.pure)
        roots = self.session_options["root_packages"]
        problems = []
        for module in sorted(name for name in graph.modules if name.split(".")[0] in roots):
            room = find_room(module, may_import)
            if room is None and not any(name.startswith(f"{module}.") for name in may_import):
                problems.append(f"{module} is in no room")
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                target = find_room(imported, may_import)
                if target not in {None, room} and target not in may_import.get(room, ()):
                    problems.append(f"{module} may not import {imported}")
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import that is not allowed."""
        for problem in check.metadata["problems"]:
            output.print_error(f"- {problem}", bold=False)


def parse_lines(lines: Iterable[str], pure: Iterable[str]) -> dict[str, set[str]]:
    """Return the rooms that each room may import; raise ValueError for a name without a line."""
    may_import = {}
    for line in lines:
        room, _, names = line.partition(":")
        allowed = {name.strip() for name in names.split(",")} - {"nothing"}
        if "PURE" in allowed:
            allowed = (allowed - {"PURE"}).union(pure)
        may_import[room.strip()] = allowed
    unknown = set().union(*may_import.values()) - may_import.keys()
    if unknown:
        raise ValueError(f"rooms without a line of their own: {', '.join(sorted(unknown))}")
    return may_import


def find_room(module: str, rooms: Iterable[str]) -> str | None:
    """Return the innermost room that holds a module, None where there is none."""
    holding = [name for name in rooms if f"{module}.".startswith(f"{name}.")]
    return max(holding, key=len, default=None)
