"""Small images for tests: a partition table and a FAT, by sfdisk, mkfs.vfat and mtools."""

from __future__ import annotations

import hashlib
import itertools
import random
import shutil
import subprocess

import pytest

from fleet.image.fat import Fat

TOOLS = ("sfdisk", "mkfs.vfat", "mcopy")
START = 2048  # sectors
SIZE = 12 << 20
needs_tools = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in TOOLS),
    reason="needs sfdisk, mkfs.vfat and mcopy (Debian: fdisk dosfstools mtools)",
)


def make_image(path, files):
    """An image of SIZE bytes whose FAT has `files`, and noise behind it."""
    fat_kib = 8 << 10
    with path.open("wb") as file:
        file.truncate(SIZE)
        file.seek(10 << 20)
        file.write(random.Random(6).randbytes(1 << 20))
    table = f"label: dos\nstart={START},size={fat_kib * 2},type=c\n"
    run("sfdisk", "--quiet", path, text=table)
    run("mkfs.vfat", "--offset", str(START), path, str(fat_kib))
    fat = Fat(path)
    for name, content in files.items():
        fat.write(name, content)
    return path


def make_bmap(image, *, block=4096, mapped=None):
    """A map as bmaptool writes it, of the blocks that are not all zeros (or of `mapped`)."""
    data = image.read_bytes()
    count = -(-len(data) // block)
    if mapped is None:
        mapped = [n for n in range(count) if any(data[n * block : (n + 1) * block])]
    ranges = []
    for _, run_of in itertools.groupby(enumerate(mapped), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run_of]
        ranges.append((numbers[0], numbers[-1]))
    lines = "".join(
        f'<Range chksum="{hashlib.sha256(data[a * block : (b + 1) * block]).hexdigest()}">'
        f" {a}{f'-{b}' if b != a else ''} </Range>\n"
        for a, b in ranges
    )
    blank = "0" * 64
    text = (
        f'<?xml version="1.0" ?>\n<bmap version="2.0">\n<ImageSize> {len(data)} </ImageSize>\n'
        f"<BlockSize> {block} </BlockSize>\n<ChecksumType> sha256 </ChecksumType>\n"
        f"<BmapFileChecksum> {blank} </BmapFileChecksum>\n<BlockMap>\n{lines}</BlockMap>\n</bmap>\n"
    )
    own = hashlib.sha256(text.encode()).hexdigest()
    beside = image.with_name(f"{image.name}.bmap")
    beside.write_text(text.replace(blank, own, 1))
    return beside


def run(*command, text=None):
    done = subprocess.run(
        [str(word) for word in command], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
