"""Write the golden frames that are missing: `.venv/bin/python -m tests.wire.write_golden`.

A frame that is there stays as it is: it was released.
"""

from pathlib import Path

from agent.wire.codec import JSON, MAJOR, MESSAGEPACK, MINOR, encode
from tests.wire.samples import SAMPLES

FOLDER = Path(__file__).parent / "golden" / f"{MAJOR.decode()}.{MINOR.decode()}"

if __name__ == "__main__":
    for name, message in SAMPLES.items():
        for suffix, codec in (("json", JSON), ("msgpack", MESSAGEPACK)):
            path = FOLDER / f"{name}.{suffix}"
            if not path.exists():
                path.write_bytes(encode(message, codec))
