"""crond of busybox: nothing can be submitted; what stands in the table starts at the next minute."""
import os
import pwd

import host

from .base import Peer


class Crond(Peer):
    name, folder = "busybox crond", "busybox"
    ways = {}
    note = "no submit; the next minute"

    @classmethod
    def missing(cls):
        if (reason := super().missing()) is None and os.geteuid() != 0:
            reason = "needs root"
        return reason

    def setup(self):
        os.makedirs(self.path("crontabs"))
        with open(self.path("crontabs", pwd.getpwuid(0).pw_name), "w") as file:
            file.write("* * * * * " + " ".join(self.argv()) + "\n")

    def serve(self):
        argv = [self.program("bin/busybox"), "crond", "-f", "-c", self.path("crontabs"), "-L", self.path("log")]
        host.start(argv, self.env, log=self.path("out"))

    def outcome(self):
        with open(self.path("log"), errors="replace") as file:
            return "its log ends with " + file.read().splitlines()[-1].replace("crond: ", "").split(self.path())[0]
