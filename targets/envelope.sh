#!/usr/bin/env bash
# envelope.sh BINARY: a working day in 128 MiB and 64 process ids, in a cgroup that is made for it and removed
# afterwards: 20 runs, 4 at a time, one log at its cap, one stop, one kill -9 and the recovery from it, an end when told
# to. Prints the most memory and the most process ids that it took; fails when a run did not end as it should, when
# anything was killed for memory, or when the database is not whole. Not for other architectures under qemu-user, which
# refuses what the supervisor needs (PR_SET_CHILD_SUBREAPER): tests/box has a whole machine of 128 MiB for those.
set -euo pipefail

binary=$(realpath "$1")
memory=$((128 << 20)) pids=64
work=$(mktemp -d "${TMPDIR:-/tmp}/qinglet-envelope.XXXXXX")
state=$work/state
groups=()
daemon=

fail() { echo "envelope: $*" >&2; exit 1; }

finish() {
    local status=$? group pid
    trap - EXIT INT TERM
    for group in "${groups[@]}"; do
        for _ in $(seq 100); do
            while read -r pid; do kill -KILL "$pid" 2>/dev/null || true; done <"$group/cgroup.procs"
            # The tasks' own groups, should any be left.
            find "$group" -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null || true
            rmdir "$group" 2>/dev/null && break
            sleep 0.05
        done
    done
    [ "$status" = 0 ] || [ ! -s "$work/daemon.log" ] || sed 's/^/the daemon wrote: /' "$work/daemon.log" >&2
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[ "$(id -u)" = 0 ] || fail 'needs root, to make a cgroup'
name=qinglet-envelope-$$
root=/sys/fs/cgroup
if [ -f $root/cgroup.controllers ]; then
    version=2
    echo '+memory +pids' >$root/cgroup.subtree_control 2>/dev/null || fail 'the memory and pids controllers cannot be had here'
    group=$root/$name
    mkdir "$group" && groups=("$group")
    echo $memory >"$group/memory.max" && echo $pids >"$group/pids.max"
    [ ! -w "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
    peak_memory() { cat "$group/memory.peak" 2>/dev/null || echo 0; }
    kills() { sed -n 's/^oom_kill //p' "$group/memory.events"; }
    count() { cat "$group/pids.current"; }
    refused() { sed -n 's/^max //p' "$group/pids.events"; }
else
    version=1
    mkdir "$root/memory/$name" && groups+=("$root/memory/$name") || fail 'the memory controller cannot be had here'
    mkdir "$root/pids/$name" && groups+=("$root/pids/$name") || fail 'the pids controller cannot be had here'
    echo $memory >"$root/memory/$name/memory.limit_in_bytes" && echo $pids >"$root/pids/$name/pids.max"
    peak_memory() { cat "$root/memory/$name/memory.max_usage_in_bytes"; }
    kills() { sed -n 's/^oom_kill //p' "$root/memory/$name/memory.oom_control"; }
    count() { cat "$root/pids/$name/pids.current"; }
    refused() { sed -n 's/^max //p' "$root/pids/$name/pids.events"; }
fi

# Everything that is measured runs inside.
inside() {
    (
        for group in "${groups[@]}"; do echo "$BASHPID" >"$group/cgroup.procs"; done
        exec "$binary" --state "$state" "$@"
    )
}
# The command line that only looks and asks is outside; it is no part of what a router carries all day.
cli() { "$binary" --state "$state" "$@"; }
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1; }
status_of() { cli --json show "$1" | field status; }

serve() {
    inside serve >>"$work/daemon.log" 2>&1 &
    for _ in $(seq 400); do
        if cli status >/dev/null 2>&1; then
            daemon=$(cut -d' ' -f1 "$state/lock")
            return 0
        fi
        sleep 0.05
    done
    fail 'the daemon does not answer'
}

most=0
watch() {
    local now
    now=$(count)
    [ "$now" -le "$most" ] || most=$now
}
until_ended() {
    local run=$1
    for _ in $(seq 1200); do
        watch
        case $(status_of "$run") in queued | dispatching | running | retry_wait) sleep 0.05 ;; *) return 0 ;; esac
    done
    fail "run $run does not end"
}

inside init >/dev/null
began=$(date +%s%N)
serve
ready_ms=$((($(date +%s%N) - began) / 1000000))
idle=$(count)
cli task add short --shell 'echo said; sleep 0.2' >/dev/null
cli task add chatty --shell 'head -c 20000000 /dev/zero | tr "\0" x' >/dev/null
cli task add slow --grace 1s --shell 'trap "" TERM; while :; do sleep 1; done' >/dev/null
cli task add outlives --shell 'sleep 3; exit 5' >/dev/null

runs=()
for at in $(seq 20); do
    task=short
    [ "$at" != 7 ] || task=chatty
    runs+=("$(cli run "$task")")
    watch
done
for run in "${runs[@]}"; do
    until_ended "$run"
    [ "$(status_of "$run")" = succeeded ] || fail "run $run is $(status_of "$run")"
done
log=$(cli logs "${runs[6]}" 2>/dev/null | wc -c)
[ "$log" -lt 20000000 ] && [ "$log" -gt 100000 ] || fail "the log of the chatty run has $log bytes, which is no cap"

run=$(cli run slow)
sleep 0.5
cli stop "$run" >/dev/null
until_ended "$run"
[ "$(status_of "$run")" = cancelled ] || fail "a stopped run is $(status_of "$run")"

run=$(cli run outlives)
sleep 0.5
kill -KILL "$daemon"
sleep 0.2
serve
until_ended "$run"
[ "$(status_of "$run") $(cli --json show "$run" | field exitCode)" = 'failed 5' ] || fail 'a run was not recovered'

kill -TERM "$daemon"
for _ in $(seq 200); do [ -e "/proc/$daemon" ] || break; sleep 0.05; done
[ ! -e "/proc/$daemon" ] || fail 'the daemon does not end'
verdict=$(python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchone()[0])' "$state/qinglet.db")
[ "$verdict" = ok ] || fail "the database: $verdict"

printf 'cgroup version %s, %s MiB, %s process ids\n' "$version" $((memory >> 20)) "$pids"
printf 'from its start to its first answer %8d ms\n' "$ready_ms"
printf 'most memory                        %8d KiB\n' $(($(peak_memory) / 1024))
printf 'most process ids                   %8d, %d of them the idle daemon\n' "$most" "$idle"
printf 'killed for memory                  %8d\n' "$(kills)"
printf 'process ids refused                %8d\n' "$(refused)"
[ "$(kills)" = 0 ] || fail 'something was killed for memory'
[ "$(refused)" = 0 ] || fail 'something was refused a process id'
