"""Remarks on an answer, in words: unknown names, windows that are not held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from agent.client.unknown_areas import is_unknown, without_unknown
from agent.wire.listing import alike, few, hint
from agent.wire.messages import Answer, Missing, Slo
from fleet.terminal.summary import held_of, labelled, longest_pause, not_given
from fleet.terminal.units import format_duration

DEFAULT_SERVICE: Final = "default"
# Names in one sentence; the others are counted.
MAX_NAMED: Final = 4


def apart(
    answer: Answer, slo: Slo, channels: Sequence[str] = (), service: str = DEFAULT_SERVICE
) -> tuple[Answer | None, list[str]]:
    """The answer about what there is, None if there is nothing of that; and a sentence for each
    kind of name in the query that nobody knows. Such a name is a mistake of the query: it makes no
    answer partial and misses no SLO."""
    gaps = [gap for gap in answer.missing if is_unknown(gap)]
    wrong = no_area(gaps, service)
    if gaps:
        answer = without_unknown(answer, slo)
    if not answer.results and answer.missing:
        if all(gap.reason == "no_channel" for gap in answer.missing):
            return None, [*wrong, no_channel(answer.missing, channels)]
    elif not answer.results and wrong:
        return None, wrong
    return answer, wrong


def no_area(gaps: Sequence[Missing], service: str) -> list[str]:
    """What is said of areas that are unknown."""
    where = "" if service == DEFAULT_SERVICE else f" in service {service}"
    told = [
        f"no area {gap.area}{where}; did you mean {gap.nearest[0]}?" for gap in gaps if gap.nearest
    ]
    others = [gap.area for gap in gaps if not gap.nearest]
    if others:
        told.append(f"no area {few(others, MAX_NAMED)}{where}; `fleet areas` lists what there is")
    return told


def no_channel(gaps: Sequence[Missing], channels: Sequence[str]) -> str:
    """What is said where no area has any of the channels, and which there are."""
    there = sorted({name for gap in gaps for name in gap.channels})
    areas = [labelled(gap.area, gap.name) for gap in gaps]
    text = f"no channel {' or '.join(channels)} in {few(areas, MAX_NAMED)}"
    if there:
        text += f"; there are {few(there, 16)}" if len(there) > 1 else f"; there is {there[0]}"
    near = next(filter(None, (alike(channel, there) for channel in channels)), "")
    return text + hint(near)


def not_held(answer: Answer, asked_s: float) -> str:
    """How much less than the window the nodes hold; empty if all of it."""
    if (held := held_of(answer)) is None:
        return ""
    is_most = any(each.buckets is not None for each in answer.results)
    return held_only(*held, asked_s, is_most=is_most)


def held_only(area: str, held_s: float, areas: int, asked_s: float, *, is_most: bool) -> str:
    """That `area` holds least, of so many areas that hold less than asked. It is the most that it
    may hold where buckets were asked: they do not say where in them the readings are."""
    least, asked = format_duration(round(held_s)), format_duration(asked_s)
    least = f"at most {least}" if is_most else least
    if areas == 1:
        return f"{area} holds {least} of the {asked} asked"
    return f"{areas} areas hold less than the {asked} asked, {area} only {least}"


def nobody_gives(channels: Sequence[str]) -> str:
    """That a part of the channels asked is nowhere."""
    return f"no area that answered gives {', '.join(channels)}"


def remarks(answer: Answer, channels: Sequence[str], asked_s: float) -> Iterator[str]:
    """Lines about what an answer gives less of than was asked, though it is complete."""
    if lacking := not_given(answer, channels):
        yield nobody_gives(lacking)
    if text := not_held(answer, asked_s):
        yield text
    if (pause := longest_pause(answer, asked_s)) is not None:
        area, pause_s, areas = pause
        longest = format_duration(round(pause_s))
        yield (
            f"{area} has no readings for {longest} in between"
            if areas == 1
            else f"{areas} areas have no readings for a while in between, {area} for {longest}"
        )
