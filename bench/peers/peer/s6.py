"""s6: a supervisor for each of four services that are wanted down; a submit is `s6-svc -o`, once."""
import glob
import os

import host

from .base import LANES, Peer


class S6(Peer):
    name = folder = "s6"
    width = f"{LANES}: four services"
    waits_for_end = True
    stop_with = "s6-svc -d"
    victim_count = 2

    @classmethod
    def missing(cls):
        # s6-svscan looks for s6-supervise at /usr/bin and nowhere else, so it is shown one there.
        if (reason := super().missing()) is None and os.geteuid() != 0:
            reason = "needs root, for a mount namespace"
        return reason

    def setup(self):
        self.env["LD_LIBRARY_PATH"] = ":".join(glob.glob(self.program("usr/lib/*-linux-*")) + glob.glob(self.program("lib/*-linux-*")))
        self.env["PATH"] = self.program("usr/bin") + ":" + self.env["PATH"]
        for lane in range(LANES):
            os.makedirs(self.service(lane))
            with open(self.service(lane, "run"), "w") as file:
                file.write("#!/bin/sh\nexec " + " ".join(self.argv(lane)) + "\n")
            os.chmod(self.service(lane, "run"), 0o755)
            open(self.service(lane, "down"), "w").close()

    def service(self, lane, *parts):
        return self.path("scan", f"t{lane}", *parts)

    def serve(self):
        own = self.program("usr/bin")
        show = f"mount -t overlay overlay -o lowerdir={own}:/usr/bin /usr/bin && exec s6-svscan {self.path('scan')}"
        host.start(["unshare", "-m", "sh", "-c", show], self.env, log=self.path("log"))
        host.until("four supervisors", lambda: all(host.run(["s6-svok", self.service(lane)], self.env)[0] == 0 for lane in range(LANES)))

        self.since = [self.state(lane)[1] for lane in range(LANES)]

    def state(self, lane):
        """(up, since when)"""
        up, since = host.must(["s6-svstat", "-o", "up,updownsince", self.service(lane)], self.env).split()
        return up == "true", since

    def submit(self, lane, before=()):
        host.must([*before, "s6-svc", "-o", self.service(lane)], self.env)

    def ended(self, lane):
        # Not s6-svwait, whose own helper would have to be at /usr/bin too. Down since a later moment than
        # before: "down" alone may be the word from before the job.
        def down():
            up, since = self.state(lane)
            return not up and since != self.since[lane] and since

        self.since[lane] = host.until("the end of a job", down, every=0.002)

    def stop(self):
        host.must(["s6-svc", "-d", self.service(0)], self.env)
        self.ended(0)

    def victims(self, job):
        return [("s6-svscan", self.daemons[0], self.serve), ("the job's s6-supervise", host.stat(job)[1], None)]

    def outcome(self):
        return host.must(["s6-svstat", self.service(0)], self.env)
