#!/usr/bin/env bash
# Builds the Cython modules of _core with .venv's Python; shows progress and, where it fails, why.
# The release build goes beside its sources, the others to build/debug and build/sanitized.
# Usage: tools/build_core.sh install|release|debug|sanitized
#   install   makes the checkout importable in .venv, which makes the release build too
#   release   builds again what changed
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
python=$PWD/.venv/bin/python
log=build/$kind.log

build() {
    case $kind in
    install)
        # compat: a plain path entry, so that PYTHONPATH can put build/debug before it.
        "$python" -m pip install --verbose --disable-pip-version-check --no-input \
            --no-build-isolation --no-deps --config-settings editable_mode=compat --editable .
        ;;
    release)
        "$python" setup.py build_ext --inplace
        ;;
    debug)
        SANDERLING_CORE_DEBUG=1 "$python" setup.py \
            build_ext --build-lib build/debug --build-temp build/debug-tmp
        ;;
    sanitized)
        SANDERLING_CORE_SANITIZED=1 "$python" setup.py \
            build_ext --build-lib build/sanitized --build-temp build/sanitized-tmp
        ;;
    esac
}

mkdir -p build
tools/check_prerequisites.sh "$python"
if ! build 2>&1 | tee "$log" | sed -nuE 's/.*(Cythonizing [^ ]*).*/  \1/p; s/^ *built ([0-9]+ of [0-9]+: [^ ]+)$/  \1/p' >&2; then
    tail -n 40 "$log" >&2
    echo "The $kind build of _core failed; the whole output is in $log" >&2
    exit 1
fi
