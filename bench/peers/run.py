#!/usr/bin/env python3
"""Measures qinglet beside what people use today, in one run on one file system; see README's `make bench-peers`.

Every measure goes round by peer (A B C, A B C), so that what else the machine does meets all of them. A peer
that is not there, or fails, is named with the reason. Prints tables and writes them to RESULTS.md.
    run.py [PEER...]      only these; RESULTS.md is left alone then
PEERS_WORK is where the states and queues lie while it runs (default /var/tmp).
"""
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import host
import survival
import table
from peer import ALL
from peer.base import LANES

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 20  # submits a way, one after another
ROUND_S = 1.2  # s6 starts nothing twice within a second
JOBS = 25  # of each of four clients
PASSES = 2
RUNS = 10  # that the pages are divided by
TRACED_RUNS, TRACED_S = 32, 8  # that bytes in files are divided by: so many, or fewer (5 at least) where that takes longer
LIMIT_S = 590  # all of it


class Row:
    """A peer by one way of submitting: a line of the first table."""

    def __init__(self, peer, title, method):
        self.peer, self.title = peer, title
        self.call = getattr(peer, method) if method else None
        self.delays, self.rates, self.cells = [], [], {}

    def once(self, lane=0, before=()):
        """One job from the submit to its end, in ms to its first instruction."""
        self.peer.fifos[lane].pending()
        began = time.monotonic_ns()
        self.call(lane, before)
        first = self.peer.fifos[lane].line("first")[0]
        if self.peer.waits_for_end:
            self.peer.ended(lane)
        return (first - began) / 1e6


def progress(text):
    print(f"bench-peers: {text}", file=sys.stderr, flush=True)


