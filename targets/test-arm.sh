#!/bin/sh
# test-arm.sh TARGET_DIR: the ARM binaries are tested twice. The unit tests run under qemu's user emulation, which is
# quick but lacks some calls; the main job (states, runs, stops, a crash, a clock beyond 2038) runs in emulated
# machines with Debian's kernels, which lack nothing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$here/..
built=$1
sh "$here/bootstrap"

cd "$top"
for target in ${TEST_ARM_UNITS:-armv7-unknown-linux-musleabihf}; do
	echo "== unit tests, $target, under qemu-user"
	"$here/cargo" "$target" test --locked --quiet --lib --target-dir "$built/cross"
done
for arch in ${TEST_ARM_MACHINES-armv7 aarch64}; do
	echo "== the main job on an emulated $arch machine"
	CARGO_TARGET_DIR=$built bash "$top/tests/box/run.sh" main "$arch"
done
