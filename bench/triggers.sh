#!/usr/bin/env bash
# What five thousand triggers cost: the time from the start of the release binary to its first answer, and
# its voluntary context switches while nothing is due, beside the same with none. Interleaved.
#   bench/triggers.sh [SECONDS]      default 60
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
binary=${QINGLET:-target/release/qinglet}
[ -x "$binary" ] || { echo "triggers: $binary is missing; run 'make build' first" >&2; exit 1; }
command -v python3 >/dev/null || { echo "triggers: python3 is needed to fill the state" >&2; exit 1; }

work=$(mktemp -d)
pid=
cleanup() {
  if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

up() {
  local begun
  begun=$(date +%s%N)
  "$binary" --state "$1" serve --clock always 2>"$work/err" &
  pid=$!
  until "$binary" --state "$1" status >/dev/null 2>&1; do sleep 0.005; done
  took_ms=$((($(date +%s%N) - begun) / 1000000))
}
down() { kill "$pid"; wait "$pid" || true; pid=; }

for size in 0 5000; do
  "$binary" --state "$work/$size" init >/dev/null
  up "$work/$size"
  "$binary" --state "$work/$size" task add t -- /bin/true >/dev/null
  "$binary" --state "$work/$size" trigger set t0 --task t --cron '0 0 1 1 *' --zone UTC >/dev/null
  down
  python3 - "$work/$size" "$size" <<'FILL'
import glob, sqlite3, sys
db = sqlite3.connect(glob.glob(sys.argv[1] + "/*.db")[0])
for number in range(1, int(sys.argv[2])):
    db.execute("INSERT INTO triggers SELECT project, 'c' || ?, revision, deleted, kind, enabled, task, watched, digest,"
               " definition, created_at_ms, updated_at_ms FROM triggers WHERE id = 't0'", (number,))
    db.execute("INSERT INTO trigger_schedules SELECT project, 'c' || ?, version, 4000000000000 + ?, 1, NULL, NULL, NULL, 0,"
               " NULL, NULL FROM trigger_schedules WHERE trigger_id = 't0'", (number, number))
db.commit()
FILL
done

for round in 1 2 3 4 5; do
  for size in 0 5000; do
    up "$work/$size"
    echo "$took_ms" >>"$work/start.$size"
    down
  done
done
switches() { cat /proc/"$pid"/task/*/status | awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }'; }
printf '%-28s %10s %10s\n' "triggers" "1" "5000"
median() { sort -n "$1" | sed -n 3p; }
printf '%-28s %10s %10s\n' "start to first answer, ms" "$(median "$work/start.0")" "$(median "$work/start.5000")"
woken=()
for size in 0 5000; do
  up "$work/$size"
  sleep 2
  before=$(switches)
  sleep "$seconds"
  woken+=($(($(switches) - before)))
  down
done
printf '%-28s %10s %10s\n' "switches in ${seconds} s" "${woken[0]}" "${woken[1]}"
