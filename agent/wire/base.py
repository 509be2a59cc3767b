"""Base structs and bounded scalar types of all messages."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from agent.wire.areas import AREA_PATTERN

MAX_AREAS = 1_024
MAX_CHANNELS = 64
MAX_TEXT = 512
MAX_EVENTS = 128  # in one message
MAX_EVENT_AREAS = 16
MAX_DERIVED = 16  # channels that a clone computes for its device
MAX_DERIVED_TOGETHER = 128  # sets of derived values in one message
MAX_MASTERS = 16  # that a node or a client may choose from
# Kinds of events that both ends know.
TRIGGER_RAISED: Final = "trigger_raised"
TRIGGER_CLEARED: Final = "trigger_cleared"
MAX_WINDOW_S = 366 * 86_400.0
MAX_TIMEOUT_MS = 3_600_000.0
# Default answer timeout, as a multiple of the SLO's latency.
TIMEOUT_FACTOR = 4.0

Area = Annotated[str, Meta(pattern=AREA_PATTERN, max_length=512)]
# (?!\n): in Python, $ also matches before a trailing newline.
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$(?!\n)")]
MaybeName = Annotated[str, Meta(pattern=r"^([A-Za-z0-9_.-]{1,64})?$(?!\n)")]
Channel = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$(?!\n)")]
NAME_WORDS: Final = "lower-case letters, digits and _, a letter first, 32 at most"  # as above
RAW: Final = "_raw"  # suffix of a channel's name: its values before calibration
Identifier = Annotated[str, Meta(min_length=1, max_length=64)]
Label = Annotated[str, Meta(max_length=32)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Milliseconds = Annotated[float, Meta(ge=0.0, le=MAX_TIMEOUT_MS)]
Percentile = Annotated[float, Meta(gt=0.0, lt=100.0)]
# Percentiles that a client may request: with any fanout, p_t (DSSP Eq. 2) still differs from 100.
SloPercentile = Annotated[float, Meta(ge=0.001, le=99.9999)]
# Integers that are exact in JSON readers with only doubles, and whose sums fit MessagePack.
MAX_COUNTED = 2**53 - 1
Count = Annotated[int, Meta(ge=0, le=MAX_COUNTED)]
SafeInteger = Annotated[int, Meta(gt=-(2**53), lt=2**53)]  # exact in JSON everywhere
WallMs = SafeInteger
SubtaskId = Annotated[int, Meta(ge=0, lt=2**53)]
Position = Annotated[int, Meta(ge=1, lt=2**53)]
# Excludes NaN and infinity, which JSON cannot represent.
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Areas = Annotated[tuple[Area, ...], Meta(min_length=1, max_length=MAX_AREAS)]
Channels = Annotated[tuple[Channel, ...], Meta(max_length=MAX_CHANNELS)]
Running = Annotated[tuple[SubtaskId, ...], Meta(max_length=512)]
Form = Literal["series", "aggregate"]
# `about` is answered without a node.
SubtaskForm = Literal["series", "aggregate", "buckets"]
QueryForm = Literal["series", "aggregate", "buckets", "about"]
Policy = Literal["fifo", "spr", "tedfq", "edfq", "sanderling"]
# Five characters of Z85 that are at most 32 bits: beyond "%nSc0" libzmq takes no key.
_CHARACTER = r"[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]"
_GROUP = (
    rf"(?:[0-9a-zA-Z.:+=^!/*?&<>()\[\]{{}}@-]{_CHARACTER}{{4}}|%[0-9a-m]{_CHARACTER}{{3}}"
    rf"|%n[0-9a-zA-R]{_CHARACTER}{{2}}|%nS[0-9ab]{_CHARACTER}|%nSc0)"
)
KEY_PATTERN = rf"^{_GROUP}{{8}}$(?!\n)"
# A CURVE public key in Z85.
PublicKey = Annotated[str, Meta(pattern=KEY_PATTERN)]
# Two of one party at a time, so that a rotation needs no restart.
PublicKeys = Annotated[tuple[PublicKey, ...], Meta(max_length=2)]
Address = Annotated[str, Meta(min_length=1, max_length=256)]


class WireStruct(Struct, frozen=True, gc=False):
    """Base of all structs in messages. Frozen and decoded from bytes, they have no reference
    cycles, so the garbage collector does not track them."""


class Message(WireStruct, frozen=True, tag_field="type"):
    """Base of all messages. Unknown fields are ignored, so a minor version may add some."""
