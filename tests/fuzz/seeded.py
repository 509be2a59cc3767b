"""What makes a history the same again for the same seed: secrets and random numbers come from it,
and a processor's message takes the same each time."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import msgspec

from agent.master.placement import membership_plane
from agent.master.topics import worker_pool
from agent.master.topics.worker_frames import decode_answer
from agent.processing.events import Answer, Finished

CPU_S = 1e-4


def seeded(draw: random.Random) -> list[Any]:
    """Patches, not started yet, that draw from `draw` what a process would take from its system."""

    def token_hex(count: int) -> str:
        return draw.randbytes(count).hex()

    def another() -> random.Random:
        return random.Random(draw.random())

    return [
        mock.patch("os.urandom", draw.randbytes),
        mock.patch("random.random", draw.random),
        mock.patch("secrets.randbelow", draw.randrange),
        mock.patch("secrets.randbits", draw.getrandbits),
        mock.patch("secrets.token_bytes", draw.randbytes),
        mock.patch("secrets.token_hex", token_hex),
        mock.patch.object(membership_plane, "Random", another),
        mock.patch.object(worker_pool, "decode_answer", _answer),
    ]


def _answer(body: bytes) -> Answer:
    answer = decode_answer(body)
    if isinstance(answer, Finished):
        return msgspec.structs.replace(answer, cpu_s=CPU_S, grown_bytes=0)
    return answer
