"""supervisord: four programs that are not started by themselves; a submit is `supervisorctl start`."""
import socket
import xmlrpc.client
import http.client

import host

from .base import LANES, Peer


class Transport(xmlrpc.client.Transport):
    def __init__(self, path):
        super().__init__()
        self.unix = path

    def make_connection(self, _):
        connection = http.client.HTTPConnection("localhost", timeout=20)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.unix)
        return connection


class Supervisord(Peer):
    name = folder = "supervisord"
    width = f"{LANES}: four programs"
    ways = {"": "submit", "XML-RPC on its socket": "call"}
    waits_for_end = True
    stop_with = "supervisorctl stop, stopasgroup and killasgroup"

    @classmethod
    def version(cls):
        return host.must([cls.program("bin/supervisord"), "--version"])

    def setup(self):
        text = f"""[supervisord]
logfile={self.path('log')}
pidfile={self.path('pid')}
childlogdir={self.work}
[unix_http_server]
file={self.path('socket')}
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
[supervisorctl]
serverurl=unix://{self.path('socket')}
"""
        for lane in range(LANES):
            text += f"""[program:t{lane}]
command={' '.join(self.argv(lane))}
autostart=false
autorestart=false
startsecs=0
stopasgroup=true
killasgroup=true
"""
        with open(self.path("conf"), "w") as file:
            file.write(text)

    def control(self, *words):
        return [self.program("bin/supervisorctl"), "-c", self.path("conf"), *words]

    def serve(self):
        host.start([self.program("bin/supervisord"), "-n", "-c", self.path("conf")], self.env, log=self.path("out"))
        host.until("its answer", lambda: "STOPPED" in host.run(self.control("status", "t0"), self.env)[1])

    def submit(self, lane, before=()):
        # A job that has ended by the time it looks is "abnormal" to it, and has run all the same.
        code, text = host.run([*before, *self.control("start", f"t{lane}")], self.env)
        if code and "abnormal termination" not in text:
            raise host.Failed(f"supervisorctl start: {text[-100:]}")

    def rpc(self):
        return xmlrpc.client.ServerProxy("http://localhost/RPC2", Transport(self.path("socket"))).supervisor

    def call(self, lane, before=()):
        self.rpc().startProcess(f"t{lane}", False)

    def ended(self, lane):
        host.until("the end of a job", lambda: self.rpc().getProcessInfo(f"t{lane}")["statename"] in ("STOPPED", "EXITED"), every=0.005)

    def stop(self):
        host.must(self.control("stop", "t0"), self.env)

    def outcome(self):
        info = self.rpc().getProcessInfo("t0")
        return f"{info['statename']}, exit status {info['exitstatus']}"
