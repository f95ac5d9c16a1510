#!/usr/bin/env bash
# run.sh SCENARIO [ARCH]: runs tests/box/SCENARIO.sh inside a machine of its own, and fails when a check in it does.
#
# The machine: Debian's kernel under qemu, one processor, 128 MiB, no disk and no network, started on the
# first of January 1970. All of it lives in an initramfs: busybox, a static build of qinglet, the scenario.
# Its time is virtual: whenever it has nothing to do, it goes straight on to the next timer, so hours take
# moments and no check depends on how fast this machine is.
#
# ARCH is x86_64, armv7 or aarch64; for the last two the binary is what targets/cargo builds.
# Wanted from Debian: cpio, and qemu-system-x86 or qemu-system-arm. Kernel and busybox are downloaded to target/box
# and unpacked there; nothing is installed, and the system's own package lists stay as they are.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
scenario=${1:?which scenario}
arch=${2:-x86_64}
box=${CARGO_TARGET_DIR:-$root/target}/box
work=$box/$arch
limit=${BOX_SECONDS:-480}
[ -f "$here/$scenario.sh" ] || { echo "there is no scenario $scenario" >&2; exit 2; }

case $arch in
    x86_64) deb=amd64 image=linux-image-amd64 qemu=qemu-system-x86_64 package=qemu-system-x86 triple=x86_64-unknown-linux-gnu
        console=ttyS0 machine=(-M pc -cpu qemu64) ;;
    armv7) deb=armhf image=linux-image-armmp qemu=qemu-system-arm package=qemu-system-arm triple=armv7-unknown-linux-musleabihf
        console=ttyAMA0 machine=(-M virt,highmem=off -cpu cortex-a7) zig=arm-linux-musleabihf ;;
    aarch64) deb=arm64 image=linux-image-arm64 qemu=qemu-system-aarch64 package=qemu-system-arm triple=aarch64-unknown-linux-musl
        console=ttyAMA0 machine=(-M virt -cpu cortex-a53) zig=aarch64-linux-musl ;;
    *) echo "there is no machine $arch; there are x86_64, armv7 and aarch64" >&2; exit 2 ;;
esac

missing=
for tool in "$qemu:$package" cpio:cpio dpkg-deb:dpkg apt-get:apt; do
    command -v "${tool%%:*}" >/dev/null || missing="$missing ${tool##*:}"
done
if [ -n "$missing" ]; then
    echo "missing:$missing; on Debian: apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
[ "$arch" != x86_64 ] || [ "$(uname -m)" = x86_64 ] || { echo "only an x86_64 machine can build for this one" >&2; exit 1; }

# apt with lists of its own, which know this architecture, from the mirror that this system uses.
apt() {
    local tool=$1
    shift
    "$tool" -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o "APT::Architectures::=$deb" \
        -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::SourceList="$work/apt/sources.list" -o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" "$@"
}

fetch() {
    local mirror kernel
    mirror=$({ cat /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true; } |
        sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb \(\[.*\] \)\{0,1\}\(http[^ ]*\) .*/\2/p' | head -n 1)
    rm -rf "$work/new" "$work/apt"
    mkdir -p "$work/new/files" "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror:-http://deb.debian.org/debian} bookworm main" \
        >"$work/apt/sources.list"
    apt apt-get update -qq
    kernel=$(apt apt-cache show "$image:$deb" | sed -n 's/^Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)
    [ -n "$kernel" ] || { echo "apt knows no kernel for $deb" >&2; return 1; }
    (cd "$work/new" && apt apt-get download -qq "$kernel:$deb" "busybox-static:$deb")
    for package in "$work"/new/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar x -C "$work/new/files" --wildcards './boot/vmlinuz*' ./bin/busybox 2>/dev/null || true
    done
    cp "$work"/new/files/boot/vmlinuz* "$work/vmlinuz"
    cp "$work/new/files/bin/busybox" "$work/busybox"
    rm -rf "$work/new" "$work/apt"
}

mkdir -p "$work"
[ -f "$work/vmlinuz" ] && [ -x "$work/busybox" ] || fetch

if [ "$arch" = x86_64 ]; then
    # Static with the C library that is here; what runs in it is the same code as everywhere.
    RUSTFLAGS='-C target-feature=+crt-static' \
        "${CARGO:-cargo}" build --locked --release --target "$triple" --target-dir "$box/build" --bin qinglet
    binary=$box/build/$triple/release/qinglet
else
    "$root/targets/cargo" "$triple" build --locked --quiet --release --bin qinglet --target-dir "${box%/box}/cross"
    binary=${box%/box}/cross/$triple/release/qinglet
fi

tree=$work/tree
rm -rf "$tree"
mkdir -p "$tree"/{bin,box,dev,etc,proc,root,sys,tmp,var/lib}
cp "$work/busybox" "$tree/bin/busybox"
cp "$binary" "$tree/bin/qinglet"
cp "$here/init" "$tree/init"
if [ "$arch" != x86_64 ]; then
    (
        here=$root/targets
        . "$here/cross.env"
        "$ZIG" cc -target "$zig" -Os -static -o "$tree/bin/wallclock" "$root/tests/box/wallclock.c"
    )
fi
cp "$here/kit.sh" "$tree/box/kit.sh"
cp "$here/$scenario.sh" "$tree/box/scenario.sh"
chmod 0755 "$tree/init"
echo 'root:x:0:0:root:/root:/bin/sh' >"$tree/etc/passwd"
(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initramfs.gz"

said=$work/$scenario.console
status=0
timeout --foreground -k 5 "$limit" "$qemu" \
    -nodefaults -no-user-config -display none -no-reboot "${machine[@]}" -m 128 -smp 1 \
    -accel tcg -icount shift=4,sleep=off -rtc base=1970-01-01,clock=vm \
    -kernel "$work/vmlinuz" -initrd "$work/initramfs.gz" -append "console=$console quiet panic=-1" \
    -serial stdio </dev/null | tr -d '\r' | tee "$said" | sed -u -n 's/^box: //p' || status=$?
if [ "$status" != 0 ] || ! grep -q '^box: every one of [1-9][0-9]* checks passed$' "$said"; then
    echo "the scenario $scenario failed; what the machine said is in $said" >&2
    exit 1
fi
