"""Type alias for NumPy arrays."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
