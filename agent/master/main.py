"""`sanderling-master`: the agent that schedules for an IAD."""

from __future__ import annotations

import os
import sys

from agent.master.master import Master
from agent.process import StopSignal, arguments, configuration
from agent.wire.config import MasterConfig


def main() -> None:
    """Run the command."""
    options = arguments("sanderling-master", "Run the master of an IAD.")
    config = configuration(options.config, MasterConfig)
    if options.check:
        sys.stdout.write(f"{options.config}: ok\n")
        return
    with StopSignal(on_stdin_eof=options.exit_on_stdin_eof) as stop:
        try:
            master = Master(config, options.config.parent, run=os.urandom(6).hex())
        except OSError as error:
            sys.exit(f"error: {error}")
        try:
            master.serve(stop)
        finally:
            master.close()


if __name__ == "__main__":
    main()
