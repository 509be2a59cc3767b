"""`sanderling-drs`: the registration service of a market, as leader or read replica."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.metrics.library import problem
from agent.net.secure_sockets import check as check_trust
from agent.runtime.command_line import FAILED, UNUSABLE, configuration, fail, options, say_ok
from agent.runtime.console import operator_log
from agent.runtime.signals import Start, StopSignal, allow_all_files, log_beside
from agent.wire.config import ConfigError
from agent.wire.drs_config import DrsConfig


def main() -> None:
    """Run the command."""
    given = options("sanderling-drs", sys.argv[1:])
    start = Start(background=given.background, log=log_beside(given.config))
    config = configuration(given.config, DrsConfig)
    if (wrong := problem(config.metrics)) is not None:
        fail(f"{given.config}: {wrong}", UNUSABLE)
    folder = Path(given.config).parent
    try:
        check_trust(config.trust, folder, config.mirror.primary_keys)
    except ConfigError as error:
        fail(f"{given.config}: {error}", UNUSABLE)
    if given.check:
        say_ok(given.config)
        return
    from agent.directory.server import Server  # --check, --help and --version do without, sooner

    allow_all_files()
    say = operator_log("sanderling-drs")
    with StopSignal(on_stdin_eof=given.exit_on_stdin_eof, say=say) as stop:
        try:
            server = Server(config, folder)
        except (OSError, ConfigError) as error:
            fail(str(error), FAILED)
        try:
            start.serves()  # its socket is bound
            server.serve(stop)
        finally:
            server.close()


if __name__ == "__main__":
    main()
