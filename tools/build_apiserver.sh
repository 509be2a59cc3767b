#!/usr/bin/env bash
# A real kube-apiserver and the etcd that it needs, in var/kubernetes/bin, for `make test-kubernetes`.
# Both come from Debian: etcd as a package, the server from the source package `kubernetes`, built
# with Debian's Go. Packages are unpacked beside the build, not installed: nothing needs root.
# Takes six to nine minutes on two cores the first time; a second run does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p var/kubernetes
room=$(cd var/kubernetes && pwd)
go_version=1.19 # what Debian's kubernetes 1.20 builds with

if [[ -x $room/bin/kube-apiserver && -x $room/bin/etcd ]]; then
    exit 0
fi

for tool in apt-get dpkg dpkg-source patch; do
    if ! command -v "$tool" >/dev/null; then
        echo "tools/build_apiserver.sh: $tool is missing; it needs Debian 12 (or what is made from" \
            "it) with the packages apt, dpkg-dev and patch" >&2
        exit 1
    fi
done

# The host's own package sources with the source packages beside the binary ones, in lists of our
# own: the host's lists stay as they are, and no mirror is named here.
apt=$room/apt
mkdir -p "$apt"/{sources.list.d,lists/partial,cache/archives/partial}
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ -f $file ]] || continue
    sed -nE 's/^deb(-src)?[[:space:]]/&/; /^deb[[:space:]]/{p;s/^deb/deb-src/;p}' "$file" \
        >"$apt/sources.list.d/$(basename "$file" .list).list"
done
for file in /etc/apt/sources.list.d/*.sources; do
    [[ -f $file ]] || continue
    sed -E 's/^Types:.*/Types: deb deb-src/' "$file" >"$apt/sources.list.d/$(basename "$file")"
done
apt_get() {
    apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt/sources.list.d" \
        -o Dir::State::Lists="$apt/lists" -o Dir::Cache="$apt/cache" -o APT::Sandbox::User= "$@"
}

echo "Fetching etcd, Go $go_version and the sources of kubernetes from the host's package sources …" >&2
apt_get update >"$apt/update.log" 2>&1 || true # a source that this needs not may be down
mkdir -p "$room/packages" "$room/root" "$room/bin"
(
    cd "$room/packages"
    apt_get download etcd-server "golang-$go_version-go" "golang-$go_version-src"
    apt_get source --download-only --only-source kubernetes
) >"$apt/fetch.log" 2>&1 || {
    echo "tools/build_apiserver.sh: the package sources of this host do not have them: it needs" \
        "Debian 12's main, source packages included; see var/kubernetes/apt/fetch.log" >&2
    exit 1
}
for package in "$room"/packages/*.deb; do
    dpkg -x "$package" "$room/root"
done
install "$room/root/usr/bin/etcd" "$room/bin/etcd"

gopath=$room/go
tree=$gopath/src/k8s.io/kubernetes # where Go, without modules, looks for it
if [[ ! -d $tree ]]; then
    mkdir -p "$(dirname "$tree")"
    dpkg-source --no-check -x "$room"/packages/kubernetes_*.dsc "$tree.unpacked" >"$apt/unpack.log" 2>&1
    mv "$tree.unpacked" "$tree"
fi

version=v$(sed -nE '1s/.*\(([^)]*)\).*/\1/p' "$tree/debian/changelog" | sed -E 's/.*really//; s/[-+~].*//')
echo "Building kube-apiserver $version; this takes minutes …" >&2
(
    cd "$tree"
    export GOROOT=$room/root/usr/lib/go-$go_version GOPATH=$gopath GO111MODULE=off GOFLAGS='' \
        GOCACHE=$room/cache CGO_ENABLED=0 PATH=$room/root/usr/lib/go-$go_version/bin:$PATH
    build() { nice -n 19 go build -p "${JOBS:-2}" "$@"; }

    # The one generated file that the source package lacks (Makefile.generated_files, gen_openapi).
    described=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg staging/src/k8s.io |
        grep -vE '/(code-generator|sample-apiserver|kube-openapi)/' | xargs -n1 dirname | LC_ALL=C sort -u |
        sed -E 's,^staging/src,k8s.io/kubernetes/vendor,; s,^pkg,k8s.io/kubernetes/pkg,' | paste -sd,)
    build -o "$room/bin/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
    nice -n 19 "$room/bin/openapi-gen" -i "$described" -p k8s.io/kubernetes/pkg/generated/openapi \
        -O zz_generated.openapi -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt \
        -r "$apt/violations.report"

    component=k8s.io/kubernetes/vendor/k8s.io/component-base
    build -o "$room/bin/kube-apiserver.new" \
        -ldflags "-s -w -X $component/version.gitVersion=$version" ./cmd/kube-apiserver
)
rm "$room/bin/openapi-gen"
mv "$room/bin/kube-apiserver.new" "$room/bin/kube-apiserver"
# What only the build needed: 2 GB.
rm -rf "$room/cache" "$room/go" "$room/root" "$room/packages" "$apt"
echo "Built var/kubernetes/bin/kube-apiserver ($version)." >&2
