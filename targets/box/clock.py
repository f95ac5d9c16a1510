#!/usr/bin/env python3
"""clock.py FOLDER BINARY: what a jump of the wall clock and a reboot do to a static build of qinglet, in an emulated
machine whose own clock is really set. One line a step; exit code 0 when all of them are ok. FOLDER keeps what was made.

A step is a function that does and looks, answers what it saw, and raises Wrong when that is not what must be. To add
one, write it and put it into STEPS with its name."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import sys
import time

import kit
from box import Box

LIMIT_S = 540  # for the machine and everything that is done in it
TIMEOUT_S = 20
DELAY_S = 20
LATE_S = 30  # an emulated core on a busy machine; a clock that is mistaken is late by years
FILLERS = 5  # one for each time that housekeeping is looked at, so that no other log is ever the oldest
STATE = "/state/q"
UPTIME = "read up rest </proc/uptime; echo $up"
# Loops of one second, because a shell acts on a signal only when what it waits for has ended or it uses `wait`.
SLEEP = "while :; do sleep 1 & wait; done"
TASKS = {
    "short": ([], "echo done"),
    "failing": ([], "echo bad; exit 3"),
    "timed": (["--timeout", f"{TIMEOUT_S}s"], f"{UPTIME}; trap '{UPTIME}; exit 1' TERM; {SLEEP}"),
    "retried": (["--retry", "1", "--retry-delay", f"{DELAY_S}s"], f"{UPTIME}; test $QINGLET_ATTEMPT = 2"),
    "long": ([], f"trap 'echo signalled >>/state/signalled; sync' TERM HUP INT CONT; echo begun; {SLEEP}"),
    "nap": ([], "sleep 1000"),
}


class Wrong(Exception):
    """What was seen is not what must be."""


def must(true, seen):
    if not true:
        raise Wrong(seen)


class World:
    """The machine, and what must still be known in it."""

    def __init__(self, box):
        self.box = box
        self.ended = {}  # run: (status, log or None)
        self.fillers = []  # runs whose logs are there, oldest first
        self.audit = set()
        self.ordered = set()  # runs whose events were looked at
        self.long = self.timed = self.retried = self.jumped_at = self.served_at = self.shim = None

    def sh(self, script):
        code, output = self.box.sh(script)
        must(code == 0, f"`{script}` ended with {code}: {output}")
        return output

    def q(self, *words, code=0):
        """A command of qinglet with this exit code; what it printed."""
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
        got, output = self.box.sh(f"qinglet --state {STATE} {quoted}")
        must(got == code, f"`qinglet {quoted}` ended with {got}: {output}")
        return output

    def lines(self, *words):
        return [json.loads(line) for line in self.q("--json", *words).splitlines()]

    def show(self, run):
        return self.lines("show", run)[0]["run"]

    def uptime(self):
        return float(self.sh("cut -d ' ' -f 1 /proc/uptime"))

    def date(self):
        return self.sh("date '+%Y-%m-%d %H:%M'")

    def until(self, what, look, seconds=60):
        """Asks again until the answer is not empty."""
        end = time.monotonic() + seconds
        while not (seen := look()):
            must(time.monotonic() < end, f"not within {seconds} s: {what}")
            time.sleep(0.3)
        return seen

    def run_in(self, run, status, seconds=60):
        """Waits for a run to be in this state."""
        def look():
            seen = self.show(run)["status"]
            return seen if seen == status or seen in ("succeeded", "failed", "cancelled", "timed_out", "lost") else None
        seen = self.until(f"run {run} {status}", look, seconds)
        must(seen == status, f"run {run} is {seen}, not {status}")

    def do(self, task, status="succeeded", log=None):
        """Runs a task to its end, which is to be remembered."""
        run = self.q("run", task).split()[0]
        self.run_in(run, status)
        self.ended[run] = (status, log)
        return run

    def serve(self):
        self.served_at = self.uptime()
        self.sh(f"setsid qinglet --state {STATE} serve >>/tmp/serve.log 2>&1 & echo $! >/tmp/pid")
        try:
            self.until("the daemon answers", lambda: self.box.sh(f"qinglet --state {STATE} status")[0] == 0)
        except Wrong as error:
            raise Wrong(f"{error}; it wrote: {self.sh('tail -n 3 /tmp/serve.log')}") from error

    def stop_daemon(self):
        self.sh("kill -TERM $(cat /tmp/pid)")
        self.until("the daemon ends", lambda: self.box.sh("kill -0 $(cat /tmp/pid)")[0] != 0)

    def filler_there(self, run):
        code, output = self.box.sh(f"qinglet --state {STATE} logs {run} | wc -c")
        return code == 0 and int(output.split()[-1]) > 100_000


# ---- The beginning -----------------------------------------------------------------------------------


def boots_in_1970(w):
    took_s = w.box.start("1970-01-01")
    seen = w.date()
    must(seen.startswith("1970-01-01"), seen)
    return f"{seen}, {took_s:.0f} s"


def serves(w):
    w.q("init")
    w.serve()
    # Logs may take a tenth of their file system: that many fillers, and 256 KiB for what else is written.
    blocks, size = map(int, w.sh("stat -f -c '%b %S' /state").split())
    filler = (blocks * size // 10 - 256 * 1024) // FILLERS
    TASKS["filler"] = ([], f"head -c {filler} /dev/zero | tr '\\0' x")
    for task, (options, text) in TASKS.items():
        w.q("task", "add", task, *options, "--shell", text)
    w.q("access", "grant", "user:viewer", "viewer")
    w.sh(f"qinglet --state {STATE} access token new user:viewer 2>/dev/null >/state/viewer.token")
    return f"{len(TASKS)} tasks"


def runs_of_1970(w):
    w.fillers = [w.do("filler") for _ in range(FILLERS)]
    for _ in range(3):
        w.do("short", log="done")
        w.do("failing", "failed", "bad")
    w.long = w.q("run", "long").split()[0]
    w.until("the long run begins", lambda: "begun" in w.q("logs", w.long))
    return f"{len(w.ended)} ended, 1 goes on"


# ---- A jump of the clock -----------------------------------------------------------------------------


def under_way(w):
    """A timeout and a delay before another attempt begin; somebody waits for the end, somebody follows the log."""
    w.sh(f"rm -f /tmp/waited /tmp/followed; setsid sh -c 'qinglet --state {STATE} run timed --wait; echo code $?' >/tmp/waited 2>&1 &")
    w.timed = w.until("run --wait prints the run", lambda: w.sh("cat /tmp/waited")).split()[0]
    w.retried = w.q("run", "retried").split()[0]
    w.run_in(w.timed, "running")
    w.sh(f"setsid sh -c 'qinglet --state {STATE} logs {w.timed} --follow; echo code $?' >/tmp/followed 2>&1 &")
    w.run_in(w.retried, "retry_wait")
    return w.date()


def from_now(years, hours=0):
    """Epoch seconds so many years and hours from the true time."""
    return int(time.time() + years * 365.25 * 86400 + hours * 3600)


def set_clock(years):
    """Sets the clock to so many years from now, as a time service does."""
    def step(w):
        must(w.show(w.timed)["status"] == "running", "the timeout was over before the clock was set")
        w.jumped_at = w.uptime()
        w.sh(f"date -s @{from_now(years)} && synced")
        return w.date()
    return step


def answers(w):
    w.q("status")
    w.q("--token-file", "/state/viewer.token", "runs")
    w.q("--token-file", "/state/viewer.token", "run", "short", code=3)
    active = w.lines("status")[0]["status"]["activeAttempts"]
    must(active == 2, f"{active} attempts are active, not the long and the timed one")
    return "status, owner's and viewer's token"


def new_runs(w):
    w.do("short", log="done")
    w.fillers.append(w.do("filler"))
    nap = w.q("run", "nap").split()[0]
    w.run_in(nap, "running")
    w.q("stop", nap, "--wait")
    w.run_in(nap, "cancelled")
    w.ended[nap] = ("cancelled", "")
    return "succeeded, succeeded, stopped"


def starts_again(w):
    w.stop_daemon()
    w.serve()
    if w.long in w.ended:
        return "nothing was under way"
    must(w.show(w.long)["status"] == "running", "the long run was not adopted")
    return "the long run is adopted"


def timeout_kept(w):
    w.run_in(w.timed, "timed_out", TIMEOUT_S + LATE_S + 30)
    log = w.q("logs", w.timed)
    begin_s, end_s = map(float, log.split())
    must(end_s > w.jumped_at, "it was over before the clock was set")
    # The program reads its first time a little after the timeout has begun.
    must(TIMEOUT_S - 5 < end_s - begin_s < TIMEOUT_S + LATE_S, f"{TIMEOUT_S} s were {end_s - begin_s:.1f} s")
    w.ended[w.timed] = ("timed_out", log)
    for file in ("/tmp/waited", "/tmp/followed"):
        w.until(f"{file} has its end", lambda file=file: "code" in w.sh(f"cat {file}"))
    code = w.sh("tail -n 1 /tmp/waited")
    must(code == "code 1", f"run --wait ended with {code}")
    followed = w.sh("cat /tmp/followed")
    must(followed == f"{log}\ncode 0", f"logs --follow wrote {followed!r}")
    return f"{end_s - begin_s:.1f} s for {TIMEOUT_S}; --wait and --follow ended with it"


def delay_kept(w):
    first_s = float(w.q("logs", w.retried, "--attempt", "1"))
    w.run_in(w.retried, "succeeded", DELAY_S + LATE_S + 30)
    log = w.q("logs", w.retried)
    second_s = float(log)
    must(second_s > w.jumped_at, "it was tried again before the clock was set")
    must(DELAY_S <= second_s - first_s < DELAY_S + LATE_S, f"{DELAY_S} s were {second_s - first_s:.1f} s")
    w.ended[w.retried] = ("succeeded", log)
    return f"{second_s - first_s:.1f} s for {DELAY_S}"


# ---- What must be true at any time -------------------------------------------------------------------


def housekeeping(w):
    """The logs have outgrown their cap by one filler: a round removes the oldest, for its size, and no other."""
    oldest = w.fillers.pop(0)
    w.until("the oldest log goes", lambda: not w.filler_there(oldest))
    must("removed" in w.q("logs", oldest, code=3), "its log is not called removed")
    there = [w.filler_there(run) for run in w.fillers]
    must(all(there), f"of the {FILLERS} newest fillers' logs there are {there}")
    return "a round removed the one log that was too many"


def history(w):
    states = {run["id"]: run["status"] for run in w.lines("runs", "--limit", "1000")}
    for run, (status, _) in w.ended.items():
        must(states.get(run) == status, f"run {run} is {states.get(run)}, not {status}")
    logs = {run: log for run, (_, log) in w.ended.items() if log is not None}
    # One script for all, because an order to the machine takes longer than a command in it.
    seen = w.sh(f"for run in {' '.join(logs)}; do qinglet --state {STATE} logs $run; echo; echo @end; done").split("\n@end")
    for (run, log), got in zip(logs.items(), seen):
        must(got.strip("\n") == log, f"the log of {run} is {got!r}, not {log!r}")
    audit = {row["eventId"] for row in w.lines("audit", "--limit", "1000")}
    must(w.audit <= audit, f"{len(w.audit - audit)} of {len(w.audit)} audit rows are gone")
    w.audit = audit
    return f"{len(w.ended)} runs with logs, {len(audit)} audit rows"


def events_in_order(w):
    """Of the runs that have ended since the last look, and of the one that goes on; at the end the store tells of all."""
    runs = [*(w.ended.keys() - w.ordered), *({w.long} - w.ended.keys())]
    for run in runs:
        sequence = [event["sequence"] for event in w.lines("events", run)]
        shown = w.show(run)
        must(sequence == list(range(1, len(sequence) + 1)), f"events of {run}: {sequence}")
        must(shown["eventSequence"] == len(sequence), f"{run} counts {shown['eventSequence']}, has {len(sequence)}")
    w.ordered.update(w.ended)
    return f"{len(runs)} runs' events without holes"


# ---- The power is cut --------------------------------------------------------------------------------


def power_cut(w):
    # A log is not synced at the end of its run: what the system has not written back by itself would go with the power.
    w.sh("sync")
    w.retried = w.q("run", "retried").split()[0]
    w.run_in(w.retried, "retry_wait")
    w.run_in(w.long, "running")
    w.shim = int(w.sh("ps -o ppid,args | awk '/sh -c trap .echo signalled/ && !/awk/ {print $1}'"))
    w.box.cut()
    return "1 run running, 1 waiting to be tried again"


def stranger_comes(w):
    """A process that has nothing to do with qinglet gets the id, group and session that the lost run's shim had."""
    signals = "HUP INT QUIT USR1 USR2 TERM CONT"
    w.sh(f"echo 'trap \"echo signalled >>/tmp/stranger\" {signals}; {SLEEP}' >/tmp/stranger.sh")
    take = f"echo {w.shim - 1} >/proc/sys/kernel/ns_last_pid; setsid sh /tmp/stranger.sh >/dev/null 2>&1 & echo $!"
    w.until(f"a new process is {w.shim}", lambda: w.sh(take) == str(w.shim))
    return f"process {w.shim}"


