"""Resolves a recipe and its layers into an image plan, or into a one-line error. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import msgspec

from fleet.image.layers import (
    Boot,
    Directory,
    File,
    Layer,
    Library,
    Link,
    PlanError,
    Recipe,
    Run,
    Switch,
    Value,
    nearest,
)
from fleet.inventory.parties import UNITS

PLACEHOLDER: Final = re.compile(r"@([a-z][a-z0-9_]*)@")
NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
VARIABLE_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
# Debian Policy 5.6.1.
PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]+")
UNIT: Final = re.compile(r"[A-Za-z0-9@:_.-]+\.(service|socket|timer|mount|path|target)")
MODE: Final = re.compile(r"0[0-7]{3}")
# Where files may be placed in an image. /boot/firmware is the card's FAT partition.
PLACES: Final = ("/boot/firmware", "/etc", "/home", "/opt", "/usr", "/var/lib")
OURS: Final = "sanderling-"
UNITS_OF_RELEASE: Final = frozenset(UNITS.values())
OWNERS: Final = ("fleet", "root", "sanderling")


class PlannedFile(NamedTuple):
    """A file of the planned image; `path` is absolute."""

    path: str
    content: bytes
    mode: int
    owner: str


class PlannedDirectory(NamedTuple):
    """A folder of the planned image; `path` is absolute."""

    path: str
    mode: int
    owner: str


class ImagePlan(NamedTuple):
    """Everything that determines an image except the packages' versions and the release."""

    model: str
    layers: tuple[str, ...]
    values: Mapping[str, Value]
    packages: tuple[str, ...]  # sorted
    modules: tuple[str, ...]  # sorted
    files: tuple[PlannedFile, ...]
    directories: tuple[PlannedDirectory, ...]
    links: Mapping[str, str]  # path → target
    enable: tuple[str, ...]
    mask: tuple[str, ...]
    run: tuple[tuple[str, ...], ...]
    boot_config: tuple[str, ...]
    command_line: tuple[str, ...]
    size_mib: int

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


def plan(library: Library, recipe: Recipe, chosen: Mapping[str, Value] | None = None) -> ImagePlan:
    """The plan of `recipe` with the layers of `library`; the values `chosen` override its own.
    PlanError says in one line which rule is violated."""
    for layer in library.layers.values():
        _check(layer)
    ordered = _ordered(library.layers, recipe)
    values = _values(ordered, recipe, chosen or {})
    files = [each for layer in ordered for each in _files(library, layer, values)]
    files += _sysctl(ordered)
    links = [link for layer in ordered for link in layer.link]
    _refuse_twice(ordered)
    _refuse_unknown_units(ordered)
    size = recipe.size_mib
    if size < 1024 or size & (size - 1):
        raise PlanError(f"size_mib = {size} is not a power of two from 1024 on")
    return ImagePlan(
        model=recipe.model,
        layers=tuple(layer.name for layer in ordered),
        values=values,
        packages=_sorted(name for layer in ordered for name in layer.packages),
        modules=_sorted(name for layer in ordered for name in layer.modules),
        files=tuple(sorted(files)),
        directories=tuple(
            PlannedDirectory(each.path, int(each.mode, 8), each.owner)
            for layer in ordered
            for each in layer.directory
        ),
        links={link.path: link.target for link in links},
        enable=_sorted(unit for layer in ordered for unit in layer.enable),
        mask=_sorted(unit for layer in ordered for unit in layer.mask),
        run=tuple(
            run.command
            for layer in ordered
            for run in layer.run
            if not run.when or values[run.when]
        ),
        boot_config=tuple(_boot(ordered, values, "config")),
        command_line=tuple(_boot(ordered, values, "command_line")),
        size_mib=size,
    )


# --- rules of one layer ---------------------------------------------------------------------------


def _check(layer: Layer) -> None:
    for complaint in _complaints(layer):
        raise PlanError(f"layer {layer.name}: {complaint}")


