"""nq: no daemon; each job is a process that waits for the locks of the earlier ones."""
import os
import signal

import host

from .base import Peer


class Nq(Peer):
    name = folder = "nq"
    width = "1: one queue has no other"
    stop_with = "kill -- -PID, as its manual says"
    note = "no daemon"

    def setup(self):
        self.env["NQDIR"] = self.path("queue")

    def submit(self, lane, before=()):
        self.last = host.must([*before, self.program("usr/bin/nq"), *self.argv(lane)], self.env).split()[-1]

    def stop(self):
        os.kill(-int(self.last.rpartition(".")[2]), signal.SIGTERM)

    def victims(self, job):
        return [("the job's own nq", host.stat(job)[1], None)]

    def outcome(self):
        with open(self.path("queue", self.last), errors="replace") as file:
            last = [line for line in file.read().splitlines() if line][-1]
        return "its log ends with " + os.path.basename(last.split(" " + self.path())[0])