def run_lost(w):
    w.serve()
    w.run_in(w.long, "lost")
    w.ended[w.long] = ("lost", "begun")
    alive = w.box.sh(f"kill -0 {w.shim}")[0] == 0
    must(alive, "the stranger is gone")
    signalled = w.sh("cat /tmp/stranger /state/signalled 2>/dev/null | wc -l")
    must(signalled == "0", "the stranger or the task itself has got a signal")
    return "lost; the stranger lives and has got no signal"


def delay_begins_again(w):
    w.run_in(w.retried, "succeeded", DELAY_S + LATE_S + 30)
    log = w.q("logs", w.retried)
    waited_s = float(log) - w.served_at
    must(DELAY_S <= waited_s < DELAY_S + LATE_S, f"it was tried again {waited_s:.1f} s after the start")
    w.ended[w.retried] = ("succeeded", log)
    return f"tried again {waited_s:.1f} s after the start"


def boots_in_the_wrong_time(w):
    """A machine that kept the wrong time: the clock is believed from the start, and was never right. It is set before
    the daemon starts, because an emulated hardware clock knows no 2070s."""
    w.sh("sync")
    w.box.cut()
    w.box.start("1970-01-01")
    w.sh(f"date -s @{from_now(50, hours=12)} && synced")
    w.serve()
    return w.date()


