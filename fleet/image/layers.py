"""File formats of image recipes, layers and their variables."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from agent.wire.config import ConfigError, Section, parse
from agent.wire.listing import did_you_mean
from fleet.common.exits import FAILED, USAGE, CommandError

Value = bool | int | str
S = TypeVar("S", bound=Section)

# The recipes and layers shipped with the sources.
SOURCES: Final = Path(__file__).parents[2] / "images"


class ImageError(CommandError):
    """The image cannot be built; the text is one line that says what is wrong and what to do."""

    status = FAILED


class PlanError(ImageError):
    """Recipe, layers and values are inconsistent."""

    status = USAGE


class Variable(Section, frozen=True, tag_field="type"):
    """A value of a layer that a recipe or --set may choose."""

    description: str

    def complaint(self, value: Value) -> str:
        """The error of `value`; empty if it is valid."""
        raise NotImplementedError

    def read(self, text: str) -> Value:
        """The value that a command line means by `text`; what is none of this type stays as it
        is, for `complaint`."""
        return text


class Switch(Variable, frozen=True, tag="boolean"):
    """On or off."""

    default: bool

    def complaint(self, value: Value) -> str:
        """See Variable."""
        return "" if isinstance(value, bool) else "is not true or false"

    def read(self, text: str) -> Value:
        """See Variable."""
        return text == "true" if text in {"true", "false"} else text


class Number(Variable, frozen=True, tag="integer"):
    """A whole number within bounds."""

    default: int
    min: int
    max: int

    def complaint(self, value: Value) -> str:
        """See Variable."""
        if isinstance(value, bool) or not isinstance(value, int):
            return "is not a whole number"
        if not self.min <= value <= self.max:
            return f"is not within {self.min} and {self.max}"
        return ""

    def read(self, text: str) -> Value:
        """See Variable."""
        return int(text) if re.fullmatch("-?[0-9]{1,18}", text) else text


class Text(Variable, frozen=True, tag="string"):
    """A text that must match a pattern completely."""

    default: str
    pattern: str
    form: str = ""  # the pattern in words, for who broke it

    def complaint(self, value: Value) -> str:
        """See Variable."""
        if not isinstance(value, str):
            return "is not a text"
        if re.fullmatch(self.pattern, value):
            return ""
        return f"is not {self.form}" if self.form else f"does not match {self.pattern}"


class Choice(Variable, frozen=True, tag="choice"):
    """One of several texts."""

    default: str
    choices: tuple[str, ...]

    def complaint(self, value: Value) -> str:
        """See Variable."""
        return "" if value in self.choices else f"is none of {', '.join(self.choices)}"


AnyVariable = Switch | Number | Text | Choice
TYPES: Final[dict[str, type[AnyVariable]]] = {
    "boolean": Switch,
    "choice": Choice,
    "integer": Number,
    "string": Text,
}


class File(Section, frozen=True):
    """A file of the image: `content`, in which @name@ is replaced by a variable's value, or the
    unchanged file `source` below images/."""

    path: str
    content: str | None = None
    source: str | None = None
    mode: str = "0644"
    owner: str = "root"
    when: str = ""  # a boolean variable: the file is included only if it is true


class Directory(Section, frozen=True):
    """A folder of the image with a mode or owner of its own."""

    path: str
    mode: str = "0755"
    owner: str = "root"


class Link(Section, frozen=True):
    """A symbolic link of the image."""

    path: str
    target: str


class Boot(Section, frozen=True):
    """Lines of config.txt and words of the kernel's command line; @name@ as in files."""

    config: tuple[str, ...] = ()
    command_line: tuple[str, ...] = ()
    when: str = ""


class Run(Section, frozen=True):
    """A program of the image that is run in it after everything else."""

    command: tuple[str, ...]
    when: str = ""


class Layer(Section, frozen=True):
    """One subject of an image; the layers in `requires` come before it."""

    name: str
    description: str
    requires: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    variable: dict[str, AnyVariable] = msgspec.field(default_factory=dict)
    file: tuple[File, ...] = ()
    directory: tuple[Directory, ...] = ()
    link: tuple[Link, ...] = ()
    boot: tuple[Boot, ...] = ()
    run: tuple[Run, ...] = ()
    sysctl: dict[str, str] = msgspec.field(default_factory=dict)
    modules: tuple[str, ...] = ()  # of the kernel, in the initramfs
    enable: tuple[str, ...] = ()  # systemd units
    mask: tuple[str, ...] = ()


class Recipe(Section, frozen=True):
    """The composition of an image; required layers need not be listed."""

    model: str
    description: str
    layers: tuple[str, ...]
    values: dict[str, Value] = msgspec.field(default_factory=dict)
    size_mib: int = 2048  # a power of two: QEMU's emulated card readers accept no other size


class Library(NamedTuple):
    """All layers, and the folder with the files that they refer to."""

    layers: Mapping[str, Layer]
    folder: Path


def read_library(folder: Path = SOURCES) -> Library:
    """All layers below `folder`; PlanError."""
    found: dict[str, Layer] = {}
    for path in sorted((folder / "layers").glob("*.toml")):
        layer = parse_layer(_table(path), str(path))
        if layer.name != path.stem:
            raise PlanError(f"{path}: its name is {layer.name!r}; call the file {layer.name}.toml")
        found[layer.name] = layer
    return Library(found, folder)


def read_recipe(model: str, folder: Path = SOURCES) -> Recipe:
    """The recipe of a model; PlanError."""
    path = folder / f"{model}.toml"
    if not path.is_file():
        known = ", ".join(sorted(each.stem for each in folder.glob("*.toml")))
        raise PlanError(f"there is no recipe for {model!r}; there are {known}")
    return _parse(_table(path), Recipe, str(path))


def parse_layer(table: dict[str, Any], source: str) -> Layer:
    """Parse a layer's file; PlanError names `source`."""
    rows = table.get("variable", {})
    for name, row in rows.items() if isinstance(rows, dict) else ():
        kind = TYPES.get(str(row.get("type"))) if isinstance(row, dict) else None
        if kind is None:
            raise PlanError(f"{source}: variable {name} needs a type: {', '.join(TYPES)}")
        keys = {"type", *kind.__struct_fields__}
        for key in row:
            if key not in keys:
                raise PlanError(f"{source}: variable {name}: no key {key!r}; {nearest(key, keys)}")
    return _parse(table, Layer, source)


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: {error}") from None


def _parse(table: dict[str, Any], kind: type[S], source: str) -> S:
    try:
        return parse(table, kind, source)
    except ConfigError as error:
        raise PlanError(str(error)) from None


def nearest(name: str, known: Iterable[str]) -> str:
    """The one of `known` that was probably meant, as the end of a line; or all of them, if none is
    similar."""
    return did_you_mean(name, known, f"there are {', '.join(sorted(known))}")
