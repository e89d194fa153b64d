"""A backend of your own: one worker on each machine that you reach by ssh.

Name the machines in PRUNECAST_HOSTS, and say `--on ssh_backend:Hosts`.
"""

import contextlib
import os
import pickle
import shlex
import subprocess
import time

from prunecast.errors import PrunecastError
from prunecast.sweep import Backend, Ended
from prunecast.sweep.worker import COMMAND


class Hosts(Backend):
    """Workers are processes on the other machines; they stop when their standard input is closed."""

    def __init__(self):
        self.hosts = os.environ["PRUNECAST_HOSTS"].split(",")
        self.workers, self.grace = {}, 0

    def room(self, spec):
        return len(self.hosts) - len(self.workers)

    def start(self, spec, count):
        self.grace = max(self.grace, spec.resources.grace)  # seconds that workers have to stop
        free = [host for host in self.hosts if host not in self.workers][:count]
        for host in free:
            command = ["ssh", host, shlex.join(COMMAND)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
            self.workers[host] = process
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(pickle.dumps(spec))
                process.stdin.flush()
        return free

    def ended(self, seconds):
        time.sleep(seconds)
        for host, process in list(self.workers.items()):
            code = process.poll()
            if code is None:
                continue
            del self.workers[host]
            if code in (2, 255):  # refused by the worker, or by ssh itself
                why = process.stderr.read().decode().strip()
                yield Ended(worker=host, refusal=PrunecastError(f"{host}: {why}"))
            else:
                yield Ended(worker=host, died=f"ended with status {code} on {host}" if code else "")

    def stop(self):
        for process in self.workers.values():
            process.stdin.close()
        for process in self.workers.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.grace)
            process.kill()
