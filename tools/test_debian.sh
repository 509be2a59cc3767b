#!/usr/bin/env bash
# Runs the tests, or what README says, on a bare Debian, as a user without rights: in a root file system
# made from packages, which is kept in var/cache. Root only (mmdebstrap, unshare).
# Usage: tools/test_debian.sh SUITE tests [pytest's arguments]
#        tools/test_debian.sh SUITE fresh
#   tests   the tree as it is here, with what testing needs; WITHOUT_PIPELINE=1: but for Spark
#   fresh   a clone of HEAD on the packages that README names: README's commands, then the wheel and
#           the sdist, each in an empty environment
set -euo pipefail
cd "$(dirname "$0")/.."

SUITE=$1 WHAT=$2
shift 2
case $WHAT in
tests) PACKAGES=ca-certificates,gcc,git,libc6-dev,make,openssh-client,python3,python3-dev,python3-venv,tmux ;;
fresh) PACKAGES=ca-certificates,git,passwd,$(python3 tools/follow_readme.py --packages) ;;
*) echo "test_debian: tests or fresh, not $WHAT" >&2; exit 2 ;;
esac
root=$PWD/var/cache/debian/$(echo "$SUITE $PACKAGES" | sha256sum | cut -c -16)
home=$root/home/tester
tree=$home/sanderling

[ "$(id -u)" -eq 0 ] || { echo "test_debian: needs root" >&2; exit 2; }
missing=$(tools/missing_packages.sh debian)
[ -z "$missing" ] || { echo "test_debian: install $missing" >&2; exit 2; }

# The mirrors of this machine's apt, for that suite.
mirrors() {
    apt-get indextargets --format '$(REPO_URI)|$(RELEASE)' 'Created-By: Packages' | sort -u |
        while IFS='|' read -r uri release; do
            case $release in
                *-security) echo "deb $uri $SUITE-security main" ;;
                *-updates) echo "deb $uri $SUITE-updates main" ;;
                *) echo "deb $uri $SUITE main" ;;
            esac
        done | sort -u
}

if [ ! -d "$root" ]; then
    echo "Making a Debian $SUITE …"
    rm -rf "$root.partial"
    mkdir -p "$(dirname "$root")"
    mapfile -t lines < <(mirrors)
    mmdebstrap --variant=apt --mode=root --quiet --include="$PACKAGES" "$SUITE" "$root.partial" "${lines[@]}"
    chroot "$root.partial" useradd --create-home --shell /bin/bash tester
    mv "$root.partial" "$root"
fi

# What reaches the package registry from here reaches it from there.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"

if [ "$WHAT" = fresh ]; then
    # pip's downloads stay; all else of the user is new.
    find "$home" -mindepth 1 -maxdepth 1 ! -name .cache -exec rm -rf {} +
    git clone --quiet --no-local "$PWD" "$tree"
    script='cd sanderling; python3 tools/follow_readme.py; exec tools/try_packages.sh'
else
    # The sources as they are here; what was installed there before is used again.
    mkdir -p "$tree"
    rm -f "$tree/.venv/done/core"
    find "$tree" -mindepth 1 -maxdepth 1 ! -name .venv ! -name build -exec rm -rf {} +
    git ls-files -z --cached --others --exclude-standard |
        while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
        tar --create --null --files-from - | tar --extract --directory "$tree"
    # shellcheck disable=SC2016 # expanded there
    # What Spark needs takes minutes to download: not there if none of its tests is run.
    script='cd sanderling; make ${WITHOUT_PIPELINE:+-o .venv/done/pipeline} setup .venv/done/dev
        exec .venv/bin/pytest -n "$WORKERS" --timeout 600 "$@"'
fi
chroot "$root" chown -R tester: /home/tester/sanderling
if [ "$WHAT" = tests ]; then
    # A checkout of one commit: what is released is what git lists.
    chroot --userspec=tester:tester "$root" /usr/bin/env -i HOME=/home/tester PATH=/usr/bin:/bin sh -ec '
        cd ~/sanderling
        git init -q
        git add -A
        git -c user.name=tester -c user.email=tester@localhost commit -qm "The tree as it is"
    '
fi

# A PID namespace of its own, so that no process outlives the tests; of its own mounts, nothing is
# left here. ptys and shared memory are as on any host.
exec unshare --mount --pid --fork --kill-child --propagation private sh -c '
    set -eu
    root=$1 script=$2; shift 2
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/dev"
    for node in null zero full random urandom tty; do
        touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"
    done
    mkdir -m 1777 "$root/dev/shm" "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount --rbind /sys "$root/sys"
    # Not exec: this shell is process 1 there, and reaps what has lost its parent.
    chroot --userspec=tester:tester "$root" /usr/bin/env -i HOME=/home/tester USER=tester \
        PATH=/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
        PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_DEFAULT_TIMEOUT=180 WORKERS="${WORKERS:-4}" \
        WITHOUT_PIPELINE="${WITHOUT_PIPELINE:-}" \
        sh -ec "cd; $script" sh "$@"
' sh "$root" "$script" "$@"
