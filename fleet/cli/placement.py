"""Click commands: `fleet placement`."""

from __future__ import annotations

import click


@click.group(context_settings={"max_content_width": 100})
def placement() -> None:
    """Where topics and homes live."""
