"""`fleet topic`: topics of a master, through its operator socket; messages to topics, through its
public one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from agent.client import Client, NoReplyError, Operator, PublishError
from agent.client.publishing import ATTRIBUTE
from agent.net.keys import KeyFiles
from agent.processing.definition import Limits
from agent.wire.listing import alike
from agent.wire.placement import ShowPlacement
from agent.wire.predicates import Value
from agent.wire.topics import (
    CreateTopic,
    EnableTopic,
    ListTopics,
    Parameter,
    RemoveTopic,
    Topic,
    TopicReport,
    TopicRequest,
)
from fleet.common import exits
from fleet.query import replies, topic_screen
from fleet.terminal import screen
from fleet.terminal.units import parse_duration

LIMITS: Final = Limits.__struct_fields__
# How long a master is asked for what others keep.
LOOK_MS: Final = 1_000.0


class Asker(Struct, frozen=True):
    """The connection that a command uses, and how it prints the result."""

    operator: str
    timeout_ms: float
    as_json: bool
    keys: KeyFiles | None

    def create(self, name: str, **fields: Any) -> int:
        """Create a topic; returns the exit status."""
        if problem := _why_not(fields):
            return exits.fail(problem, exits.USAGE)
        try:
            topic = msgspec.convert({"name": name, **fields}, Topic)
        except msgspec.ValidationError as error:
            return exits.fail(str(error), exits.USAGE)
        return self._change(CreateTopic("create", topic), f"topic {name} created")

    def remove(self, name: str) -> int:
        """Remove a topic; returns the exit status."""
        return self._change(RemoveTopic("remove", name), f"topic {name} removed")

    def enable(self, name: str) -> int:
        """Start a topic's processor again; returns the exit status."""
        return self._change(EnableTopic("enable", name), f"the processor of {name} starts again")

    def list(self) -> int:
        """Print all topics; returns the exit status."""
        report = self._ask(ListTopics("list"))
        if isinstance(report, int):
            return report
        if self.as_json:
            replies.write_json(report)
        else:
            console = screen.console()
            topic_screen.show_list(console, report.topics)
            for name, iad in sorted(report.moved.items()):
                screen.line(console, f"{name} has moved to {iad}")
        return exits.DONE

    def show(self, name: str) -> int:
        """Print one topic; returns the exit status."""
        report = self._ask(ListTopics("show"))
        if isinstance(report, int):
            return report
        found = [each for each in report.topics if each.topic.name == name]
        moved = {name: report.moved[name]} if name in report.moved else {}
        if not found and not moved:
            return exits.fail(self._not_here(name, report), exits.FAILED)
        if self.as_json:
            shown = TopicReport(report.id, ok=True, topics=tuple(found), moved=moved)
            replies.write_json(shown)
        elif not found:
            screen.line(
                screen.console(),
                f"topic {name} has moved to {moved[name]}; ask its master (--iad {moved[name]})",
            )
        else:
            topic_screen.show_topic(screen.console(), found[0])
        return exits.DONE

    def _not_here(self, name: str, report: TopicReport) -> str:
        """Why a topic cannot be shown: another master has it, or another name was meant."""
        known = [each.topic.name for each in report.topics]
        near = alike(name, known)
        hint = f"did you mean {near}? Or see fleet topic list" if near else "see fleet topic list"
        try:
            with Operator(self.operator, self.keys) as link:
                placed = link.ask_placement(ShowPlacement("show"), min(self.timeout_ms, LOOK_MS))
        except (NoReplyError, ValueError):
            return f"no topic {name} here; {hint}"
        for each in placed.known:
            if any(topic.name == name for topic in each.facts.topics):
                iad = each.facts.iad
                return f"topic {name} is kept by {iad}; ask its master (--iad {iad})"
        return f"no topic {name} here; {hint}"

    def _change(self, request: TopicRequest, done: str) -> int:
        report = self._ask(request)
        if isinstance(report, int):
            return report
        if self.as_json:
            replies.write_json(report)
        if not report.ok:
            return exits.fail(f"refused: {report.message}", exits.REFUSED)
        if not self.as_json:
            # Where a topic has moved, only the forwarding entry was removed; a processor that was
            # not stopped does not start again.
            instead = isinstance(request, RemoveTopic | EnableTopic) and report.message
            said = f"{done}; {report.message}" if report.message else done
            screen.line(screen.console(), report.message if instead else said)
        return exits.DONE

    def _ask(self, request: TopicRequest) -> TopicReport | int:
        """The report, or the exit status of a failure."""
        try:
            with Operator(self.operator, self.keys) as link:
                return link.ask_topic(request, self.timeout_ms)
        except (NoReplyError, ValueError) as error:
            return replies.fail(error, f"{self.operator} is no report about topics", "operator")


