"""The machine below the peers: starting commands, whose processes are whose, what they hold and write.

This process is the subreaper of all it starts: what loses its parent becomes its child, so nothing gets
away, and the kernel adds what an ended process wrote to the account of whoever waited for it.
"""
import ctypes
import os
import re
import select
import signal
import subprocess
import time

PR_SET_CHILD_SUBREAPER = 36
NULL = open(os.devnull, "r+b")


class Failed(Exception):
    """A peer did not do what it was asked; the text says what."""


def become_subreaper():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start(argv, env=None, cwd=None, log=None):
    """Starts a daemon with a session of its own; its output goes to the file `log`."""
    out = open(log, "ab") if log else NULL
    return subprocess.Popen(argv, env=env, cwd=cwd, stdin=NULL, stdout=out, stderr=out, start_new_session=True)


def run(argv, env=None, cwd=None, seconds=30):
    """Runs a command to its end and returns (exit code, its output)."""
    try:
        done = subprocess.run(argv, env=env, cwd=cwd, stdin=NULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failed(f"{os.path.basename(argv[0])} took more than {seconds} s") from None
    return done.returncode, done.stdout.decode(errors="replace").strip()


def must(argv, env=None, cwd=None, seconds=30):
    code, text = run(argv, env, cwd, seconds)
    if code:
        raise Failed(f"{' '.join(argv)[-80:]}: exit {code}: {text[-200:]}")
    return text


def until(what, condition, seconds=20, every=0.02):
    """Looks again and again until the condition holds; its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise Failed(f"not within {seconds} s: {what}")
        time.sleep(every)
    return value


def stat(pid):
    """(state, parent) of a process, or None."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1])
    except (OSError, IndexError):
        return None


def alive(pid):
    found = stat(pid)
    return found is not None and found[0] not in "ZX"


def descendants(of=None):
    """Every process below one (below this one, when not given), by asking each for its parent."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (found := stat(int(entry))):
            children.setdefault(found[1], []).append(int(entry))
    below, look = [], [of or os.getpid()]
    while look:
        below += (next_ones := children.get(look.pop(), []))
        look += next_ones
    return below


def reap():
    """Takes the ended children that nobody else waits for. Only for moments when no command runs."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def rest(seconds):
    """Sleeps, and takes ended orphans meanwhile as init would."""
    until_then = time.monotonic() + seconds
    while time.monotonic() < until_then:
        reap()
        time.sleep(0.05)


def end(pids):
    """KILLs processes and waits until they are gone; all are below this one."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def gone():
        reap()
        return not any(alive(pid) for pid in pids)

    until("the end of what was started", gone)


def field(path, wanted):
    with open(path) as file:
        return next(int(line.split()[1]) for line in file if line.startswith(wanted + ":"))


def resident_kib(pids):
    return sum(field(f"/proc/{pid}/smaps_rollup", "Pss") for pid in pids if alive(pid))


def write_bytes(pids):
    """What these processes and this one caused to be sent to storage, in whole pages, with their ended children."""
    return sum(field(f"/proc/{pid}/io", "write_bytes") for pid in [*filter(alive, pids), os.getpid()])


TRACED = "write,pwrite64,writev,pwritev,pwritev2,sendfile,copy_file_range,fsync,fdatasync,sync_file_range,msync"


class Trace:
    """strace on processes and all they start: bytes that they write into files, and how often they sync."""

    def __init__(self, folder):
        self.folder, self.files, self.tracers = folder, [], []

    def options(self):
        self.files.append(os.path.join(self.folder, f"trace.{len(self.files)}"))
        return ["strace", "-f", "-q", "-y", "-s0", "-e", "signal=none", "-e", "trace=" + TRACED, "-o", self.files[-1]]

    def attach(self, pids):
        for pid in pids:
            self.tracers.append(subprocess.Popen([*self.options(), "-p", str(pid)], stdin=NULL, stdout=NULL, stderr=NULL))
            until("strace's hold", lambda pid=pid: field(f"/proc/{pid}/status", "TracerPid"))

    def detach(self):
        for tracer in self.tracers:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(10)

    def count(self):
        return tuple(map(sum, zip((0, 0), *map(counted, self.files))))


CALL = re.compile(r"(?P<pid>\d+) +(?P<call>\w+)\(\d+<(?P<file>[^>]*)>")


def counted(path):
    """(bytes into regular files, syncs) of one trace. A call that strace tells in two lines is put together."""
    written = syncs = 0
    begun = {}
    with open(path, errors="replace") as trace:
        for line in trace:
            pid = line.split(" ", 1)[0]
            if call := CALL.match(line):
                begun[pid] = call
            elif "resumed>" not in line:
                continue
            call = begun.get(pid)
            if "<unfinished" in line or call is None:
                continue
            result = line.rpartition(" = ")[2].split()[0]
            file = call["file"]
            if "sync" in call["call"]:
                syncs += 1
            elif result.isdigit() and file.startswith("/") and not file.startswith("/dev/") and not file.endswith(".fifo"):
                written += int(result)
    return written, syncs


class Fifo:
    """Where the jobs of one lane of one peer say when they began."""

    def __init__(self, path):
        self.path, self.text = path, b""
        os.mkfifo(path)
        os.chmod(path, 0o666)
        self.end = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def line(self, word, seconds=20):
        """The numbers of the next line, which must begin with this word."""
        while b"\n" not in self.text:
            if not select.select([self.end], [], [], seconds)[0]:
                raise Failed(f"no word of the job within {seconds} s")
            self.text += os.read(self.end, 65536)
        line, _, self.text = self.text.partition(b"\n")
        said, *numbers = line.decode().split()
        if said != word:
            raise Failed(f"a job said {said}, not {word}")
        return [int(number) for number in numbers]

    def pending(self):
        """What has been said and not read, which is forgotten."""
        while select.select([self.end], [], [], 0)[0]:
            self.text += os.read(self.end, 65536)
        text, self.text = self.text.decode(), b""
        return text

    def close(self):
        os.close(self.end)
