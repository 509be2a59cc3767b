#!/usr/bin/env bash
# Writes locks/*.txt from pyproject.toml: exact versions with hashes for every supported Python and
# processor. Versions stay where pyproject.toml allows it; with --upgrade they become the newest.
# Usage: tools/lock.sh [--upgrade]
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -x .venv-lock/bin/uv ]; then
    tools/check_prerequisites.sh "${PYTHON:-python3}"
    echo "Creating .venv-lock …"
    "${PYTHON:-python3}" -m venv --clear .venv-lock
    .venv-lock/bin/python -m pip install --quiet --disable-pip-version-check --no-input uv
fi

# Only the public registry counts, whatever this machine has configured.
unset "${!UV_@}"

compile() {
    local lock=$1
    shift
    echo "Locking $lock …"
    .venv-lock/bin/uv pip compile "$@" --output-file "$lock" --quiet --no-config \
        --python .venv-lock/bin/python --no-python-downloads \
        --universal --python-version 3.11 --generate-hashes \
        --custom-compile-command "make lock" >/dev/null
}

print_build_requirements() {
    .venv-lock/bin/python -c 'import pathlib, tomllib
project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())
print(*project["build-system"]["requires"], sep="\n")'
}

# The others take their versions from all.txt, so that any two of them install together.
compile locks/all.txt pyproject.toml --all-extras "$@"
compile locks/run.txt pyproject.toml --extra fleet --extra drivers --extra metrics --extra systemd \
    --extra gateway --extra discovery --constraints locks/all.txt
# What `make pipeline` adds: what reads logs, writes reports, plans and draws.
compile locks/pipeline.txt pyproject.toml --extra pipeline --extra placement --extra lab \
    --constraints locks/all.txt
# What a release has, on a Pi and on a master's host.
compile locks/release.txt pyproject.toml --extra drivers --extra metrics --extra systemd \
    --constraints locks/all.txt
compile locks/dev.txt pyproject.toml --extra cli --extra dev --constraints locks/all.txt
print_build_requirements | compile locks/build.txt - --constraints locks/all.txt