def publish(
    master: str,
    name: str,
    attributes: dict[str, Any],
    patience_s: float,
    keys: KeyFiles | Sequence[KeyFiles] | None = None,
) -> int:
    """Publish a message; returns the exit status."""
    if lists := [attribute for attribute, value in attributes.items() if isinstance(value, tuple)]:
        return exits.fail(f"{lists[0]} is a list; an attribute is one value", exits.USAGE)
    try:
        with Client(master, keys) as client:
            note = client.publish(name, attributes, patience_s=patience_s)
    except PublishError as error:
        return exits.fail(f"refused: {error}", exits.REFUSED)
    except (NoReplyError, ValueError) as error:
        return replies.fail(error, f"{master} is none to a message for a topic", "public")
    screen.line(screen.console(), f"published to topic {name}{f'; {note}' if note else ''}")
    return exits.DONE


def setting(text: str) -> tuple[str, Parameter]:
    """``name=value``: a number, ``true`` or ``false``, a list of JSON such as ``["a","b"]``, or
    else a text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is not name=value; write warm_above=26.5")
    if not ATTRIBUTE.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name; write a-z, 0-9 and _, a letter first, at most 32 characters"
        )
    if value.startswith("["):
        try:
            return name, msgspec.json.decode(value, type=tuple[Value, ...])
        except msgspec.MsgspecError:
            raise ValueError(f'{value!r} is no list; write {name}=["a","b"]') from None
    if value in ("true", "false"):
        return name, value == "true"
    try:
        number = float(value)
    except ValueError:
        return name, value
    if not math.isfinite(number):
        raise ValueError(f"{text!r}: {value} is no number that can be sent")
    return name, number


def limit(text: str) -> tuple[str, float]:
    """``memory=128M``, ``cpu=0.5s``, ``waiting=5000``: a limit by its name, for which memory stands
    as well as memory_bytes; bytes may have K, M or G (of 1,024), times a unit of time."""
    name, equals, value = text.partition("=")
    known = {each.removesuffix("_bytes").removesuffix("_s"): each for each in LIMITS}
    # Of two that would have one name, such as waiting and waiting_bytes, it is the shorter.
    known |= {each: each for each in LIMITS}
    if not equals or name not in known:
        raise ValueError(f"{text!r} is no limit; name=value with one of {', '.join(LIMITS)}")
    field = known[name]
    try:
        if field.endswith("_bytes"):
            return field, _bytes(value)
        if field.endswith("_s"):
            return field, parse_duration(value)
        return field, float(int(value))
    except ValueError:
        example = "128M" if field.endswith("_bytes") else "2s" if field.endswith("_s") else "100"
        raise ValueError(f"{value!r} is nothing for {field}; write {name}={example}") from None


def _bytes(text: str) -> float:
    times = {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:].upper(), 1)
    return float(int(text if times == 1 else text[:-1])) * times


def _why_not(fields: dict[str, Any]) -> str:
    areas, every_s, processor = fields["areas"], fields["every_s"], fields["processor"]
    if areas and every_s is None:
        return "say how often the areas are read: --every 5s"
    if every_s is not None and not areas:
        return "--every goes with --area; without areas a topic takes what is published to it"
    if areas and not processor:
        return "readings need a processor to make messages of them: --processor NAME"
    if not processor and (fields["parameters"] or fields["limits"] or fields["slo"] is not None):
        return "--set, --limit and --slo go with --processor"
    return ""
