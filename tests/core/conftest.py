"""Makes `tests.oracles` importable; last on the path, so that PYTHONPATH still chooses `_core`."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)