def _complaints(layer: Layer) -> Iterator[str]:
    if not NAME.fullmatch(layer.name):
        yield f"{layer.name!r} is not a name; write small letters, digits, - and _"
    yield from _variable_complaints(layer)
    for package in layer.packages:
        if not PACKAGE.fullmatch(package):
            yield f"{package!r} is not a Debian package's name"
    for unit in (*layer.enable, *layer.mask):
        if not UNIT.fullmatch(unit):
            yield f"{unit!r} is not a unit's name, such as ssh.service"
    yield from _entry_complaints(layer)
    conditional: list[File | Boot | Run] = [*layer.file, *layer.boot, *layer.run]
    for when in [each.when for each in conditional]:
        if when and not isinstance(layer.variable.get(when), Switch):
            yield f"when = {when!r} is not a boolean variable of this layer"


def _variable_complaints(layer: Layer) -> Iterator[str]:
    for name, variable in layer.variable.items():
        if not VARIABLE_NAME.fullmatch(name):
            yield f"variable {name!r}: write small letters, digits and _"
        pattern = getattr(variable, "pattern", "")
        try:
            re.compile(pattern)
        except re.error as error:
            yield f"variable {name}: {pattern!r} is no pattern: {error}"
            continue
        if wrong := variable.complaint(variable.default):
            yield f"variable {name}: its default {variable.default!r} {wrong}"


def _entry_complaints(layer: Layer) -> Iterator[str]:
    for file in layer.file:
        if (file.content is None) == (file.source is None):
            yield f"{file.path} needs either content or source"
    entries: list[File | Directory] = [*layer.file, *layer.directory]
    for entry in entries:
        if not MODE.fullmatch(entry.mode):
            yield f"{entry.path}: mode {entry.mode!r} is not four octal digits such as 0644"
        elif int(entry.mode, 8) & 0o002:
            yield f"{entry.path}: with mode {entry.mode} anybody could write it"
        if entry.owner not in OWNERS:
            yield f"{entry.path}: nobody is called {entry.owner!r}; {nearest(entry.owner, OWNERS)}"
    for path in _paths(layer):
        place = PurePosixPath(path)
        inside = any(place.is_relative_to(each) for each in PLACES)
        if ".." in place.parts or str(place) != path or not inside:
            yield f"{path} is not a path below {', '.join(PLACES)}"


def _paths(layer: Layer) -> list[str]:
    entries: list[File | Directory | Link] = [*layer.file, *layer.directory, *layer.link]
    return [entry.path for entry in entries]


# --- rules between layers -------------------------------------------------------------------------


def _ordered(layers: Mapping[str, Layer], recipe: Recipe) -> list[Layer]:
    """The recipe's layers and their requirements, each after those that it requires."""
    done: dict[str, Layer] = {}
    open_: list[str] = []

    def visit(name: str, wanted_by: str) -> None:
        if name in done:
            return
        if name in open_:
            circle = " → ".join([*open_[open_.index(name) :], name])
            raise PlanError(f"layers require each other in a circle: {circle}")
        if name not in layers:
            raise PlanError(f"{wanted_by}: there is no layer {name!r}; {nearest(name, layers)}")
        open_.append(name)
        for needed in layers[name].requires:
            visit(needed, f"layer {name}")
        open_.pop()
        done[name] = layers[name]

    for name in recipe.layers:
        visit(name, f"recipe {recipe.model}")
    return list(done.values())


