"""`sanderling-drs`: the registration service of a market, or a mirror of one."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.command_line import FAILED, UNUSABLE, configuration, fail, options, say_ok
from agent.drs.server import Server
from agent.metrics.library import problem
from agent.process import StopSignal
from agent.wire.drs_config import DrsConfig


def main() -> None:
    """Run the command."""
    given = options("sanderling-drs", sys.argv[1:])
    config = configuration(given.config, DrsConfig)
    if (wrong := problem(config.metrics)) is not None:
        fail(f"{given.config}: {wrong}", UNUSABLE)
    if given.check:
        say_ok(given.config)
        return
    with StopSignal(on_stdin_eof=given.exit_on_stdin_eof) as stop:
        try:
            server = Server(config, Path(given.config).parent)
        except OSError as error:
            fail(str(error), FAILED)
        try:
            server.serve(stop)
        finally:
            server.close()


if __name__ == "__main__":
    main()
