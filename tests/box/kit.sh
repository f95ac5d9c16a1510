# What a scenario in the box is made of. Every line that begins with "box:" is shown outside.

state=/var/lib/qinglet
checks=0
failures=0

say() { echo "box: $*"; }

# check WHAT COMMAND...: one check; WHAT is a sentence that should be true.
check() {
    local what=$1
    shift
    checks=$((checks + 1))
    if "$@"; then say "  ok: $what"; else
        failures=$((failures + 1))
        say "FAIL: $what"
    fi
}

# equal GOT WANTED, between GOT LEAST MOST: for check; what was got is said when it is wrong.
equal() { [ "$1" = "$2" ] || { say "      got $1, wanted $2"; false; }; }
between() { [ "$1" -ge "$2" ] && [ "$1" -le "$3" ] || { say "      got $1, wanted $2 to $3"; false; }; }

quietly() { "$@" >/dev/null; }

# Seconds since boot, which no setting of the clock changes.
boot_s() { cut -d. -f1 /proc/uptime; }

year() { date -u +%Y; }

# set_clock SECONDS: moves the wall clock by so much.
set_clock() { date -u -s "@$(($(date -u +%s) + $1))" >/dev/null; }

YEAR_S=31557600

# The daemon, in the background; waits until it answers.
serve() {
    qinglet serve "$@" >>/tmp/daemon.log 2>&1 &
    daemon=$!
    local tries=0
    until qinglet status >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { say "FAIL: the daemon does not answer: $(tail -n 3 /tmp/daemon.log)"; failures=$((failures + 1)); return 1; }
        sleep 0.1
    done
}

# kill_daemon: as a crash does.
kill_daemon() { kill -9 "$daemon"; wait "$daemon" 2>/dev/null; }

# word FIELD RUN: a field of a run, as its JSON has it, without quotes. Its attempt's fields stand before
# its own, so the last one is the run's where both have it.
word() { qinglet --json show "$2" | grep -o "\"$1\":[^,}]*" | tail -n 1 | sed 's/^[^:]*://; s/"//g'; }

# about FIELD TRIGGER: a field of a trigger in the same way.
about() { qinglet --json trigger show "$2" | grep -o "\"$1\":[^,}]*" | head -n 1 | sed 's/^[^:]*://; s/"//g'; }

# count TASK: how many runs a task has.
count() { qinglet --json runs --task "$1" --limit 1000 | grep -c '"id"'; }

# ended RUN SECONDS: waits for the end of a run, so long at most.
ended() {
    local until=$(($(boot_s) + $2))
    while case "$(word status "$1")" in queued | dispatching | running | retry_wait) true ;; *) false ;; esac; do
        [ "$(boot_s)" -lt "$until" ] || return 1
        sleep 0.2
    done
}

# sequences RUN: "whole" when its events count 1, 2, 3, ... as far as the run says.
sequences() {
    local found wanted
    found=$(qinglet --json events "$1" | grep -o '"sequence":[0-9]*' | cut -d: -f2 | tr '\n' ' ')
    wanted=$(seq 1 "$(word eventSequence "$1")" | tr '\n' ' ')
    [ -n "$wanted" ] && [ "$found" = "$wanted" ] && echo whole || echo "$found"
}

# run_steps STEP...: each step is a function; says at the end how it went.
run_steps() {
    for step in "$@"; do
        say "$(echo "$step" | tr _ ' ') ($(date -u '+%Y-%m-%d %H:%M:%S'), $(boot_s) s after boot)"
        "$step"
    done
    if [ "$failures" = 0 ]; then say "every one of $checks checks passed"; else
        say "$failures of $checks checks failed"
        tail -n 20 /tmp/daemon.log
    fi
}
