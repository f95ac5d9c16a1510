#!/usr/bin/env bash
# run.sh SCENARIO: runs tests/box/SCENARIO.sh inside a machine of its own, and fails when a check in it does.
#
# The machine: Debian's kernel under qemu, one processor, 128 MiB, no disk and no network, started on the
# first of January 1970. All of it lives in an initramfs: busybox, a static build of qinglet, the scenario.
# Its time is virtual: whenever it has nothing to do, it goes straight on to the next timer, so hours take
# moments and no check depends on how fast this machine is.
#
# Wanted from Debian: qemu-system-x86, cpio. Kernel and busybox are downloaded to target/box and unpacked
# there; nothing is installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
scenario=${1:?which scenario}
work=${CARGO_TARGET_DIR:-$root/target}/box
limit=${BOX_SECONDS:-480}
[ -f "$here/$scenario.sh" ] || { echo "there is no scenario $scenario" >&2; exit 2; }

missing=
for tool in qemu-system-x86_64:qemu-system-x86 cpio:cpio dpkg-deb:dpkg apt-get:apt; do
    command -v "${tool%%:*}" >/dev/null || missing="$missing ${tool##*:}"
done
if [ -n "$missing" ]; then
    echo "missing:$missing; on Debian: apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
[ "$(uname -m)" = x86_64 ] || { echo "only an x86_64 machine can build for this one so far" >&2; exit 1; }

fetch() {
    local kernel
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
    [ -n "$kernel" ] || { echo "apt knows no kernel: apt-get update" >&2; return 1; }
    rm -rf "$work/new"
    mkdir -p "$work/new/files"
    (cd "$work/new" && apt-get download -qq -o APT::Sandbox::User="$(id -un)" "$kernel" busybox-static)
    for package in "$work"/new/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar x -C "$work/new/files" --wildcards './boot/vmlinuz*' ./bin/busybox 2>/dev/null || true
    done
    cp "$work"/new/files/boot/vmlinuz* "$work/vmlinuz"
    cp "$work/new/files/bin/busybox" "$work/busybox"
    rm -rf "$work/new"
}

[ -f "$work/vmlinuz" ] && [ -x "$work/busybox" ] || fetch

# Static with the C library that is here; what runs in it is the same code as everywhere.
RUSTFLAGS='-C target-feature=+crt-static' \
    "${CARGO:-cargo}" build --locked --release --target x86_64-unknown-linux-gnu --target-dir "$work/build" --bin qinglet

tree=$work/tree
rm -rf "$tree"
mkdir -p "$tree"/{bin,box,dev,etc,proc,root,sys,tmp,var/lib}
cp "$work/busybox" "$tree/bin/busybox"
cp "$work/build/x86_64-unknown-linux-gnu/release/qinglet" "$tree/bin/qinglet"
cp "$here/init" "$tree/init"
cp "$here/kit.sh" "$tree/box/kit.sh"
cp "$here/$scenario.sh" "$tree/box/scenario.sh"
chmod 0755 "$tree/init"
echo 'root:x:0:0:root:/root:/bin/sh' >"$tree/etc/passwd"
(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz"

console=$work/$scenario.console
status=0
timeout --foreground -k 5 "$limit" qemu-system-x86_64 \
    -nodefaults -no-user-config -display none -no-reboot -M pc -cpu qemu64 -m 128 -smp 1 \
    -accel tcg -icount shift=4,sleep=off -rtc base=1970-01-01,clock=vm \
    -kernel "$work/vmlinuz" -initrd "$work/initramfs.gz" -append 'console=ttyS0 quiet panic=-1' \
    -serial stdio </dev/null | tr -d '\r' | tee "$console" | sed -u -n 's/^box: //p' || status=$?
if [ "$status" != 0 ] || ! grep -q '^box: every one of [1-9][0-9]* checks passed$' "$console"; then
    echo "the scenario $scenario failed; what the machine said is in $console" >&2
    exit 1
fi
