"""What the measurement asks of every peer."""
import os

import host

INSTALLED = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".installed")
LANES = 4


class Peer:
    """One instance of a peer with a folder of its own. A lane is one of four jobs that may run side by side."""

    name = ""
    folder = ""  # below .installed
    width = "4"  # jobs at once, and how that was made so
    ways = {"": "submit"}  # how a job is submitted: a word for the table, and the method
    waits_for_end = False  # a lane cannot be started again before its job has ended
    stop_with = ""  # the command that stops a job
    victim_count = 1
    note = ""

    def __init__(self, work, tiny, job="run"):
        self.work, self.tiny = work, tiny
        os.makedirs(work)
        self.fifos = [host.Fifo(os.path.join(work, f"{lane}.fifo")) for lane in range(LANES)]
        self.hold = ["hold"] if job == "hold" else []
        self.env = {"PATH": os.environ["PATH"], "HOME": work, "TMPDIR": work, "LANG": "C.UTF-8"}
        self.daemons = []
        self.setup()

    # What a peer defines.

    @classmethod
    def missing(cls):
        """Why it cannot be measured, or None."""
        path = os.path.join(INSTALLED, cls.folder)
        if os.path.exists(os.path.join(path, "complete")):
            return None
        reason = path + ".missing"
        return open(reason).read().strip() if os.path.exists(reason) else "not installed (bench/peers/install)"

    @classmethod
    def version(cls):
        with open(os.path.join(INSTALLED, cls.folder, "versions")) as file:
            return next(line.split()[1] for line in file if line.split()[0] in ("task-spooler", "nq", "s6", "busybox-static"))

    def setup(self):
        """Writes what it reads at its start."""

    def serve(self):
        """Starts the daemon and returns when it answers."""

    def define(self):
        """Tells a running daemon the four jobs, where jobs are defined before they are started."""

    def submit(self, lane, before=()):
        """Starts the job of a lane; `before` stands before the command line (strace)."""
        raise NotImplementedError

    def ended(self, lane):
        """Waits until a lane can be started again."""

    def stop(self):
        """Stops the job of the first lane."""
        raise NotImplementedError

    def victims(self, job):
        """What may be killed while a job runs: (what it is, its pid, what starts it again, if anything has to)."""
        return [("the daemon", self.daemons[0], self.serve)]

    def outcome(self):
        """What it knows of the job of the first lane now, in its own words."""
        return "nothing"

    # What is the same for all.

    def argv(self, lane=0):
        return [self.tiny, self.fifos[lane].path, *self.hold]

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    @classmethod
    def program(cls, *parts):
        return os.path.join(INSTALLED, cls.folder, *parts)

    def begin(self):
        before = set(host.descendants())
        self.serve()
        self.define()
        self.daemons = [pid for pid in host.descendants() if pid not in before and host.alive(pid)]
        self.below = before

    def finish(self):
        host.end([pid for pid in host.descendants() if pid not in self.below])
        for fifo in self.fifos:
            fifo.close()
