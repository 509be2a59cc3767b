"""Columns in JSON as Python and msgspec show their numbers, one object a number."""

import array

import msgspec


def floats(data):
    """Little-endian 32-bit floats."""
    numbers = array.array("f", data)
    return msgspec.json.encode([None if x != x else float(f"{x:.7g}") for x in numbers])


def integers(numbers):
    """Integers of any kind."""
    return msgspec.json.encode(list(numbers))
