#!/bin/sh
# Says in one line what is missing to build Sanderling, and which packages bring it.
# Usage: tools/check_prerequisites.sh [python3]
python=${1:-python3}
name=${python##*/}

stop() {
    echo "$1" >&2
    exit 1
}

command -v "$python" >/dev/null 2>&1 ||
    stop "Missing: $python. Install the package python3 (Python 3.11 to 3.13), or name one: make PYTHON=python3.12 …"

"$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null ||
    stop "$("$python" --version 2>&1) does not do. Install the package python3.13, python3.12 or python3.11, and name it: make PYTHON=python3.12 …"

# Debian and its descendants name the packages of their default Python python3-*.
case $name in
    python3.*) package=$name ;;
    *) package=python3 ;;
esac

missing=
packages=
need() {
    missing="$missing${missing:+, }$1"
    packages="$packages${packages:+ }$2"
}

"$python" -c 'import ensurepip, venv' 2>/dev/null || need 'the venv module' "$package-venv"
"$python" -c 'import pathlib, sysconfig as s, sys
sys.exit(not pathlib.Path(s.get_path("include"), "Python.h").is_file())' || need Python.h "$package-dev"
command -v gcc >/dev/null 2>&1 || need gcc gcc

[ -z "$missing" ] || stop "Missing: $missing. Install: $packages (for example: sudo apt install $packages)"