# ---- The end -----------------------------------------------------------------------------------------


def store_is_sound(w):
    """The daemon stops, the disk is read from outside."""
    w.stop_daemon()
    w.sh("umount /state")
    w.box.cut()
    copy = f"{w.box.folder}/state"
    shutil.rmtree(copy, ignore_errors=True)
    os.mkdir(copy)
    kit.run("debugfs", "-R", f"rdump /q {copy}", w.box.disk)
    with contextlib.closing(sqlite3.connect(f"{copy}/q/qinglet.db")) as store:
        def ask(text):
            return store.execute(text).fetchall()
        must(ask("PRAGMA integrity_check") == [("ok",)], "integrity_check")
        must(ask("PRAGMA foreign_key_check") == [], "foreign_key_check")
        wrong = ask("SELECT hex(id) FROM runs WHERE event_sequence <> (SELECT count(*) FROM run_events WHERE run = runs.id)"
                    " OR event_sequence <> (SELECT max(sequence) FROM run_events WHERE run = runs.id)")
        must(not wrong, f"holes in the events of {wrong}")
        runs = {run.replace("-", "").upper() for run in w.ended}
        kept = {run for run, in ask("SELECT hex(id) FROM runs")}
        must(runs == kept, f"{len(runs - kept)} runs are gone, {len(kept - runs)} are nobody's")
    receipts = [file for _, _, files in os.walk(f"{copy}/q/receipts") for file in files]
    must(not receipts, f"receipts are left: {receipts}")
    shutil.rmtree(copy)
    return f"{len(kept)} runs, no receipt left"


