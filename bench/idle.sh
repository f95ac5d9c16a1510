#!/usr/bin/env bash
# What an idle daemon costs: threads, resident memory and voluntary context switches of the release
# binary, edge profile, TCP on. Fails above the bounds of the second column.
#   bench/idle.sh [SECONDS]      default 120
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-120}
binary=${QINGLET:-target/release/qinglet}
[ -x "$binary" ] || { echo "idle: $binary is missing; run 'make build' first" >&2; exit 1; }

state=$(mktemp -d)
pid=
cleanup() {
  if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; fi
  rm -rf "$state"
}
trap cleanup EXIT

"$binary" --state "$state/s" init >/dev/null
"$binary" --state "$state/s" serve --listen 127.0.0.1:0 2>"$state/err" &
pid=$!
for _ in $(seq 100); do [ -s "$state/s/run/address" ] && break; sleep 0.1; done
[ -s "$state/s/run/address" ] || { cat "$state/err" >&2; exit 1; }
"$binary" --state "$state/s" status >/dev/null   # one request, so that every lazy part has been used
sleep 2

switches() { cat /proc/"$pid"/task/*/status | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }'; }
field() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$pid/status"; }
before=$(switches)
sleep "$seconds"
after=$(switches)
threads=$(field Threads)
rss_kib=$(field VmRSS)
pss_kib=$(awk '/^Pss:/ { print $2 }' "/proc/$pid/smaps_rollup")
woken=$((after - before))

printf '%-28s %10s %10s\n' "idle, edge, TCP on" measured bound
printf '%-28s %10s %10s\n' threads "$threads" 13
printf '%-28s %10s %10s\n' "resident KiB" "$rss_kib" 6144
printf '%-28s %10s %10s\n' "proportional KiB" "$pss_kib" -
printf '%-28s %10s %10s\n' "switches in ${seconds} s" "$woken" $((4 * seconds / 120))
[ "$threads" -eq 13 ] && [ "$rss_kib" -le 6144 ] && [ "$woken" -le $((4 * seconds / 120)) ]
