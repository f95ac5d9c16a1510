#!/bin/sh
# Builds the fuzzer and prints its path: build.sh TARGET_DIR. libFuzzer itself is compiled from the source that
# libfuzzer-sys carries; the coverage it is guided by comes from LLVM's own pass, which a stable rustc has.
set -eu
cd "$(dirname "$0")"
dir=$1
command -v "${CXX:-c++}" >/dev/null || {
    echo "make fuzz needs a C++ compiler for libFuzzer: apt-get install g++ (or set CXX)" >&2
    exit 2
}
host=$(rustc -vV | sed -n 's/^host: //p')
pass='-Cpasses=sancov-module'
for part in level=4 inline-8bit-counters pc-table trace-compares; do
    pass="$pass -Cllvm-args=-sanitizer-coverage-$part"
done
# With --target the flags do not reach build scripts and macros, which are not fuzzed and could not be linked.
RUSTFLAGS="$pass" "${CARGO:-cargo}" build --locked --quiet --release --target "$host" --target-dir "$dir" >&2
echo "$dir/$host/release/qinglet-fuzz"