def _values(
    layers: Iterable[Layer], recipe: Recipe, chosen: Mapping[str, Value]
) -> dict[str, Value]:
    owner: dict[str, str] = {}
    variables = {}
    for layer in layers:
        for name, variable in layer.variable.items():
            if name in owner:
                raise PlanError(
                    f"layers {owner[name]} and {layer.name} both have a variable {name}"
                )
            owner[name], variables[name] = layer.name, variable
    values: dict[str, Value] = {name: each.default for name, each in variables.items()}
    for source, given in ((f"recipe {recipe.model}", recipe.values), ("--set", chosen)):
        for name, stated in given.items():
            if name not in variables:
                raise PlanError(
                    f"{source}: no layer of this image has a variable {name!r}; "
                    f"{nearest(name, variables)}"
                )
            # Only the variable knows whether 9701 of a command line is a number or a text.
            typed = given is chosen and isinstance(stated, str)
            value = variables[name].read(str(stated)) if typed else stated
            if wrong := variables[name].complaint(value):
                raise PlanError(f"{source}: {name} = {value!r} {wrong}")
            values[name] = value
    return values


def _refuse_twice(layers: Iterable[Layer]) -> None:
    """PlanError for a path used twice, except for files of one layer that a variable chooses
    between."""
    writer: dict[str, str] = {}
    for layer in layers:
        for path in dict.fromkeys(_paths(layer)):
            if path in writer:
                raise PlanError(f"layers {writer[path]} and {layer.name} both write {path}")
            writer[path] = layer.name
    units: dict[str, str] = {}
    for layer in layers:
        for unit in layer.mask:
            units[unit] = layer.name
    for layer in layers:
        for unit in layer.enable:
            if unit in units:
                raise PlanError(f"layer {layer.name} enables {unit}, {units[unit]} masks it")


def _refuse_unknown_units(layers: Sequence[Layer]) -> None:
    """PlanError for a unit of ours that neither a layer nor the release provides; systemctl checks
    Debian's later."""
    written = {PurePosixPath(path).name for layer in layers for path in _paths(layer)}
    known = {name for name in written if name.startswith(OURS)} | UNITS_OF_RELEASE
    for layer in layers:
        for unit in layer.enable:
            if unit.startswith(OURS) and unit not in known:
                raise PlanError(
                    f"layer {layer.name}: no layer writes {unit} and no release has it; "
                    f"{nearest(unit, known)}"
                )


# --- what comes of them ---------------------------------------------------------------------------


def _files(library: Library, layer: Layer, values: Mapping[str, Value]) -> Iterator[PlannedFile]:
    for file in layer.file:
        if file.when and not values[file.when]:
            continue
        where = f"layer {layer.name}: {file.path}"
        if file.source is not None:
            content = _source(library, file.source, where)
        else:
            content = _filled(file.content or "", values, where).encode()
        yield PlannedFile(file.path, content, int(file.mode, 8), file.owner)


def _source(library: Library, name: str, where: str) -> bytes:
    path = (library.folder / name).resolve()
    if not path.is_relative_to(library.folder.resolve()):
        raise PlanError(f"{where}: the source {name} is outside of images/")
    if not path.is_file():
        raise PlanError(f"{where}: the source {name} is not there")
    return path.read_bytes()


def _filled(text: str, values: Mapping[str, Value], where: str) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in values:
            raise PlanError(f"{where}: @{name}@ is no variable; {nearest(name, values)}")
        found = values[name]
        return str(found).lower() if isinstance(found, bool) else str(found)

    return PLACEHOLDER.sub(value, text)


def _sysctl(layers: Iterable[Layer]) -> list[PlannedFile]:
    found: dict[str, tuple[str, str]] = {}
    for layer in layers:
        for key, value in layer.sysctl.items():
            if key in found and found[key][0] != value:
                other = found[key][1]
                raise PlanError(f"layers {other} and {layer.name} set {key} to different values")
            found[key] = (value, layer.name)
    if not found:
        return []
    text = "".join(f"{key} = {value}\n" for key, (value, _) in sorted(found.items()))
    return [PlannedFile("/etc/sysctl.d/60-sanderling.conf", text.encode(), 0o644, "root")]


def _boot(layers: Iterable[Layer], values: Mapping[str, Value], which: str) -> Iterator[str]:
    for layer in layers:
        for boot in layer.boot:
            if not boot.when or values[boot.when]:
                for text in getattr(boot, which):
                    yield _filled(text, values, f"layer {layer.name}: boot")


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))
