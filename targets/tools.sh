#!/bin/sh
# Says in one line what is missing to build, and how a Debian machine gets it.
missing=
ways=
need() { missing="$missing${missing:+, }$1"; ways="$ways${ways:+ && }$2"; }

wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rustup='curl -sSf https://sh.rustup.rs | sh -s -- -y --profile default'
if ! command -v cargo >/dev/null 2>&1; then
    command -v curl >/dev/null 2>&1 || need curl 'apt-get install -y curl ca-certificates'
    need "cargo $wanted or newer" "$rustup"
else
    have=$(cargo --version | sed 's/^cargo \([0-9]*\.[0-9]*\).*/\1/')
    oldest=$(printf '%s\n%s\n' "$have" "$wanted" | sort -t . -k 1,1n -k 2,2n | head -n 1)
    [ "$oldest" = "$wanted" ] || need "cargo $wanted or newer (this is $have)" "$rustup"
fi
command -v cc >/dev/null 2>&1 || need 'a C compiler' 'apt-get install -y gcc libc6-dev'

[ -z "$missing" ] && exit 0
echo "missing: $missing; on Debian: $ways" >&2
exit 1
