"""The copier, with cards that are bad in every way: what was not written is always noticed."""

from __future__ import annotations

import errno
import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.image import bmap
from fleet.image.bmap import Bmap, BmapError, Extent
from fleet.image.writing import CHUNK, WriteError, write
from tests.examples import examples
from tests.fleet.image_flash.cards import make_bmap

SIZE = 3 * CHUNK + 4096
IMAGE = random.Random(1).randbytes(SIZE)


class Memory:
    """A card that is good."""

    def __init__(self, size=SIZE):
        self.data = bytearray(size)

    def write(self, offset, data):
        self.data[offset : offset + len(data)] = data
        return len(data)

    def read(self, offset, length):
        return bytes(self.data[offset : offset + length])

    def sync(self):
        pass


def whole(size=SIZE, piece=CHUNK):
    return Bmap(
        size, tuple(Extent(at, min(piece, size - at), None) for at in range(0, size, piece))
    )


def written(card, found=None):
    steps = []
    write(io.BytesIO(IMAGE), found or whole(), card, steps.append)
    return steps


def test_all_of_an_image_without_a_map_is_written_and_read_back():
    card = Memory()
    steps = written(card)
    assert card.data == IMAGE
    for stage in ("writing", "verifying"):
        assert sum(step.bytes for step in steps if step.stage == stage) == SIZE


def test_only_mapped_bytes_are_touched():
    card = Memory()
    written(card, Bmap(SIZE, (Extent(4096, 8192, None),)))
    assert card.data[4096:12288] == IMAGE[4096:12288]
    assert not any(card.data[:4096])
    assert not any(card.data[12288:])


class Halting(Memory):
    """Takes and gives less than asked, as the kernel may."""

    def write(self, offset, data):
        return super().write(offset, data[:7001])

    def read(self, offset, length):
        return super().read(offset, min(length, 9001))


def test_short_writes_and_reads_are_gone_on_with():
    card = Halting()
    written(card)
    assert card.data == IMAGE


class Forgetful(Memory):
    """One byte of what it stores is another one."""

    at = 2 * CHUNK + 17

    def sync(self):
        self.data[self.at] ^= 0x10


class Counterfeit(Memory):
    """Has less memory than it says, and begins again at its start."""

    real = SIZE // 2

    def write(self, offset, data):
        return super().write(offset % self.real, data)

    def read(self, offset, length):
        return super().read(offset % self.real, length)


class Swallowing(Memory):
    """Says that it wrote, and did not."""

    def write(self, offset, data):
        return len(data) if offset >= CHUNK else super().write(offset, data)


class Ending(Memory):
    def read(self, offset, length):
        return b"" if offset >= CHUNK else super().read(offset, length)


class Unreadable(Memory):
    def read(self, offset, length):
        raise OSError(errno.EIO, "Input/output error")


class Full(Memory):
    def write(self, offset, data):
        if offset >= 2 * CHUNK:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(offset, data)


class Stuck(Memory):
    def write(self, offset, data):
        return 0


class Gone(Memory):
    def write(self, offset, data):
        raise OSError(errno.ENODEV, "No such device")


class LateError(Memory):
    def sync(self):
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize(
    ("card", "line"),
    [
        (Forgetful, f"bad: bytes {2 * CHUNK} to {3 * CHUNK - 1} are not what was written"),
        (Counterfeit, "bad: bytes 0 to"),
        (Swallowing, f"bad: bytes {CHUNK} to"),
        (Ending, f"bad: it ends at byte {CHUNK}"),
        (Unreadable, "cannot be read at byte 0: Input/output error; take another one"),
        (Full, f"could not be written at byte {2 * CHUNK}: it is smaller than it says"),
        (Stuck, "it is smaller than it says"),
        (Gone, "could not be written at byte 0: No such device"),
        (LateError, "did not take what was written: Input/output error"),
    ],
)
def test_a_bad_card_is_found_and_named(card, line):
    with pytest.raises(WriteError) as failed:
        written(card())
    assert line in str(failed.value)


@settings(max_examples=examples(50))
@given(at=st.integers(0, SIZE - 1), bit=st.integers(0, 7))
def test_any_bit_that_is_wrong_is_found(at, bit):
    class OneBit(Memory):
        def sync(self):
            self.data[at] ^= 1 << bit

    with pytest.raises(WriteError):
        written(OneBit())


def test_an_image_that_is_not_what_its_map_says_is_found():
    found = Bmap(SIZE, (Extent(0, CHUNK, "0" * 64),))
    with pytest.raises(WriteError, match=r"the image is damaged: bytes 0 to 1048575"):
        written(Memory(), found)


def test_an_image_that_ends_early_is_found():
    with pytest.raises(WriteError, match="the image ends early"):
        write(io.BytesIO(IMAGE[:-1]), whole(), Memory(), lambda step: None)


# --- maps -----------------------------------------------------------------------------------------


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "card.img"
    # The last block is a short one.
    path.write_bytes(bytes(8192) + b"a" * 4096 + bytes(4096) + b"b" * 8192 + b"c" * 100)
    return path


def test_a_map_names_extents_with_their_checksums(image):
    make_bmap(image)
    found = bmap.of(image)
    assert found.size == image.stat().st_size
    assert [(each.offset, each.length) for each in found.extents] == [(8192, 4096), (16384, 8292)]
    card = Memory(found.size)
    with image.open("rb") as file:
        write(file, found, card, lambda step: None)
    assert card.data == image.read_bytes()


def test_without_a_map_all_of_it_is_copied(image):
    assert bmap.of(image).mapped == image.stat().st_size


def test_another_images_map_is_refused(image):
    make_bmap(image)
    with image.open("ab") as file:
        file.write(b"more")
    with pytest.raises(BmapError, match="is for an image of"):
        bmap.of(image)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("</bmap>", "", "cannot be read"),
        ("> 2 <", "> 3 <", "it is damaged: its checksum"),
        ('version="2.0"', 'version="3.0"', "version 3.0 is unknown"),
        (" sha256 ", " sha1 ", "checksums are sha1"),
    ],
)
def test_a_damaged_map_is_refused(image, old, new, line):
    beside = make_bmap(image)
    text = beside.read_text()
    assert old in text
    beside.write_text(text.replace(old, new))
    with pytest.raises(BmapError, match=line):
        bmap.of(image)
