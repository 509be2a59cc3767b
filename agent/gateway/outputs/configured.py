"""The outputs that a gateway's configuration names."""

from __future__ import annotations

from pathlib import Path

from agent.gateway.config import GatewayConfig
from agent.gateway.outputs.base import Output, Sources
from agent.gateway.outputs.from_config import check_output
from agent.wire.config import ConfigError


def check_outputs(own: GatewayConfig, whole: GatewayConfig, folder: Path) -> None:
    """ConfigError in one line for a filter or a file that cannot be used; nothing is made. `whole`
    has the sections of the file of outputs, too: what is wrong in these names that file."""
    _check(own, folder)
    try:
        _check(whole, folder)
    except ConfigError as error:
        raise ConfigError(f"{folder / own.gateway.outputs}: {error}") from None


def _check(config: GatewayConfig, folder: Path) -> None:
    check_output(config.mqtt, folder, "mqtt")
    check_output(config.line_protocol, folder, "line_protocol")
    for each in config.ntfy:
        check_output(each, folder, "ntfy", f" of {each.name}")
    check_output(config.email, folder, "email")


def outputs_of(config: GatewayConfig, sources: Sources) -> list[Output]:
    """Make them; ConfigError in one line for a file that cannot be used, OSError for a store that
    cannot. The cursors of outputs that are not there any more are forgotten."""
    made: list[Output] = []
    # Each loads what it needs, and the others nothing.
    if config.mqtt is not None:
        from agent.gateway.outputs.mqtt import MqttOutput

        made.append(MqttOutput(config.mqtt, sources))
    if config.line_protocol is not None:
        from agent.gateway.outputs.lines import LinesOutput

        made.append(LinesOutput(config.line_protocol, sources))
    if config.ntfy:
        from agent.gateway.outputs.ntfy import ntfy_output

        made += [ntfy_output(each, sources) for each in config.ntfy]
    if config.email is not None:
        from agent.gateway.outputs.mail import email_output

        made.append(email_output(config.email, sources))
    sources.alerts.keep_cursors([each.name for each in made])
    return made
