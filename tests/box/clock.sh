# The wall clock set for real: from 1970 to now, fifty years on, ten years back, while tasks with timeouts
# run and old rows lie about. A later check is one more function and one more word at the end.
. /box/kit.sh

runs=

# started TASK: starts it and remembers the run, which is in $run then.
started() {
    run=$(qinglet run "$1")
    runs="$runs $run"
}

# While the clock is moved by so many seconds: a task with a timeout of 20 s, one that ends by itself
# after 5 s, one that fails at once and is tried again 30 s later, and one whose timeout is over while
# there is no daemon.
step_under_tasks() {
    local begun slow quick again flaky
    begun=$(boot_s)
    started slow && slow=$run
    started quick && quick=$run
    started slow && again=$run
    started flaky && flaky=$run
    sleep 2
    set_clock "$1"
    sleep 1
    check "nothing is timed out by a clock that was set" equal "$(word status "$slow")" running
    ended "$quick" 30
    check "the receipt of a task under which the clock was set is accepted" equal "$(word status "$quick") $(word exitCode "$quick")" "failed 7"
    kill_daemon
    serve
    ended "$slow" 60
    check "a timeout of 20 s takes 20 s, over a restart too" between "$(($(boot_s) - begun))" 19 26
    check "and is called so" equal "$(word status "$slow")" timed_out
    ended "$again" 60
    check "so is the other" equal "$(word status "$again")" timed_out
    check "nothing is tried again before its time" equal "$(word status "$flaky")" retry_wait
    ended "$flaky" 60
    check "a delay of 30 s takes 30 s, over a restart too" between "$(($(boot_s) - begun))" 30 42
    check "and the second attempt is the same run's" equal "$(word status "$flaky")" succeeded
}

# Every run that ever was, with its log; called after the clock has had time to be believed.
everything_is_there() {
    # Two rounds of housekeeping (five minutes apart), and the ten minutes that a clock has to stand.
    sleep 1500
    local run missing=0 broken=0
    for run in $runs; do
        qinglet logs "$run" >/tmp/log 2>&1 && grep -q said /tmp/log || missing=$((missing + 1))
        [ "$(sequences "$run")" = whole ] || broken=$((broken + 1))
    done
    check "no run and no log was deleted for its age" equal $missing 0
    check "the events of every run count 1, 2, 3" equal $broken 0
}

begin_in_1970() {
    check "the clock stands at 1970" equal "$(year)" 1970
    check "a state can be made" quietly qinglet init
    serve
    qinglet task add quick --shell 'echo said; sleep 5; exit 7' >/dev/null
    qinglet task add slow --timeout 20s --grace 1s --shell 'echo said; sleep 1000' >/dev/null
    qinglet task add flaky --retry 1 --retry-delay 30s --shell 'echo said; exit $((2 - QINGLET_ATTEMPT))' >/dev/null
    qinglet task add tick --shell 'echo said' >/dev/null
    qinglet trigger set tick --task tick --cron '* * * * *' --zone UTC >/dev/null
    started quick
    ended "$run" 30
    check "a schedule waits, and says why" equal "$(about state tick) $(count tick)" "clock_untrusted 0"
    check "a run of 1970 ends as it did" equal "$(word status "$run") $(word exitCode "$run")" "failed 7"
    check "and says when" between "$(word finishedAtMs "$run")" 1 86400000
}

from_1970_to_now() {
    step_under_tasks $((56 * YEAR_S))
    check "the clock stands at 2026" equal "$(year)" 2026
    check "nobody vouches for it, so the schedule still waits" equal "$(count tick)" 0
    everything_is_there
    ticks=$(count tick)
    check "ten minutes after boot it goes on, without what was before" between "$ticks" 12 27
    check "and says so" equal "$(about state tick)" active
}

fifty_years_forward() {
    step_under_tasks $((50 * YEAR_S))
    check "the clock stands at 2076" equal "$(year)" 2076
    check "fifty years are no reason to start it twenty-six million times" between "$(($(count tick) - ticks))" 0 3
    everything_is_there
    check "it goes on from there" between "$(($(count tick) - ticks))" 22 32
    ticks=$(count tick)
}

ten_years_back() {
    step_under_tasks $((-10 * YEAR_S))
    check "the clock stands at 2066" equal "$(year)" 2066
    everything_is_there
    check "a clock behind what is stored, for which nobody vouches, starts nothing" equal "$(count tick)" "$ticks"
    check "and that is said" equal "$(about state tick)" clock_untrusted
    qinglet trigger disable tick >/dev/null
}

the_newest_is_first() {
    local newest
    started quick
    ended "$run" 30
    newest=$(qinglet --json events "$run" | grep -c sequence)
    check "a run after all of that has its events" [ "$newest" -ge 8 ]
    check "every run is listed" equal "$(qinglet --json runs --limit 1000 | grep -c '"id"')" "$(($(echo $runs | wc -w) + $(count tick)))"
}

a_stop_ends_it() {
    kill -TERM "$daemon"
    wait "$daemon"
    check "the daemon ends when it is told to" equal $? 0
}

run_steps begin_in_1970 from_1970_to_now fifty_years_forward ten_years_back the_newest_is_first a_stop_ends_it
