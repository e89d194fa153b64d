"""A Slurm cluster of two nodes on one machine: real daemons, each node in its own namespaces."""

import contextlib
import getpass
import importlib.util
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

NODES = ("node1", "node2")
DAEMONS = ("slurmctld", "slurmd", "munged", "sbatch", "unshare", "setpriv")
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
REMEDY = "apt-get install slurm-wlm munge"
APART = ["unshare", "--pid", "--uts", "--mount", "--mount-proc", "--fork", "--kill-child=SIGKILL"]
CONFIGURATION = """
ClusterName=prunecast
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={root}/munge/socket,cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/%n.pid
SlurmctldLogFile={root}/log/slurmctld
SlurmdLogFile={root}/log/%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
MaxArraySize=3
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=5
KillWait=3
SchedulerParameters=sched_min_interval=100000,sched_interval=1,batch_sched_delay=0,bf_interval=1
NodeName={nodes} NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=2
PartitionName=main Nodes={nodes} Default=YES MaxTime=60 State=UP
PartitionName=brief Nodes={nodes} MaxTime=1 State=UP
PartitionName=single Nodes={nodes} State=UP
JobSubmitPlugins=lua
"""
POLICY = """
function slurm_job_submit(job, partitions, uid)
    if job.partition == "single" and job.array_inx ~= nil then
        return slurm.ESLURM_ACCOUNTING_POLICY
    end
    return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
return slurm.SUCCESS
"""


def why_not():
    """Why a cluster cannot run here; empty if it can."""
    missing = [name for name in DAEMONS if shutil.which(name) is None]
    if missing:
        return f"{missing[0]} is not installed; the remedy: {REMEDY}"
    if importlib.util.find_spec("submitit") is None:
        return "submitit is not installed; the remedy: pip install 'prunecast[slurm]'"
    if getpass.getuser() != "root":
        return "Slurm's daemons need root; the remedy: run these tests as root"
    trial = subprocess.run([*APART, "true"], capture_output=True, check=False)
    return (
        "" if trial.returncode == 0 else "namespaces are not permitted; the remedy: run outside of a sandbox"
    )


def _free_ports(count):
    """Consecutive free ports; other test processes start elsewhere."""
    for first in range(20000 + os.getpid() % 20000, 60000, count):
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise AssertionError("no free ports")


class Cluster:
    """Munge, Slurm's controller, and two nodes that can be killed as a whole."""

    def __init__(self, root):
        self.root = root
        self.port = _free_ports(1 + len(NODES))
        self.environment = {**os.environ, "SLURM_CONF": str(root / "slurm.conf")}
        self.daemons = {}
        for name in ("munge", "state", "spool", "log"):
            (root / name).mkdir(parents=True, mode=0o755)

    def start(self):
        key = self.root / "munge" / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        (self.root / "munge").chmod(0o755)
        places = {"port": self.port, "first": self.port + 1, "last": self.port + len(NODES)}
        text = CONFIGURATION.format(root=self.root, nodes=f"node[1-{len(NODES)}]", **places)
        (self.root / "slurm.conf").write_text(text)
        (self.root / "job_submit.lua").write_text(POLICY)
        files = {
            "key-file": "key",
            "socket": "socket",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        options = [f"--{option}={self.root}/munge/{name}" for option, name in files.items()]
        self._start("munged", ["munged", "--foreground", "--force", *options])
        _until(lambda: (self.root / "munge" / "socket").exists())
        self.restart_controller()
        for node in NODES:
            self.revive(node)
        self.wait_until_idle()

    def restart_controller(self):
        """Start Slurm's controller; one that runs is ended before, and given the time to save what it knows."""
        if "slurmctld" in self.daemons:
            process = self.daemons.pop("slurmctld")
            process.terminate()
            process.wait()
        self._start("slurmctld", ["slurmctld", "-D"])

    def _kill(self, name):
        process = self.daemons.pop(name)
        process.kill()
        process.wait()

    def _start(self, name, command):
        with (self.root / "log" / f"{name}.out").open("a") as log:
            self.daemons[name] = subprocess.Popen(
                [*DIES_WITH_US, *command],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def revive(self, node, first="true"):
        """Start a node; `first` is done in its namespaces before, as hiding a folder from it."""
        spool = self.root / "spool" / node
        shutil.rmtree(spool, ignore_errors=True)  # a slurmd would wait for the dead workers it finds there
        spool.mkdir()
        script = f"hostname {node}; {first}; slurmd -D -N {node} & wait"
        self._start(node, [*APART, "bash", "-c", script])

    def kill(self, node):
        """Kill a node with all that runs on it, and say so, lest Slurm take minutes to notice."""
        self._kill(node)
        _until(lambda: not self._listens(node))
        self.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")

    def _listens(self, node):
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.port + 1 + NODES.index(node))) == 0

    def wait_until_idle(self):
        """Wait until nothing runs and every node is there again."""
        self.ask("scancel", "--user=root")
        _until(lambda: not self.jobs() and self.states() == dict.fromkeys(NODES, "idle"))

    def states(self):
        lines = self.ask("sinfo", "--noheader", "--Node", "--format=%N %T", check=False).splitlines()
        return dict(line.split() for line in lines)

    def ask(self, *command, check=True):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def jobs(self, *states):
        """What is in the queue, by Slurm's number of the element."""
        chosen = [f"--states={','.join(states)}"] if states else []
        return self.ask("squeue", "--noheader", "--array", "--format=%i", *chosen, check=False).split()

    def workers(self):
        """The processes of this cluster's workers, as the machine numbers them."""
        found, own = [], f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):
                    words = (folder / "cmdline").read_bytes().split(b"\0")
                    ours = own in (folder / "environ").read_bytes().split(b"\0")
                    if ours and b"submitit.core._submit" in words and b"srun" not in words[0]:
                        found.append(int(folder.name))
        return found

    def stop(self):
        self.ask("scancel", "--user=root", check=False)
        for name in reversed(list(self.daemons)):
            self._kill(name)


def _until(holds, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "the cluster does not come up"
        time.sleep(0.1)
