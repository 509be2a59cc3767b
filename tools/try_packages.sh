#!/bin/sh
# Builds the wheel and the sdist of this clone, and takes each into an empty environment, where nothing of
# the clone can be imported: the demo has to run to its end there.
# Usage: tools/try_packages.sh [folder for all of it; by default a new one]
set -eu
cd "$(dirname "$0")/.."
folder=${1:-$(mktemp -d)}
clone=$PWD

python3 -m venv "$folder/build"
"$folder/build/bin/python" -m pip install --quiet --disable-pip-version-check build
# What was compiled in place is not to be packed by chance: of a clone of its own.
git clone --quiet "$clone" "$folder/clone"
echo "Building an sdist, and of it a wheel …"
"$folder/build/bin/python" -m build --outdir "$folder/dist" "$folder/clone" >"$folder/build.log" 2>&1 ||
    { tail -n 40 "$folder/build.log" >&2; exit 1; }
python3 tools/wheel_files.py "$folder"/dist/*.whl

mkdir "$folder/elsewhere"
cd "$folder/elsewhere"
for package in "$folder"/dist/*.whl "$folder"/dist/*.tar.gz; do
    echo "Installing $(basename "$package") …"
    rm -rf "$folder/empty"
    python3 -m venv "$folder/empty"
    "$folder/empty/bin/python" -m pip install --quiet --disable-pip-version-check "sanderling[cli,gateway] @ file://$package"
    "$folder/empty/bin/python" -c '
import sys, agent
sys.exit(0 if agent.__file__.startswith(sys.prefix) else "imported from " + agent.__file__)'
    "$folder/empty/bin/fleet" --version
    # Half a minute of load instead of two; it ends by itself where there is no terminal.
    "$folder/empty/bin/fleet" demo --directory "$folder/run" --seconds 10 --virtual 300 </dev/null
    rm -rf "$folder/run"
done
echo "The wheel and the sdist work: $(cd "$folder/dist" && echo *)"
