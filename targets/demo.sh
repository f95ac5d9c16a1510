#!/usr/bin/env bash
# demo.sh BINARY: one task from its definition to its outcome, started through the HTTP API.
# Everything happens in a throw-away folder; the daemon is stopped at the end, whatever happens.
set -euo pipefail

qinglet=$(realpath "$1")
work=$(mktemp -d "${TMPDIR:-/tmp}/qinglet-demo.XXXXXX")
state=$work/state
daemon=

# Asks the daemon to stop and waits for it, at most ten seconds; its exit code.
stop() {
    local pid=$daemon
    daemon=
    kill -TERM "$pid" 2>/dev/null || true
    for _ in $(seq 200); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid"
}

finish() {
    local status=$?
    trap - EXIT INT TERM
    [ -z "$daemon" ] || stop || true
    if [ "$status" != 0 ]; then
        echo 'demo: failed' >&2
        [ ! -s "$work/daemon.log" ] || sed 's/^/demo: the daemon wrote: /' "$work/daemon.log" >&2
    fi
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '\n== %s\n' "$*"; }
cli() { "$qinglet" --state "$state" "$@"; }
# field NAME: the value of a text or number field in the JSON on the standard input.
field() { sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

say 'init: make the state and its owner'
cli init

say 'serve: start the daemon on a free port of 127.0.0.1'
"$qinglet" --state "$state" serve --listen 127.0.0.1:0 >"$work/daemon.log" 2>&1 &
daemon=$!
for _ in $(seq 200); do
    [ -s "$state/run/address" ] && break
    kill -0 "$daemon" 2>/dev/null || { echo 'demo: the daemon ended' >&2; exit 1; }
    sleep 0.05
done
address=$(cat "$state/run/address")
echo "listening on $address"

say 'task add: what to run'
cli task add hello --name 'Say hello' \
    --shell 'for i in 1 2 3; do echo "hello $i"; sleep 0.2; done; echo "run $QINGLET_RUN_ID is done"'
cli task list

say 'HTTP: start it, with the revision and digest that were seen'
# api METHOD PATH [BODY]: one request; the answer's body. The token goes through a descriptor, so it
# is in no argument list.
api() {
    local method=$1 path=$2 body=${3:-}
    exec 4<>"/dev/tcp/${address%:*}/${address##*:}"
    {
        printf '%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n' "$method" "$path" "$address"
        printf 'Authorization: Bearer %s\r\n' "$(cat "$state/owner.token")"
        [ -z "$body" ] || printf 'Content-Type: application/json\r\nContent-Length: %d\r\n' "${#body}"
        printf '\r\n%s' "$body"
    } >&4
    sed '1,/^\r*$/d' <&4
    exec 4>&-
}
tasks=/api/v3/projects/default/tasks
task=$(api GET "$tasks/hello")
start=$(printf '{"schema":"qinglong/task-start@v1","mutationId":"%s","expectedRevision":%d,"expectedContentDigest":"%s"}' \
    "$(cat /proc/sys/kernel/random/uuid)" "$(field revision <<<"$task")" "$(field contentDigest <<<"$task")")
echo "POST $tasks/hello/runs"
echo "$start"
answer=$(api POST "$tasks/hello/runs" "$start")
echo "$answer"
run=$(field runId <<<"$answer")
[ -n "$run" ] || { echo 'demo: the start was refused' >&2; exit 1; }

say 'logs --follow: what it writes, as it writes it'
cli logs "$run" --follow

say 'events: everything that happened to the run'
cli events "$run"

say 'show: how it ended'
cli show "$run"
[ "$(cli --json show "$run" | grep -c '"status":"succeeded"')" = 1 ]

say 'stop the daemon'
stop
echo 'demo: done'
