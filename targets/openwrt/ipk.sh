#!/bin/sh
# ipk.sh BINARIES OUTPUT [ARCH...]: makes OpenWrt packages from the binaries of `make cross` in BINARIES, for each
# line of `arches` or for those named. The same bytes each time: owners, order and times are fixed, the latter by SOURCE_DATE_EPOCH.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
binaries=$1
output=$2
shift 2
wanted=" $* "
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)-r1
: "${SOURCE_DATE_EPOCH:?is not set: the time all files get, as in SOURCE_DATE_EPOCH=\$(git log -1 --format=%ct)}"

fail() { echo "ipk: $*" >&2; exit 1; }
tar --version 2>/dev/null | grep -q GNU || fail 'GNU tar is needed; on Debian: apt-get install -y tar'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# pack FOLDER FILE: a gzipped tar that depends on nothing but names, modes and contents.
pack() {
	tar -C "$1" --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		-cf "$work/tar" .
	gzip -9n <"$work/tar" >"$2"
}

# A processor that lacks what the binary's code uses stops it in the middle; better here.
suits() {
	command -v readelf >/dev/null 2>&1 || return 0
	case $1 in
		arm_*vfpv3-d16*)
			readelf -A "$2" >"$work/attributes" 2>/dev/null || return 0
			if grep -q 'Tag_Advanced_SIMD_arch' "$work/attributes"; then
				fail "$2 uses NEON, which $1 lacks: build it for VFPv3-D16"
			fi
			if grep 'Tag_FP_arch' "$work/attributes" | grep -qv D16; then
				fail "$2 uses 32 floating-point registers, $1 has 16: build it for VFPv3-D16"
			fi
			;;
	esac
}

mkdir -p "$output"
grep -v '^#' "$here/arches" | while read -r arch triple; do
	case $wanted in '  ' | *" $arch "*) ;; *) continue ;; esac
	binary=$binaries/qinglet-$triple
	[ -f "$binary" ] || fail "$binary is missing: run \`make cross\` first"
	suits "$arch" "$binary"
	data=$work/$arch/data control=$work/$arch/control whole=$work/$arch/whole
	mkdir -p "$data" "$control" "$whole"
	grep -v '^#' "$here/files.list" | while read -r mode from to; do
		source=$here/$from
		[ "$from" != binary ] || source=$binary
		install -D -m "$mode" "$source" "$data$to"
	done
	find "$data" -type d -exec chmod 0755 {} +
	size=$(find "$data" -type f -exec cat {} + | wc -c)
	cat >"$control/control" <<-EOF
	Package: qinglet
	Version: $version
	Section: utils
	Architecture: $arch
	License: MIT
	Installed-Size: $size
	Description: A small, durable task runtime: it starts, follows and stops tasks, and can say after any crash how they ended.
	EOF
	install -m 0644 "$here/conffiles" "$control/conffiles"
	install -m 0755 "$here/postinst" "$here/prerm" "$here/postrm" "$control"
	chmod 0644 "$control/control"
	chmod 0755 "$control" "$data" "$whole"
	echo 2.0 >"$whole/debian-binary"
	pack "$data" "$whole/data.tar.gz"
	pack "$control" "$whole/control.tar.gz"
	chmod 0644 "$whole"/*
	# In the order in which the package manager reads them.
	name=qinglet_${version}_$arch.ipk
	tar -C "$whole" --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		-cf "$work/tar" ./debian-binary ./data.tar.gz ./control.tar.gz
	gzip -9n <"$work/tar" >"$output/$name.new"
	mv "$output/$name.new" "$output/$name"
	echo "$output/$name"
done
