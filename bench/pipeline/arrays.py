"""The type of NumPy's arrays here."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
