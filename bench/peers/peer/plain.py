"""No peer: fork and exec by the measurement itself, the floor below all others."""
import subprocess

from .base import Peer


class Plain(Peer):
    name = "fork and exec"
    width = "4 callers, none in between"
    waits_for_end = True

    @classmethod
    def missing(cls):
        return None

    @classmethod
    def version(cls):
        return "-"

    def submit(self, lane, before=()):
        subprocess.run([*before, *self.argv(lane)], env=self.env, check=True, timeout=30)
