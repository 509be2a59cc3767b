"""`sanderling-gateway`: the page, HTTP, MQTT and further outputs of a fleet."""

from __future__ import annotations

import sys
from pathlib import Path

from agent.gateway.config import GatewayConfig, with_outputs
from agent.net.keys import read_publics, read_secrets
from agent.runtime.command_line import FAILED, UNUSABLE, configuration, fail, options, say_ok
from agent.runtime.console import operator_log
from agent.runtime.signals import Start, StopSignal, allow_all_files, log_beside
from agent.wire.config import ConfigError
from agent.wire.predicate_language import read_filter
from agent.wire.predicates import FilterError


def main() -> None:
    """Run the command."""
    given = options("sanderling-gateway", sys.argv[1:])
    start = Start(background=given.background, log=log_beside(given.config))
    own = configuration(given.config, GatewayConfig)
    folder = Path(given.config).parent
    try:
        config = with_outputs(own, folder)
        check(config, folder)
        from agent.gateway.http import server  # --help does without
        from agent.gateway.outputs.configured import check_outputs
        from agent.gateway.tokens import Access

        check_outputs(own, config, folder)
        if given.check:
            server.tls_context(config, folder)
            Access(str(folder / config.access.file))
    except ConfigError as error:
        fail(f"{given.config}: {error}", UNUSABLE)
    except ModuleNotFoundError as error:
        fail(
            f"the gateway needs {error.name}: pip install 'sanderling[gateway]', in a checkout "
            "make setup",
            UNUSABLE,
        )
    if given.check:
        say_ok(given.config)
        return
    allow_all_files()
    say = operator_log(config.gateway.name)
    with StopSignal(on_stdin_eof=given.exit_on_stdin_eof, say=say) as stop:
        try:
            made = server.Server(config, folder, say)
        except ConfigError as error:
            fail(f"{given.config}: {error}", UNUSABLE)
        except OSError as error:
            fail(str(error), FAILED)

        def serves() -> None:
            say(f"listening on {made.url}\n")
            try:
                if link := made.first_link():
                    say(f"open {link} within ten minutes; it works once\n")
            except OSError as error:
                say(
                    f"no link to it: {config.access.file} cannot be written ({error.strerror}); "
                    "`fleet gateway link` makes one later\n"
                )
            start.serves()

        try:
            made.serve(stop, serves)
        except (OSError, ConfigError) as error:
            fail(str(error), FAILED)
        finally:
            made.close()


def check(config: GatewayConfig, folder: Path) -> None:
    """ConfigError for a file or filter that cannot be used."""
    try:
        read_filter(config.alerts.filter)
    except FilterError as error:
        raise ConfigError(f"alerts.filter: {error}") from None
    for key in (config.master.key, *[each.key for each in config.every_operator]):
        if key:
            read_secrets(str(folder / key))
    for keys in (*config.master.keys, *[each.keys for each in config.every_operator]):
        if keys:
            read_publics(str(folder / keys))


if __name__ == "__main__":
    main()
