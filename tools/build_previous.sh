#!/usr/bin/env bash
# Unpacks an earlier state of this repository, with its _core built, into var/cache/previous/COMMIT,
# unless it is there; prints the folder. With it first in PYTHONPATH, .venv's Python runs that state.
# Usage: tools/build_previous.sh COMMIT
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$1
folder=$PWD/var/cache/previous/$commit

if [ ! -d "$folder" ]; then
    if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
        echo "commit $commit is not in this checkout, which has no history: git fetch --unshallow" >&2
        exit 1
    fi
    echo "Building _core of $commit, once …" >&2
    rm -rf "$folder.part"
    mkdir -p "$folder.part"
    git archive "$commit" | tar -x -C "$folder.part"
    log=$folder.part/build.log
    if ! (cd "$folder.part" && "$OLDPWD/.venv/bin/python" setup.py build_ext --inplace) >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        exit 1
    fi
    mv "$folder.part" "$folder"
fi
echo "$folder"
