from typing import Final

BUILD: Final[str]
