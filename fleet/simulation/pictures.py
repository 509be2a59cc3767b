"""Plot style of results, with reproducible output: the same numbers give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

# Of Okabe and Ito: told apart with any colour vision.
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
STYLE: Final[Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def pyplot(salt: str) -> Any:
    """matplotlib.pyplot, without a display; `salt` makes the SVG's names repeatable."""
    import matplotlib as mpl  # only a picture needs it

    mpl.use("Agg")
    mpl.rcParams.update({"svg.hashsalt": salt, **STYLE})
    from matplotlib import pyplot as plt

    return plt


def save(figure: Any, path: Path, *, bottom: float = 0.0) -> None:
    """Write a figure, with the share `bottom` of its height left free, and let go of it."""
    from matplotlib import pyplot as plt

    figure.tight_layout(rect=(0, bottom, 1, 1))
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
    plt.close(figure)
