"""Processor registry: builds processors by name, including those of other packages.

A processor is imported when it is built, so that unused ones take no memory.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from agent.wire.config import ConfigError, Section, parse
from processors.base import Process, ProcessorError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Each module has Parameters, a Section, channels_of(parameters: Parameters) -> tuple[str, ...], and
# open_processor(parameters: Parameters) -> Process.
PROCESSORS: Final = {
    "aggregate": "processors.aggregate",
    "anomaly": "processors.anomaly",
    "comfort_index": "processors.comfort_index",
    "forecast": "processors.forecast",
    "threshold": "processors.threshold",
}
# Other packages name theirs in this group of entry points: name = "module:process".
GROUP: Final = "sanderling.processors"


def open_processor(name: str, parameters: Mapping[str, Any]) -> Process:
    """Build the processor `name`.

    A name outside `PROCESSORS` is looked up in other packages' entry points. ProcessorError in one
    line for an unknown name, one that cannot be imported, and an unknown or invalid parameter.
    """
    given = dict(parameters)
    if name in PROCESSORS:
        module = import_module(PROCESSORS[name])
        try:
            built: Process = module.open_processor(parse(given, module.Parameters, name))
        except ConfigError as error:
            raise ProcessorError(str(error)) from None
        return built
    return _open_foreign(name, given)


def channels_of(name: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The channels that the processor `name` uses; empty for those of other packages, which do not
    say. ProcessorError in one line for an invalid parameter."""
    if name not in PROCESSORS:
        return ()
    module = import_module(PROCESSORS[name])
    try:
        used: tuple[str, ...] = module.channels_of(parse(dict(parameters), module.Parameters, name))
    except ConfigError as error:
        raise ProcessorError(str(error)) from None
    return used


def _open_foreign(name: str, given: dict[str, Any]) -> Process:
    point = _entry_point(name)
    package = point.dist.name if point.dist else point.value
    try:
        process = point.load()
    except MemoryError:
        raise
    except BaseException as error:
        line = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ProcessorError(f"{name} (of package {package}) cannot be imported: {line}") from error
    try:
        return _with_parameters(name, process, given)
    except ConfigError as error:
        raise ProcessorError(str(error)) from None
    except (TypeError, ValueError) as error:
        line = str(error).partition("\n")[0]
        raise ProcessorError(f"{name} (of package {package}): {line}") from error


def _with_parameters(name: str, process: object, given: dict[str, Any]) -> Process:
    """`process` with its parameters: its arguments that can only be given by name."""
    if not callable(process):
        raise TypeError(f"{process!r} is not callable")
    fields: list[Any] = []
    positional = 0
    for argument in inspect.signature(process, eval_str=True).parameters.values():
        if argument.kind is argument.KEYWORD_ONLY:
            fields.append(_field(argument))
        elif argument.kind in (argument.POSITIONAL_ONLY, argument.POSITIONAL_OR_KEYWORD):
            positional += 1
    if positional != 2:
        raise TypeError(
            f"process(message, state) takes two arguments, further ones by name; "
            f"this takes {positional}"
        )
    kind = msgspec.defstruct("Parameters", fields, bases=(Section,), frozen=True, kw_only=True)
    values = msgspec.structs.asdict(parse(given, kind, name))
    return cast("Process", partial(process, **values) if values else process)


def _field(argument: inspect.Parameter) -> Any:
    default = argument.default
    kind: Any = argument.annotation
    if kind is argument.empty:
        kind = Any if default in (None, argument.empty) else type(default)
    if default is argument.empty:
        return (argument.name, kind)
    return (argument.name, kind, default)


def _entry_point(name: str) -> EntryPoint:
    """The entry point `name`; ProcessorError unless exactly one package has it."""
    from importlib.metadata import entry_points  # costs memory, needed only for these processors

    from sensors.base import nearest  # only an error needs it

    found = entry_points(group=GROUP)
    points = tuple(found.select(name=name))
    if not points:
        known = nearest(name, [*PROCESSORS, *found.names])
        raise ProcessorError(f"unknown processor {name}; {known}")
    if len(points) > 1:
        packages = sorted([point.dist.name if point.dist else point.value for point in points])
        raise ProcessorError(
            f"processor {name} comes with the packages {' and '.join(packages)}: remove one"
        )
    return points[0]
