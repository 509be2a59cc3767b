"""Progress of `fleet image build`: a bar on a terminal, otherwise one line per stage."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stages() -> Iterator[Callable[[str], None]]:
    """A function to call with every stage; all output goes to standard error."""
    if not sys.stderr.isatty():
        yield lambda text: print(text, file=sys.stderr, flush=True)
        return
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    from fleet.terminal.output import words
    from fleet.terminal.screen import console, line

    screen = console(stderr=True)
    columns = (SpinnerColumn(), TimeElapsedColumn(), words("{task.description}"))
    started = time.monotonic()
    with Progress(*columns, console=screen, transient=True, expand=True) as progress:
        task = progress.add_task("", total=None)

        def say(text: str) -> None:
            nonlocal started
            now = time.monotonic()
            if done := progress.tasks[0].description:
                line(screen, f"{now - started:5.0f} s  {done}")
            started = now
            progress.update(task, description=text)

        yield say
