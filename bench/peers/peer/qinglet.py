"""qinglet, by its command line and by its socket."""
import http.client
import json
import os
import socket
import time
import uuid

import host

from .base import LANES, Peer


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.unix = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.unix)


class Qinglet(Peer):
    name = "qinglet"
    width = f"{LANES}: the edge profile's own"
    ways = {"": "submit", "HTTP on its socket": "post"}
    stop_with = "stop RUN --wait"
    victim_count = 2

    @classmethod
    def binary(cls):
        return os.path.abspath(os.environ.get("QINGLET", "target/release/qinglet"))

    @classmethod
    def missing(cls):
        return None if os.access(cls.binary(), os.X_OK) else f"no {cls.binary()}; run `make build`"

    @classmethod
    def version(cls):
        return host.must([cls.binary(), "--version"]).split()[-1]

    def qinglet(self, *words):
        return [self.binary(), "--state", self.path("state"), *words]

    def setup(self):
        host.must(self.qinglet("init"), self.env)

    def serve(self):
        host.start(self.qinglet("serve"), self.env, log=self.path("log"))
        host.until("its answer", lambda: host.run(self.qinglet("status"), self.env)[0] == 0)

    def define(self):
        for lane in range(LANES):
            host.must(self.qinglet("task", "add", f"t{lane}", "--", *self.argv(lane)), self.env)
        with open(self.path("state", "owner.token")) as file:
            self.token = file.read().strip()
        self.seen = [self.ask("GET", f"tasks/t{lane}")[1]["task"] for lane in range(LANES)]

    def submit(self, lane, before=()):
        self.last = host.must([*before, *self.qinglet("run", f"t{lane}")], self.env).split()[-1]

    def ask(self, method, path, body=None):
        connection = Connection(self.path("state", "run", "api.sock"))
        head = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"}
        connection.request(method, "/api/v3/projects/default/" + path, body and json.dumps(body), head)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text)

    def post(self, lane, before=()):
        task = self.seen[lane]
        # Version 7: the time in front, as the API asks.
        mutation = uuid.UUID(int=(time.time_ns() // 1000000) << 80 | 7 << 76 | 2 << 62 | uuid.uuid4().int & (1 << 62) - 1)
        status, answer = self.ask("POST", f"tasks/t{lane}/runs", {
            "schema": "qinglong/task-start@v1", "mutationId": str(mutation),
            "expectedRevision": task["revision"], "expectedContentDigest": task["contentDigest"]})
        if status != 202:
            raise host.Failed(f"POST runs: {status} {answer}")

    def stop(self):
        host.must(self.qinglet("stop", self.last, "--wait"), self.env)

    def victims(self, job):
        return [("the daemon", self.daemons[0], self.serve), ("the job's supervisor", host.stat(job)[1], None)]

    def outcome(self):
        run = json.loads(host.must(self.qinglet("--json", "show", self.last), self.env))["run"]
        attempt = run["latestAttempt"]
        return f"{run['status']}, exit code {attempt.get('exitCode')}"
