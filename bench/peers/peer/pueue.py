"""pueue: a queue with a daemon, jobs through a shell."""
import json
import os

import host

from .base import LANES, Peer


class Pueue(Peer):
    name = folder = "pueue"
    width = f"{LANES}: pueue parallel {LANES}"
    stop_with = "pueue kill"

    @classmethod
    def version(cls):
        return host.must([cls.program("bin/pueue"), "--version"]).split()[-1]

    def setup(self):
        os.makedirs(self.path("data"))
        with open(self.path("conf"), "w") as file:
            file.write(f"shared:\n  pueue_directory: {self.path('data')}\n  runtime_directory: {self.path('data')}\n"
                       "  use_unix_socket: true\nclient: {}\ndaemon: {}\n")

    def pueue(self, *words):
        return [self.program("bin/pueue"), "-c", self.path("conf"), *words]

    def serve(self):
        host.start([self.program("bin/pueued"), "-c", self.path("conf")], self.env, log=self.path("log"))
        host.until("its answer", lambda: host.run(self.pueue("status"), self.env)[0] == 0)

    def define(self):
        host.must(self.pueue("parallel", str(LANES)), self.env)

    def submit(self, lane, before=()):
        host.must([*before, *self.pueue("add", "--", *self.argv(lane))], self.env)

    def stop(self):
        host.must(self.pueue("kill", "0"), self.env)

    def outcome(self):
        tasks = json.loads(host.must(self.pueue("status", "--json"), self.env))["tasks"]
        status = tasks["0"]["status"] if "0" in tasks else "no such task"
        if isinstance(status, dict):
            word, more = next(iter(status.items()))
            return f"{word}, {json.dumps(more.get('result'))}" if "result" in more else word
        return status
