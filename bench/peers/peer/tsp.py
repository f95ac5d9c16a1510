"""task-spooler: a queue whose server the first call starts."""
import host

from .base import LANES, Peer


class Tsp(Peer):
    name = folder = "tsp"
    width = f"{LANES}: tsp -S {LANES}"
    stop_with = "tsp -k"
    victim_count = 2

    def tsp(self, *words):
        return [self.program("usr/bin/tsp"), *words]

    def setup(self):
        self.env["TS_SOCKET"] = self.path("socket")

    def serve(self):
        host.must(self.tsp("-S", str(LANES)), self.env)

    def submit(self, lane, before=()):
        host.must([*before, *self.tsp(*self.argv(lane))], self.env)

    def stop(self):
        host.must(self.tsp("-k"), self.env)

    def victims(self, job):
        return [("the server", self.daemons[0], self.serve), ("the job's own tsp", host.stat(job)[1], None)]

    def outcome(self):
        lines = host.must(self.tsp(), self.env).splitlines()[1:]
        return "{1}, E-Level {3}".format(*lines[-1].split()) if lines else "no such job"
