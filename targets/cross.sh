#!/bin/sh
# The release binaries: cross.sh DIST TARGET=CEILING... builds each and puts it to DIST as qinglet-TARGET, with
# SHA256SUMS. Refuses one that is not static, has relocations in its code, or is bigger than its ceiling in bytes.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dist=$1
shift
built=${CARGO_TARGET_DIR:-$here/../target}/cross
sh "$here/bootstrap"
mkdir -p "$dist"
status=0
printf '%-34s %9s %9s\n' target bytes ceiling
for wanted; do
	target=${wanted%%=*} ceiling=${wanted#*=}
	"$here/cargo" "$target" build --locked --quiet --release --bin qinglet --target-dir "$built"
	binary=$built/$target/release/qinglet
	size=$(wc -c <"$binary")
	words=
	! readelf -lW "$binary" | grep -q INTERP || words="$words, not static"
	! readelf -dW "$binary" 2>/dev/null | grep -q -e TEXTREL -e NEEDED || words="$words, needs a loader"
	[ "$size" -le "$ceiling" ] || words="$words, above its ceiling"
	printf '%-34s %9s %9s %s\n' "$target" "$size" "$ceiling" "${words#, }"
	[ -z "$words" ] || status=1
	install -m 0755 "$binary" "$dist/qinglet-$target"
done
(cd "$dist" && sha256sum qinglet-*-linux-musl* | grep -v '\.tar\.gz$' >SHA256SUMS)
exit $status
