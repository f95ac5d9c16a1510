"""pm2: four processes that are not restarted; a submit is `pm2 restart` of one that has ended."""
import json
import os

import host

from .base import LANES, Peer


class Pm2(Peer):
    name = folder = "pm2"
    width = f"{LANES}: four processes"
    waits_for_end = True
    stop_with = "pm2 stop"

    @classmethod
    def version(cls):
        with open(cls.program("node_modules/pm2/package.json")) as file:
            return json.load(file)["version"]

    def setup(self):
        self.env["PM2_HOME"] = self.path("pm2")
        apps = [{"name": f"t{lane}", "script": self.tiny, "args": [self.fifos[lane].path, *self.hold], "interpreter": "none",
                 "autorestart": False} for lane in range(LANES)]
        with open(self.path("apps.json"), "w") as file:
            json.dump({"apps": apps}, file)

    def pm2(self, *words):
        return [self.program("node_modules/.bin/pm2"), *words]

    def serve(self):
        host.must(self.pm2("ping"), self.env)

    def define(self):
        # pm2 can only define what it starts: each job runs once here.
        if not self.hold:
            host.must(self.pm2("start", self.path("apps.json")), self.env)
            for fifo in self.fifos:
                fifo.line("first")
            host.must(self.pm2("save"), self.env)

    def submit(self, lane, before=()):
        words = ["start", self.path("apps.json"), "--only", "t0"] if self.hold else ["restart", f"t{lane}"]
        host.must([*before, *self.pm2(*words)], self.env)
        if self.hold:
            host.must(self.pm2("save"), self.env)

    def stop(self):
        host.must(self.pm2("stop", "t0"), self.env)

    def victims(self, job):
        return [("the daemon", self.daemons[0], lambda: host.must(self.pm2("resurrect"), self.env))]

    def outcome(self):
        text = host.must(self.pm2("jlist"), self.env)
        known = json.loads(text[text.index("["):])
        return f"{known[0]['pm2_env']['status']}, exit code {known[0]['pm2_env'].get('exit_code')}" if known else "no such process"
