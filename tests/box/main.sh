# The main job on a machine of its own architecture: a state, a daemon, runs that end in every way, a crash, a stop.
. /box/kit.sh

# How many `sleep 1000` and `sleep 1001` there are.
sleepers() {
    local count=0 file
    for file in /proc/[0-9]*/cmdline; do
        case $(tr '\0' ' ' <"$file" 2>/dev/null) in 'sleep 100'[01]' ') count=$((count + 1)) ;; esac
    done
    echo $count
}

it_begins() {
    check "the binary says its version" quietly qinglet --version
    check "a state can be made" quietly qinglet init
    serve
    qinglet task add hello --shell 'echo "hello from $QINGLET_RUN_ID"' >/dev/null
    qinglet task add fails --shell 'echo said; exit 7' >/dev/null
    qinglet task add slow --shell 'echo said; sleep 1000' >/dev/null
    qinglet task add deaf --grace 1s --shell 'trap "" TERM; (sleep 1000) & setsid sleep 1001 & while :; do sleep 1; done' >/dev/null
    qinglet task add late --timeout 3s --grace 1s --shell 'sleep 1000' >/dev/null
    qinglet task add outlives --shell 'sleep 20; echo ended; exit 5' >/dev/null
}

runs_end() {
    run=$(qinglet run hello)
    ended "$run" 30
    check "a run succeeds" equal "$(word status "$run")" succeeded
    check "its log is its output" equal "$(qinglet logs "$run")" "hello from $run"
    check "its events count 1, 2, 3" equal "$(sequences "$run")" whole
    run=$(qinglet run fails)
    ended "$run" 30
    check "a run fails with its code" equal "$(word status "$run") $(word exitCode "$run")" "failed 7"
    run=$(qinglet run late)
    ended "$run" 30
    check "a timeout ends one" equal "$(word status "$run")" timed_out
}

stop_ends_the_whole_tree() {
    run=$(qinglet run deaf)
    sleep 2
    check "the tree is there" equal "$(sleepers)" 2
    qinglet stop "$run" >/dev/null
    ended "$run" 30
    check "a run that ignores TERM is stopped" equal "$(word status "$run")" cancelled
    check "and nothing of it is left" equal "$(sleepers)" 0
}

a_crash_loses_nothing() {
    outlives=$(qinglet run outlives)
    slow=$(qinglet run slow)
    sleep 2
    kill_daemon
    sleep 1
    check "tasks outlive the daemon" equal "$(sleepers)" 1
    serve
    check "the next daemon knows them" equal "$(word status "$outlives") $(word status "$slow")" "running running"
    ended "$outlives" 60
    check "and learns how they end" equal "$(word status "$outlives") $(word exitCode "$outlives")" "failed 5"
    qinglet stop "$slow" >/dev/null
    ended "$slow" 30
    check "and can stop them" equal "$(word status "$slow")" cancelled
    check "nobody starts one twice" equal "$(qinglet logs "$slow" | wc -l)" 1
}

a_file_of_a_later_century_is_no_trouble() {
    run=$(qinglet run hello)
    ended "$run" 30
    wallclock 2180000000
    check "the clock stands beyond 2038, where 32 bits end" [ "$(wallclock)" -ge 2180000000 ]
    late=$(qinglet run hello)
    ended "$late" 30
    check "a run there succeeds" equal "$(word status "$late")" succeeded
    check "and is later than 32 bits of seconds" [ "$(word finishedAtMs "$late")" -ge 2180000000000 ]
    kill_daemon
    serve
    check "its log is read by the next daemon" equal "$(qinglet logs "$late")" "hello from $late"
    check "a task can be made there" quietly qinglet task add later --shell true
    check "a state is looked through there" quietly qinglet check
    check "and saved" quietly qinglet backup /tmp/late.qb 2>/tmp/progress
    qinglet doctor >/tmp/doctor 2>&1
    check "and the machine is looked at" between $? 0 1
}

it_is_small() {
    local most threads
    most=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$daemon/status")
    threads=$(sed -n 's/^Threads:[^0-9]*//p' "/proc/$daemon/status")
    say "      the daemon's most memory: $most KiB, its threads: $threads; free of 128 MiB: $(sed -n 's/^MemAvailable: *//p' /proc/meminfo)"
    check "the daemon fits a small router" between "$most" 1 16384
    check "and starts no thread for anybody" equal "$threads" 13
}

it_ends() {
    kill -TERM "$daemon"
    wait "$daemon"
    check "the daemon ends when it is told to" equal $? 0
    serve
    check "and the next one is well" quietly qinglet status
    kill -TERM "$daemon"
    wait "$daemon"
}

run_steps it_begins runs_end stop_ends_the_whole_tree a_crash_loses_nothing a_file_of_a_later_century_is_no_trouble it_is_small it_ends
