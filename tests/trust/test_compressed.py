"""No agent decompresses what comes over a socket, so that no few bytes stand for many; where the
tools decompress, the result is bounded, or the file is the operator's own."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
INFLATES = re.compile(
    r"\.decompress|decompressobj|(gzip|lzma|bz2)\.(open|\w+File|\w+Decompressor)"
    r"|tarfile\.open\([^)]*[\"']r|ZipFile\([^)]*[\"']r|permessage|inflateInit|brotli"
)
# Why each may.
ALLOWED = {
    "sensors/replay/__init__.py": "a file that the node's configuration names",
    "fleet/lake/pull/host_source.py": "a frame from a host: it becomes at most MAX_BYTES",
    "fleet/on_host/bundles.py": "a bundle: it becomes at most MAX_UNPACKED",
}


def test_no_agent_decompresses_and_each_tool_that_does_is_known():
    found = {
        str(path.relative_to(ROOT))
        for folder in ("agent", "processors", "sensors", "fleet", "_core")
        for path in (ROOT / folder).rglob("*.py*")
        if path.suffix in {".py", ".pyx"} and INFLATES.search(path.read_text())
    }
    assert found == ALLOWED.keys()