class Run:
    def __init__(self, work, only):
        self.work, self.notes, self.peers, self.rows, self.gone, self.syncs = work, [], [], [], [], []
        self.tiny = os.path.join(work, "tiny")
        host.must(["cc", "-O2", "-static", "-o", self.tiny, os.path.join(HERE, "tiny.c")])
        self.kinds = [kind for kind in ALL if not only or kind.name in only or kind.folder in only]
        self.versions = []
        for kind in list(self.kinds):
            reason = kind.missing()
            self.versions.append([kind.name, f"missing: {reason}" if reason else kind.version()])
            if reason:
                self.gone.append(kind.name)
                self.kinds.remove(kind)

    def attempt(self, what, action, *words):
        """What an action gives, or None and a note of why not."""
        try:
            return action(*words)
        except (host.Failed, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            self.notes.append(f"{what}: {error}".replace(self.work, ""))
            progress(self.notes[-1])
            return None

    def folder(self):
        return tempfile.mkdtemp(dir=self.work) + "/p"

    # The first table.

    def begin(self):
        for kind in self.kinds:
            peer = kind(self.folder(), self.tiny)
            self.peers.append(peer)
            if self.attempt(f"{kind.name} does not start", lambda peer=peer: peer.begin() or True):
                for way, method in (kind.ways or {"": None}).items():
                    self.rows.append(Row(peer, f"{kind.name}, {way}" if way else kind.name, method))

    def able(self):
        return [row for row in self.rows if row.call]

    def each(self, what, action):
        for row in self.able():
            if self.attempt(f"{row.title}, {what}", lambda row=row: action(row) or True) is None:
                row.call = None  # it would fail again, and each time cost its timeout

    def idle(self, key):
        host.rest(5)
        for row in self.rows:
            pids = list(filter(host.alive, row.peer.daemons))
            row.cells[key] = f"{host.resident_kib(pids):,} ({len(pids)})" if pids else "none"

    def delays(self):
        for _ in range(ROUNDS):
            began = time.monotonic()
            self.each("a submit", lambda row: row.delays.append(row.once()))
            self.syncs.append(sync_ms(self.work))
            host.rest(max(0.1, ROUND_S - (time.monotonic() - began)))

    def rate(self, row):
        """Four clients at once, each with a lane of its own."""
        firsts, errors = [], []

        def client(lane):
            try:
                for _ in range(JOBS):
                    row.call(lane)
                    if row.peer.waits_for_end:
                        firsts.append(row.peer.fifos[lane].line("first")[0])
                        row.peer.ended(lane)
                if not row.peer.waits_for_end:
                    firsts.extend(row.peer.fifos[lane].line("first", 60)[0] for _ in range(JOBS))
            except Exception as error:  # told below, in the thread that can tell it
                errors.append(error)

        clients = [threading.Thread(target=client, args=(lane,)) for lane in range(LANES)]
        began = time.monotonic_ns()
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        if errors:
            raise host.Failed(str(errors[0]))
        row.rates.append(LANES * JOBS / ((max(firsts) - began) / 1e9))
        host.rest(1)

    def written(self, row):
        host.rest(1)
        before = host.write_bytes(row.peer.daemons)
        for _ in range(RUNS):
            row.once()
        host.rest(1)
        row.cells["pages"] = f"{(host.write_bytes(row.peer.daemons) - before) / RUNS / 1024:.1f}"

    def traced(self, row):
        trace = host.Trace(tempfile.mkdtemp(dir=self.work))
        trace.attach(row.peer.daemons)
        try:
            runs, over = 0, time.monotonic() + TRACED_S
            while runs < 5 or (runs < TRACED_RUNS and time.monotonic() < over):
                row.once(before=() if row.title != row.peer.name else trace.options())
                runs += 1
            host.rest(1)
        finally:
            trace.detach()
        written, syncs = trace.count()
        row.cells["bytes"], row.cells["syncs"] = f"{written / runs / 1024:.2f}", f"{syncs / runs:.1f}"

    def measure(self):
        progress("starting")
        self.begin()
        self.each("the first submit", lambda row: row.once())
        progress("idle")
        self.idle("idle")
        progress(f"{ROUNDS} submits each")
        self.delays()
        progress("bytes")
        self.each("bytes", self.written)
        for pass_ in range(PASSES):
            progress(f"{LANES * JOBS} jobs each, pass {pass_ + 1} of {PASSES}")
            self.each("jobs", self.rate)
        self.idle("after")
        if shutil.which("strace"):
            progress("strace")
            self.each("strace", self.traced)
        else:
            self.notes.append("bytes in files and syncs: strace is not here")
        for peer in reversed(self.peers):
            peer.finish()

    def costs(self):
        head = ["peer", "idle KiB (processes)", "after all jobs", "first instruction ms: median (lowest-highest)", "jobs/s: each pass",
                "width", "KiB in files a run", "KiB of pages a run", "syncs a run"]
        lines = []
        for row in self.rows:
            delays = f"{statistics.median(row.delays):.1f} ({min(row.delays):.1f}-{max(row.delays):.1f})" if row.delays else "-"
            rates = ", ".join(f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}" for rate in row.rates) or "-"
            if not row.peer.ways:
                delays = row.peer.note
            lines.append([row.title, row.cells.get("idle", "-"), row.cells.get("after", "-"), delays, rates, row.peer.width if row.peer.ways else "-",
                          *(row.cells.get(key, "-") for key in ("bytes", "pages", "syncs"))])
        return head, lines + [[name, "missing", *["-"] * (len(head) - 2)] for name in self.gone]

    # The second and third.

    def killed(self):
        lines = []
        for kind in self.kinds:
            at, count = 0, 1
            while at < count and kind.name != "fork and exec":
                progress(f"kill -9, {kind.name}")
                away = self.attempt(f"{kind.name}, kill", survival.kill, kind, at, "away", self.folder(), self.tiny)
                back = self.attempt(f"{kind.name}, kill", survival.kill, kind, at, "back", self.folder(), self.tiny) if away and away[1].startswith("lives") else away
                failed = ("-", "-", "the trial failed")
                away, back = away or failed, back or failed
                lines.append([kind.name, away[0], back[1], away[2], back[2] if back is not away else "(as before)"])
                at, count = at + 1, kind.victim_count
        return ["peer", "killed", "the job", "it ended while that was gone: is exit code 7 known", "it ended after the restart"], lines

    def stopped(self):
        lines = []
        for kind in self.kinds:
            if kind.stop_with:
                progress(f"stop, {kind.name}")
                left = self.attempt(f"{kind.name}, stop", survival.stop, kind, self.folder(), self.tiny)
                lines.append([kind.name, kind.stop_with, *(left or ["the trial failed", "-", "-"])])
            elif not kind.ways:
                lines.append([kind.name, "has no way to", "-", "-", "-"])
        return ["peer", "stopped by", "the job", "its setsid child", "its daemon (setsid, orphaned)"], lines


def sync_ms(work):
    with open(os.path.join(work, "sync"), "ab", buffering=0) as file:
        file.write(b"x" * 4096)
        began = time.monotonic()
        os.fdatasync(file.fileno())
        return (time.monotonic() - began) * 1000


def machine(work, load, syncs):
    mounts = [line.split() for line in open("/proc/self/mounts")]
    mount = max((m for m in mounts if (work + "/").startswith(m[1].rstrip("/") + "/")), key=lambda m: len(m[1]))
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    # Of the moments of the submits: what a promise costs here.
    sync = f"{statistics.median(syncs):.1f} ms ({min(syncs):.1f}-{max(syncs):.1f})"
    code, commit = host.run(["git", "-C", HERE, "log", "-1", "--format=%h"])
    changed = host.run(["git", "-C", HERE, "status", "--porcelain"])[1]
    return [["cores", f"{os.cpu_count()}, {cpu}"], ["memory", f"{host.field('/proc/meminfo', 'MemTotal') // 1024} MiB"],
            ["kernel", platform.release()], ["file system", f"{mount[2]}; an fdatasync of 4 KiB more took {sync}, once a round"],
            ["commit", (commit if code == 0 else "unknown") + (" and changes" if changed else "")], ["load when it began", f"{load:.1f}"], ["date", time.strftime("%Y-%m-%d", time.gmtime())]]


MEANING = """- **idle**: PSS of the daemon's processes (how many), five seconds after its first job; **after all jobs**: five seconds after the last of them.
- **first instruction**: from before the command (or request) is started until the job's program looks at the clock, {ROUNDS} submits, round by peer. The first line is what
  fork and exec alone take, with nobody in between.
- **jobs/s**: {LANES} clients at once with {JOBS} jobs each, until the last job has begun. A supervisor's client waits until its service is down and starts it again.
- **in files**: bytes that daemon, command and job write into regular files, by strace, 5 to {TRACED_RUNS} runs, after all other jobs (pueue writes its whole history each time). **pages**: `write_bytes` of
  /proc/PID/io, daemon, command and their ended children, {RUNS} runs before the many jobs: what the kernel is to write, in whole pages, without the file system's own. **syncs**: fsync, fdatasync.
- Only qinglet has stored a job before it answers and before it starts; the others promise nothing of the kind, so their syncs are none.
- **killed**: a job that waits is running; one process gets KILL. The job then ends with 7, once while that process is gone, once after it is back (where something has to start it, it is started as at first).
- **stopped**: the job has a child with a session of its own, and a daemon (setsid, and its parent has ended). What lives three seconds later.
"""


def main():
    os.umask(0o022)
    host.become_subreaper()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"bench-peers: not done within {LIMIT_S} s"))
    signal.alarm(LIMIT_S)
    work = tempfile.mkdtemp(prefix="peers.", dir=os.environ.get("PEERS_WORK", "/var/tmp"))
    began, load = time.monotonic(), os.getloadavg()[0]
    try:
        run = Run(work, sys.argv[1:])
        run.measure()
        about = machine(work, load, run.syncs)
        tables = [("What it costs", *run.costs()), ("What a kill -9 leaves", *run.killed()), ("What a stop leaves", *run.stopped()),
                  ("Versions", ["peer", "version"], run.versions),
                  ("The machine", ["what", "is"], [*about, ["took", f"{time.monotonic() - began:.0f} s"]])]
    finally:
        signal.alarm(0)
        host.end(host.descendants())
        shutil.rmtree(work, ignore_errors=True)
    notes = ["- " + note for note in run.notes]
    print("\n".join([table.text(*each) for each in tables] + notes))
    if len(sys.argv) == 1:
        meaning = MEANING
        for word in ("ROUNDS", "LANES", "JOBS", "TRACED_RUNS", "RUNS"):
            meaning = meaning.replace("{" + word + "}", str(globals()[word]))
        with open(os.path.join(HERE, "RESULTS.md"), "w") as file:
            file.write("# qinglet beside its peers\n\nMade by `make bench-peers`; figures of different machines cannot be compared.\n\n")
            file.write("\n".join(table.markdown(*each) for each in tables[:3]) + "\n" + meaning + "\n")
            file.write("\n".join(table.markdown(*each) for each in tables[3:]))
            file.write("\n## What went wrong\n\n" + "\n".join(notes) + "\n" if notes else "")


main()
