"""CURVE keys with their dates, in the agents' key file format."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from agent.net.keys import Pair, dates_in, keys_in

LIFETIME: Final = timedelta(days=365)
_FORM: Final = "%Y-%m-%dT%H:%M:%SZ"
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


class CurveKey(NamedTuple):
    """A key pair, its date, and when it should be replaced; None if the file does not say, as for a
    key made by hand."""

    pair: Pair
    made: datetime | None
    expires: datetime | None

    @property
    def order(self) -> datetime:
        """Sort key: the newer of two keys comes later."""
        return self.made or _EPOCH

    def line(self, *, secret: bool) -> str:
        """Its line in a secret or public key file."""
        half = self.pair.secret if secret else self.pair.public
        made = f" # made {text_of(self.made)}" if self.made else ""
        expires = f" # expires {text_of(self.expires)}" if self.expires else ""
        return f"{half}{made}{expires}\n"


def text_of(time: datetime) -> str:
    """A time as key files have it."""
    return f"{time:{_FORM}}"


def make(now: datetime, lifetime: timedelta = LIFETIME) -> CurveKey:
    """A new key."""
    import zmq

    _, secret = zmq.curve_keypair()
    made = now.astimezone(UTC).replace(microsecond=0)
    return CurveKey(Pair.of(secret.decode()), made, made + lifetime)


def parse(text: str, path: str) -> tuple[CurveKey, ...]:
    """The keys of a secret key file, the current one first; ConfigError names `path`."""
    return tuple(
        CurveKey(Pair.of(secret), _time(dates.get("made")), _time(dates.get("expires")))
        for secret, dates in zip(keys_in(text, path), dates_in(text), strict=True)
    )


def render(keys: tuple[CurveKey, ...], *, secret: bool) -> bytes:
    """The text of a key file."""
    return "".join(key.line(secret=secret) for key in keys).encode("ascii")


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
