"""Options that several experiments share, beside those of `fleet.cli.options`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

JOBS = click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="one for each processor",
    help="Processes at work.",
)


def results_in(default: str, what: str) -> Callable[[F], F]:
    """The option for the folder of an experiment's results; `what` ends in go or goes."""
    return click.option(
        "--results",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(default),
        show_default=True,
        help=f"Where {what}.",
    )
