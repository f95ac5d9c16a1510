"""What is left when something is killed, and when a job is stopped. Each trial has a fresh instance of its peer."""
import os
import re
import signal

import host


class Trial:
    """A peer with one job that holds: its process, and the two that it has sent away."""

    def __init__(self, peer, work, tiny):
        self.peer = peer(work, tiny, "hold")

    def __enter__(self):
        try:
            self.peer.begin()
            if self.peer.ways:
                self.peer.submit(0)
            # A crond needs up to a minute.
            self.peer.fifos[0].line("first", 20 if self.peer.ways else 75)
            self.job, self.child, self.daemon = self.peer.fifos[0].line("hold")
            return self
        except BaseException:
            self.peer.finish()
            raise

    def __exit__(self, *_):
        self.peer.finish()


def lives(pid):
    return "lives" if host.alive(pid) else "gone"


def finish_job(trial):
    """The job ends with exit code 7."""
    os.kill(trial.job, signal.SIGUSR1)

    def gone():
        host.reap()
        return not host.alive(trial.job)

    host.until("the end of the job", gone)


def word(trial):
    """Whether the peer knows that the job ended with 7, and what it says."""
    host.rest(2)
    try:
        said = trial.peer.outcome()
    except (host.Failed, OSError, ValueError, LookupError) as error:
        said = f"no answer ({str(error)[-60:]})"
    said = " ".join(said.split())
    return ("yes: " if re.search(r"\b7\b", said) else "no: ") + said


def kill(peer, at, when, work, tiny):
    """Kills the victim number `at` of a peer. Returns its name, what became of the job, what is known of its end."""
    with Trial(peer, work, tiny) as trial:
        what, pid, again = trial.peer.victims(trial.job)[at]
        os.kill(pid, signal.SIGKILL)
        host.rest(1)
        job = lives(trial.job)
        if job == "lives" and when == "away":
            finish_job(trial)
        if again:
            again()
        host.rest(1)
        # A job every minute is what a crond is for.
        second = " (and is started a second time)" if trial.peer.ways and "first" in trial.peer.fifos[0].pending() else ""
        if host.alive(trial.job):
            finish_job(trial)
        elif job == "lives" and when == "back":
            return what, "ended by the restart" + second, word(trial)
        return what, job + second, word(trial)


def stop(peer, work, tiny):
    """(the job, its setsid child, its daemon) after the peer's own way to stop a job."""
    with Trial(peer, work, tiny) as trial:
        trial.peer.stop()
        host.rest(3)
        return lives(trial.job), lives(trial.child), lives(trial.daemon)
