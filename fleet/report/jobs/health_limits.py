"""The limits of sensors/quality as Spark columns."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - everybody calls it F

from sensors.quality.limits import DEFAULTS, Limits

# A table of readings has no units: each quantity has the one that the defaults are in.
_BY_QUANTITY: Final = {quantity: limits for (quantity, _), limits in DEFAULTS.items()}
_QUANTITY: Final = f"(?:^|_)({'|'.join(_BY_QUANTITY)})(?:_|$)"


def limit(field: str) -> Column:
    """The default limit `field` of the column `channel`, double; of a channel without a known
    quantity in its name, one that is never met."""
    # A map is one literal; a CASE would be written out wherever a limit is used, and plans slowly.
    pairs = [(F.lit(name), F.lit(getattr(of, field))) for name, of in _BY_QUANTITY.items()]
    by_quantity = F.create_map(*[column for pair in pairs for column in pair])
    channel = F.col("channel")
    return F.coalesce(
        # Nearly all channels are called by their quantity alone.
        F.try_element_at(by_quantity, channel),
        F.try_element_at(by_quantity, F.regexp_extract(channel, _QUANTITY, 1)),
        F.lit(getattr(Limits(), field)),
    )
