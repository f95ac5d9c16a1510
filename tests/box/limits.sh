# Limits by control groups of version 2, which a router's kernel has: in the root of the tree, in a group of
# the daemon's own (it must leave it for a leaf), and in one that it shares and therefore cannot use. Root
# has all its rights here, as it has on a router.
. /box/kit.sh

top=/sys/fs/cgroup
own=$top/services/qinglet

# can WORD: whether the machine can do it, by what the daemon says.
can() { qinglet status | grep '^machine can ' | grep -qw -- "$1"; }
cannot() { qinglet status | grep "^machine cannot *$1: " | grep -q -- "$2"; }

# groups: how many groups of attempts there are.
groups() { find $top -type d -name 'qinglet-*.*' | wc -l; }

stop_daemon() { kill -TERM "$daemon"; wait "$daemon"; }

# enter GROUP: this shell, and what it starts, goes into it.
enter() { echo $$ >"$1/cgroup.procs"; }

weight() { cat "/proc/$1/oom_score_adj"; }

# named NAME: the processes of this name.
named() { grep -lx "$1" /proc/[0-9]*/comm 2>/dev/null | cut -d/ -f3; }

prepare() {
    mount -t cgroup2 none $top
    check "the kernel has the three controllers" equal "$(tr ' ' '\n' <$top/cgroup.controllers | grep -cxE 'memory|pids|cpu')" 3
    check "a state can be made" quietly qinglet init
    echo 'http:x:33:34::/www:/bin/false' >>/etc/passwd
    printf 'root:x:0:\nwww:x:34:\naudio:x:29:root,http\n' >/etc/group
    serve
    qinglet task add eater --memory 8MiB --shell 'x=0123456789abcdef; while :; do x=$x$x; done' >/dev/null
    qinglet task add held --memory 16MiB --pids 5 --cpu 50 --shell 'exec sleep 1000' >/dev/null
    qinglet task add plain --shell 'exec sleep 1000' >/dev/null
    qinglet task add kept --oom-score-adj -500 --nice -5 --shell 'cat /proc/self/oom_score_adj; cut -d" " -f19 /proc/self/stat' >/dev/null
    qinglet task add other --run-as http --shell 'id -u; id -g; id -G; echo $HOME; echo well >/proc/self/fd/2' >/dev/null
}

everything_works() {
    for word in memory-limit pids-limit cpu-limit run-as raised-priority oom-protection; do
        check "$1: it can $word" can $word
    done
    run=$(qinglet run eater)
    ended "$run" 60
    check "$1: who eats too much is killed for it" equal "$(word status "$run") $(word signal "$run") $(word errorCode "$run")" "failed 9 OUT_OF_MEMORY"
    check "$1: and people are told" [ "$(qinglet show "$run" | grep -c 'killed: out of memory, its limit was 8 MiB')" = 1 ]
    check "$1: its group is gone" equal "$(groups)" 0
}

in_the_root_of_the_tree() {
    everything_works root
    check "daemon and shim are the last to be killed" equal "$(weight "$daemon")" -900
    plain=$(qinglet run plain)
    until [ "$(word status "$plain")" = running ]; do sleep 0.1; done
    shim=$(named qinglet-shim)
    user=$(named sleep)
    check "the shim too" equal "$(weight "$shim")" -900
    check "a task is not" equal "$(weight "$user")" 0
    qinglet stop "$plain" --wait >/dev/null 2>&1
    run=$(qinglet run kept)
    ended "$run" 30
    check "unless it says so" equal "$(qinglet logs "$run" | tr '\n' ' ')" "-500 -5 "
    run=$(qinglet run other)
    ended "$run" 30
    check "a user comes with its groups" equal "$(qinglet logs "$run" | tr '\n' ' ')" "33 34 34 29 /www well "
    stop_daemon
}

in_a_group_of_its_own() {
    mkdir -p $own
    echo '+memory +pids +cpu' >$top/cgroup.subtree_control
    echo '+memory +pids +cpu' >$top/services/cgroup.subtree_control
    enter $own
    qinglet serve >>/tmp/daemon.log 2>&1 &
    daemon=$!
    enter $top
    until qinglet status >/dev/null 2>&1; do sleep 0.1; done
    check "the daemon has gone into a leaf" equal "$(cut -d: -f3 /proc/$daemon/cgroup)" /services/qinglet/qinglet-daemon
    everything_works own
    held=$(qinglet run held)
    until [ "$(word status "$held")" = running ]; do sleep 0.1; done
    group=$(find $own -type d -name 'qinglet-*.*')
    limits=$(cd "$group" && echo $(cat memory.max memory.swap.max pids.max cpu.max 2>/dev/null))
    check "its limits are those" [ "$limits" = "16777216 0 5 50000 100000" -o "$limits" = "16777216 5 50000 100000" ]
    check "the task alone is in it" equal "$(cat "$group/cgroup.procs")" "$(named sleep)"
}

over_a_restart() {
    kill_daemon
    # As whoever starts services would: in the group of the service, which now holds no process itself.
    enter $own/qinglet-daemon
    serve
    enter $top
    check "in the leaf of the one before it finds all again" can memory-limit
    check "who runs keeps its group" [ -d "$group" ]
    second=$(qinglet run held)
    until [ "$(word status "$second")" = running ]; do sleep 0.1; done
    check "and another has its own" equal "$(groups)" 2
    qinglet stop "$second" --wait >/dev/null 2>&1
    check "which goes with it" equal "$(groups)" 1
    kill_daemon
    kill -9 $(named qinglet-shim)
    sleep 1
    check "a shim that is killed leaves its group" equal "$(groups)" 1
    enter $own/qinglet-daemon
    serve
    enter $top
    sleep 1
    stop_daemon
    enter $own/qinglet-daemon
    serve
    enter $top
    sleep 1
    check "the next daemon removes it" equal "$(groups)" 0
    check "whose run is lost" equal "$(word status "$held")" lost
    stop_daemon
    rmdir $own/qinglet-daemon
    echo '-memory -pids -cpu' >$own/cgroup.subtree_control
}

in_a_group_that_it_shares() {
    sleep 1000 &
    stranger=$!
    echo $stranger >$own/cgroup.procs
    enter $own
    qinglet serve >>/tmp/daemon.log 2>&1 &
    daemon=$!
    enter $top
    until qinglet status >/dev/null 2>&1; do sleep 0.1; done
    check "it cannot limit memory, and says why" cannot memory-limit "other processes are in the daemon's cgroup"
    check "it is where it was" equal "$(cut -d: -f3 /proc/$daemon/cgroup)" /services/qinglet
    run=$(qinglet run eater)
    ended "$run" 30
    check "who needs the limit is not started without it" equal "$(word status "$run") $(word errorCode "$run")" "failed EXECUTOR_CAPABILITY_UNAVAILABLE"
    check "and nothing of it ran" equal "$(word startedAtMs "$run")" null
    run=$(qinglet run other)
    ended "$run" 30
    check "who needs none is" equal "$(word status "$run")" succeeded
    kill $stranger
    stop_daemon
}

run_steps prepare in_the_root_of_the_tree in_a_group_of_its_own over_a_restart in_a_group_that_it_shares
