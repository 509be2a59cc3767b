"""Files damaged beyond what a power cut does: bits that flipped, ranges overwritten, ends cut off.

Nothing is asked of what such a file held, but it must never keep the agent from starting, and what
is put aside must be reported.
"""

from __future__ import annotations

from random import Random
from typing import Final

# The file of an edge node that holds most.
HISTORY: Final = "history.sqlite"


def damaged(files: dict[str, bytes], draw: Random) -> tuple[dict[str, bytes], str]:
    """The files with one of them damaged, and what was done."""
    names = [name for name, content in files.items() if content and not name.endswith("-shm")]
    weights = [8 if name == HISTORY else 3 for name in names]
    if not names:
        return files, "nothing"
    name = draw.choices(names, weights)[0]
    content = bytearray(files[name])
    kind = draw.choices(("bit", "byte", "range", "end", "zeros"), (6, 3, 2, 1, 1))[0]
    at = draw.randrange(len(content))
    length = min(draw.choice((16, 512, 4096)), len(content) - at)
    match kind:
        case "bit":
            content[at] ^= 1 << draw.randrange(8)
        case "byte":
            content[at] = draw.randrange(256)
        case "range":
            content[at : at + length] = draw.randbytes(length)
        case "zeros":
            content[at : at + length] = bytes(length)
        case "end":
            del content[at:]
    return {**files, name: bytes(content)}, f"{name}: {kind} at {at} of {len(files[name])}"
