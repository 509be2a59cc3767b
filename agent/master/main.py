"""`sanderling-master`: the agent that schedules for an IAD."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Final

from agent.master.placement.latency_model import model_of
from agent.master.push.place import partners_of, place_of
from agent.master.push.webhooks import hooks_of
from agent.metrics.library import problem
from agent.net.secure_sockets import check as check_trust
from agent.runtime import systemd
from agent.runtime.command_line import FAILED, UNUSABLE, configuration, fail, options, say_ok
from agent.runtime.console import operator_log
from agent.runtime.signals import Start, StopSignal, allow_all_files, log_beside
from agent.wire.config import ConfigError
from agent.wire.master_config import MasterConfig

# Objects that are made between two looks for garbage; Python's own number is 700.
GARBAGE: Final = 10_000


def main() -> None:
    """Run the command."""
    given = options("sanderling-master", sys.argv[1:])
    start = Start(background=given.background, log=log_beside(given.config))
    config = configuration(given.config, MasterConfig)
    if (wrong := systemd.problem() or problem(config.metrics)) is not None:
        fail(f"{given.config}: {wrong}", UNUSABLE)
    folder = Path(given.config).parent
    try:
        check_trust(
            config.trust,
            folder,
            config.market.directory_keys,
            config.placement.bootstrap_keys,
            *[member.keys for member in config.pool],
            *[each.keys for each in config.overlay.neighbour],
        )
        place_of(config)
        partners_of(config)
        hooks_of(config, folder)
        model_of(config, folder)
    except ConfigError as error:
        fail(f"{given.config}: {error}", UNUSABLE)
    if given.check:
        say_ok(given.config)
        return
    from agent.master.master import Master  # --check, --help and --version do without, sooner

    allow_all_files()
    say = operator_log(f"sanderling-master {config.iad.name}")
    with StopSignal(on_stdin_eof=given.exit_on_stdin_eof, say=say) as stop:
        try:
            master = Master(config, folder, run=os.urandom(6).hex())
        except ConfigError as error:
            fail(f"{given.config}: {error}", UNUSABLE)
        except OSError as error:
            fail(str(error), FAILED)
        try:
            systemd.tell("READY=1")  # its sockets are bound
            start.serves()
            # What exists now stays: to look through it for garbage takes 20 ms of a turn.
            gc.collect()
            gc.freeze()
            # What a query makes is gone with it, without cycles: a thousand subtasks were looked
            # through five times, at 2 µs each, and what remained every twentieth query, for 16 ms.
            gc.set_threshold(GARBAGE)
            master.serve(stop)
        finally:
            systemd.tell("STOPPING=1")
            master.close()


if __name__ == "__main__":
    main()
