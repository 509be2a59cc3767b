#!/bin/sh
# Prints the Debian packages that are missing here, in one line; nothing if none is.
# Usage: tools/missing_packages.sh hosts|image|long …
PATH=$PATH:/usr/sbin:/sbin
for target in "$@"; do
    while read -r program package targets; do
        case $program in '#'*) continue ;; esac
        case " $targets " in *" $target "*) ;; *) continue ;; esac
        [ -e "$program" ] || command -v "$program" >/dev/null 2>&1 || echo "$package"
    done <"$(dirname "$0")/system_packages.txt"
done | sort -u | tr '\n' ' ' | sed 's/ $//'
