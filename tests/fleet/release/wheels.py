"""Small wheels for tests."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str = "thing",
    version: str = "1.0",
    tag: str = "py3-none-any",
    files: dict[str, str] | None = None,
    scripts: str = "",
) -> Path:
    """A wheel of `files`; `scripts` are lines such as ``command = module:function``."""
    info = f"{name}-{version}.dist-info"
    content = {
        **(files or {f"{name}.py": "VALUE = 1\n"}),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{info}/licenses/LICENSE": "Do.\n",
    }
    if scripts:
        content[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}\n"
    record = f"{info}/RECORD"
    content[record] = "".join(f"{path},,\n" for path in [*content, record])
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in content.items():
            archive.writestr(inside, text)
    return path