AT_ANY_TIME = [
    ("housekeeping by size, not by age", housekeeping),
    ("runs, logs and audit are there", history),
    ("events in order", events_in_order),
]
AFTER_A_BOOT = [
    ("runs start, end, are stopped", new_runs),
    ("the daemon starts again", starts_again),
    *AT_ANY_TIME,
]
BEFORE_A_JUMP = [("runs under way", under_way)]
AFTER_A_JUMP = [
    ("the daemon answers, tokens work", answers),
    ("runs start, end, are stopped", new_runs),
    ("the daemon starts again", starts_again),
    ("the timeout is kept", timeout_kept),
    ("the delay of a retry is kept", delay_kept),
    *AT_ANY_TIME,
]
STEPS = [
    ("boots in 1970, nothing synchronised", boots_in_1970),
    ("init, serve, tasks, tokens", serves),
    ("runs of 1970", runs_of_1970),
]
for jump, years in [("to now", 0), ("50 years on", 50), ("10 years back", 40)]:
    jump_steps = [*BEFORE_A_JUMP, ("the clock is set", set_clock(years)), *AFTER_A_JUMP]
    STEPS += [(f"{jump}: {name}", step) for name, step in jump_steps]
STEPS += [
    ("power cut: with runs under way", power_cut),
    ("power cut: boots in 1970 again", boots_in_1970),
    ("power cut: a stranger has the old process id", stranger_comes),
    ("power cut: what ran is lost, nothing signalled", run_lost),
    ("power cut: the retry waits anew", delay_begins_again),
    *[(f"power cut: {name}", step) for name, step in AFTER_A_BOOT],
    ("50 years on again: power cut, boots there", boots_in_the_wrong_time),
    *[(f"50 years on again: {name}", step) for name, step in AFTER_A_BOOT],
    ("the store is sound", store_is_sound),
]


def play(world):
    """Does the steps in order and prints a line for each; how many failed. A machine that is gone ends it."""
    width, failed = max(len(name) for name, _ in STEPS), 0
    for name, step in STEPS:
        try:
            word, seen = "ok", step(world)
        except (Wrong, ValueError, IndexError, KeyError, kit.Missing) as error:
            word, seen = "FAIL", str(error) if isinstance(error, Wrong) else repr(error)
        except OSError as error:
            print(f"{'FAIL':<6}{name:<{width}}  {error}", flush=True)
            return failed + 1
        failed += word == "FAIL"
        print(f"{word:<6}{name:<{width}}  {seen}", flush=True)
    return failed


def too_late(*_):
    raise TimeoutError(f"not done within {LIMIT_S} s")


def main():
    folder, binary = sys.argv[1:]
    signal.signal(signal.SIGALRM, too_late)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.alarm(LIMIT_S)
    try:
        box = Box(folder, kit.build(folder, binary))
    except (kit.Missing, OSError) as error:
        print(f"test-power: the machine cannot be made: {error}", file=sys.stderr)
        return 1
    try:
        failed = play(World(box))
    finally:
        box.cut()
    print(f"test-power: {f'{failed} steps failed' if failed else 'every step is ok'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
