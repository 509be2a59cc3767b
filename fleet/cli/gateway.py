"""Click commands: `fleet gateway`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fleet.cli.grouped import Grouped
from fleet.cli.options import AS_JSON, NAME, Number

ROLES = ("viewer", "asker", "operator")
HERE = Path("gateway.toml")


def _meant(_context: click.Context, _parameter: click.Parameter, given: Path | None) -> Path:
    """The configuration that is meant where none is named."""
    if given is not None or HERE.exists():
        return given or HERE
    from shlex import quote

    from fleet.query import running
    from fleet.terminal.output import say
    from fleet.testbed import page

    pages = [
        (fleet, config)
        for fleet in running.found()
        if fleet.directory
        and (config := Path(fleet.directory) / page.GATEWAY / page.CONFIG).exists()
    ]
    for number, (fleet, config) in enumerate(pages):
        which = "another, the" if number else "the"
        say(f"{which} page of the {fleet.called} that runs here: --config {quote(str(config))}")
    return pages[0][1] if pages else HERE


CONFIG = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_meant,
    help=f"The gateway's configuration; else {HERE} here, or that of the demo or `fleet up` that "
    "runs here.",
)


@click.group(cls=Grouped, context_settings={"max_content_width": 100})
def gateway() -> None:
    """Who may open a gateway's page and use its API: links and tokens.

    Run it on the gateway's host: the files beside its configuration are changed, and the gateway
    notices at once. docs/run/gateway.md says more.
    """


@gateway.command(short_help="Print a one-time link that opens the page in a browser.")
@CONFIG
@click.option(
    "--role",
    type=click.Choice(ROLES),
    help="What the browser may; by default operator if the gateway has an operator's address, "
    "else asker.",
)
def link(config: Path, role: Any) -> int:
    """Print a link that opens the page in one browser, within ten minutes."""
    from fleet.gateway import access as command

    return command.link(config, role)


@gateway.group(cls=Grouped)
def token() -> None:
    """Tokens for programs: create, list and revoke them."""


@token.command()
@click.argument("name", type=NAME)
@CONFIG
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="viewer",
    show_default=True,
    help="viewer reads, asker also sends queries, operator also sees nodes.",
)
@click.option("--days", type=Number(0, 36_500, min_open=True), help="Days until it expires.")
@click.option(
    "--rate", "rate", type=Number(0, 10_000, min_open=True), help="Requests a second it may send."
)
def create(name: str, config: Path, role: Any, days: float | None, rate: float | None) -> int:
    """Make a token and print it, once."""
    from fleet.gateway import access as command

    return command.create(config, name, role, days, rate)


@token.command(name="list")
@CONFIG
@AS_JSON
def list_(config: Path, as_json: bool) -> int:
    """List the tokens; no secret is shown."""
    from fleet.gateway import access as command

    return command.show(config, as_json=as_json)


@token.command()
@click.argument("name", type=NAME)
@CONFIG
def revoke(name: str, config: Path) -> int:
    """Revoke a token: the gateway refuses it at once."""
    from fleet.gateway import access as command

    return command.revoke(config, name)


@gateway.command()
@CONFIG
def logout(config: Path) -> int:
    """Log out every browser: each needs a new link."""
    from fleet.gateway import access as command

    return command.end_sessions(config)
