#!/bin/sh
# bundle.sh BINARIES OUTPUT: for each binary of `make cross` in BINARIES an archive with all that an installation
# needs: unpack it on the machine and run install.sh. The same bytes each time, see SOURCE_DATE_EPOCH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
binaries=$1
output=$2
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)
: "${SOURCE_DATE_EPOCH:?is not set: the time all files get}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
mkdir -p "$output"

made=
for binary in "$binaries"/qinglet-*-linux-*; do
	case $binary in *.tar.gz) continue ;; esac
	[ -f "$binary" ] || continue
	triple=${binary##*/qinglet-}
	name=qinglet-$version-$triple
	install -D -m 0755 "$binary" "$work/$name/qinglet-$triple"
	install -m 0755 "$here/install.sh" "$top/targets/busybox/S90qinglet" "$work/$name"
	install -m 0644 "$here/files.list" "$here/qinglet.service" "$here/qinglet.openrc" "$top/LICENSE" "$top/README.md" \
		"$work/$name"
	(cd "$work/$name" && sha256sum "qinglet-$triple" >SHA256SUMS && chmod 0644 SHA256SUMS && chmod 0755 .)
	tar -C "$work" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		-cf "$work/tar" "$name"
	gzip -9n <"$work/tar" >"$output/$name.tar.gz.new"
	mv "$output/$name.tar.gz.new" "$output/$name.tar.gz"
	echo "$output/$name.tar.gz"
	made=yes
done
[ -n "$made" ] || { echo "bundle: there is no binary in $binaries: run \`make cross\` first" >&2; exit 1; }
