"""`sanderling-master`: the agent that schedules for an IAD."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agent.command_line import FAILED, UNUSABLE, configuration, fail, options, say_ok
from agent.master.master import Master
from agent.metrics.library import problem
from agent.process import StopSignal
from agent.wire.master_config import MasterConfig


def main() -> None:
    """Run the command."""
    given = options("sanderling-master", sys.argv[1:])
    config = configuration(given.config, MasterConfig)
    if (wrong := problem(config.metrics)) is not None:
        fail(f"{given.config}: {wrong}", UNUSABLE)
    if given.check:
        say_ok(given.config)
        return
    with StopSignal(on_stdin_eof=given.exit_on_stdin_eof) as stop:
        try:
            master = Master(config, Path(given.config).parent, run=os.urandom(6).hex())
        except OSError as error:
            fail(str(error), FAILED)
        try:
            master.serve(stop)
        finally:
            master.close()


if __name__ == "__main__":
    main()
