"""Plot style of a report: legible at 720 pixels and with any colour vision."""

from __future__ import annotations

import io
import threading
from functools import cache
from typing import Any, Final

from fleet.report.page import markup
from fleet.report.page.markup import Picture

# From Okabe and Ito, as in the pictures of `fleet lab`.
BLUE, RED, GREEN, PINK, ORANGE, SKY = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
)  # fmt: skip
GREY: Final = "#6b7280"
INK: Final = "#1f2933"
POLICIES: Final = {
    "edfq": BLUE, "fifo": RED, "tedfq": GREEN, "spr": ORANGE, "sanderling": PINK,
}  # fmt: skip
WIDTH: Final = 640
INCH: Final = 100  # CSS pixels
SHARPNESS: Final = 2
FONT: Final = "DejaVu Sans"
LOOK: Final[Any] = {
    "font.family": FONT,
    "font.size": 10.5,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e7ec",
    "legend.frameon": False,
    "figure.facecolor": "white",
    # Otherwise a $ in a name would start a formula.
    "text.parse_math": False,
}

# Matplotlib has one style for all threads.
_DRAWING: Final = threading.Lock()


def text(value: object, longest: int = 28) -> str:
    """A name for a picture: one line, with only characters that the font has."""
    known = _characters()
    return "".join(c if ord(c) in known else "?" for c in markup.plain(value, longest))


@cache
def _characters() -> frozenset[int]:
    from matplotlib import font_manager

    font = font_manager.get_font(font_manager.findfont(FONT))
    return frozenset(font.get_charmap())


def colour_of(policy: str, taken: int = 0) -> str:
    """A policy's colour, the same in all pictures."""
    return POLICIES.get(policy, (GREY, SKY)[taken % 2])


def draw(
    name: str, height: int, alt: str, paint: Any, rows: int = 1, columns: int = 1, **options: Any
) -> Picture:
    """The picture that `paint` draws on ``figure, axes``, `height` CSS pixels high."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with _DRAWING, mpl.rc_context(LOOK):
        figure = Figure(figsize=(WIDTH / INCH, height / INCH), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
        paint(figure, axes)
        buffer = io.BytesIO()
        figure.savefig(
            buffer, format="png", dpi=INCH * SHARPNESS, metadata={"Software": "Sanderling"}
        )
    return Picture(name, buffer.getvalue(), WIDTH, height, alt)
