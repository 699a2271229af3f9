"""Runs a command at a Slurm cluster of its own: a controller and some nodes in namespaces of this machine.

    python slurm_cluster.py --nodes 2 -- srun -N2 python train.py

Each node is a network namespace with a host name and an address of its own; all are at one bridge. Everything is in network, mount and process
namespaces, so it does not reach the machine's network, and it ends with the command. That takes root: Slurm's daemons set groups, which user
namespaces refuse. Ends with the command's code, or with 77 after a line ``skipped: ...`` where something is missing.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import List, Optional

#: What automake's tests end with where they cannot run.
SKIPPED = 77
#: Set in the process that runs within the namespaces.
INSIDE = "NETFOLD_TEST_SLURM_FOLDER"
NETWORK = "10.77.0"
#: Of the daemons: seconds to answer.
PATIENCE = 90.0

SLURM_CONF = """\
ClusterName=netfold
SlurmctldHost=login({network}.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def skip(why: str) -> None:
    print(f"skipped: {why}", flush=True)
    sys.exit(SKIPPED)


def enter(arguments: List[str]) -> int:
    """Runs this program again in namespaces of its own, which end with it."""
    for program in ("slurmctld", "slurmd", "srun", "scontrol", "munged", "unshare", "nsenter", "ip"):
        if shutil.which(program, path=search_path()) is None:
            skip(f"Slurm: no {program} (Debian: slurm-wlm, munge, iproute2, util-linux)")
    unshare = ["unshare", "--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    probe = subprocess.run([*unshare, "true"], capture_output=True, text=True)
    if probe.returncode != 0:
        # As the tests of the command do: where it is set, the privilege is expected.
        if "REQUIRE_NET_ADMIN" in os.environ:
            sys.exit(f"namespaces: {probe.stderr.strip()}")
        skip(f"Slurm: no namespaces: {probe.stderr.strip()}")
    with tempfile.TemporaryDirectory(prefix="netfold-slurm-") as folder:
        # munge refuses keys and sockets in folders that others can write to or cannot read.
        os.chmod(folder, 0o755)
        environment = {**os.environ, INSIDE: folder, "PATH": search_path()}
        return subprocess.run([*unshare, sys.executable, __file__, *arguments], env=environment).returncode


def search_path() -> str:
    return os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def check(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")


class Cluster:
    """The daemons, in the namespaces of this process and of the nodes."""

    def __init__(self, folder: pathlib.Path, nodes: List[str]) -> None:
        self.folder = folder
        self.nodes = nodes
        self.daemons: List[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.configure()
        check("hostname", "login")
        check("ip", "link", "set", "lo", "up")
        check("ip", "link", "add", "bridge", "type", "bridge")
        check("ip", "address", "add", f"{NETWORK}.1/24", "dev", "bridge")
        check("ip", "link", "set", "bridge", "up")
        munge = ["munged", "--foreground", "--force", "--num-threads=2", f"--key-file={self.folder}/munge.key"]
        munge += [f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")]
        self.daemon("munged", [*munge, f"--socket={self.folder}/munge.socket"])
        self.wait("munge's socket", lambda: (self.folder / "munge.socket").exists())
        self.daemon("slurmctld", ["slurmctld", "-D"])
        for number, name in enumerate(self.nodes):
            self.daemon(name, [*self.node(number, name), "slurmd", "-D", "-N", name])
        self.wait("all nodes", self.ready)

    def configure(self) -> None:
        lines = [f"NodeName={name} NodeHostname={name} NodeAddr={NETWORK}.{2 + number} CPUs=2 State=UNKNOWN" for number, name in enumerate(self.nodes)]
        (self.folder / "state").mkdir()
        conf = self.folder / "slurm.conf"
        conf.write_text(SLURM_CONF.format(folder=self.folder, network=NETWORK, nodes="\n".join(lines)))
        os.environ["SLURM_CONF"] = str(conf)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        hosts = self.folder / "hosts"
        named = [f"{NETWORK}.{2 + number} {name}" for number, name in enumerate(self.nodes)]
        hosts.write_text("\n".join(["127.0.0.1 localhost", f"{NETWORK}.1 login", *named, ""]))
        check("mount", "--bind", str(hosts), "/etc/hosts")

    def node(self, number: int, name: str) -> List[str]:
        """Makes a node's namespaces; returns the begin of a command that runs in them."""
        holder = subprocess.Popen(["unshare", "--net", "--uts", "sleep", "infinity"])
        self.daemons.append(holder)
        within = ["nsenter", "--target", str(holder.pid), "--net", "--uts"]
        mine = os.readlink("/proc/self/ns/net")
        self.wait(f"namespaces of {name}", lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != mine)
        check("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        check("ip", "link", "set", name, "master", "bridge", "up")
        check(*within, "hostname", name)
        check(*within, "ip", "link", "set", "lo", "up")
        check(*within, "ip", "address", "add", f"{NETWORK}.{2 + number}/24", "dev", "eth0")
        check(*within, "ip", "link", "set", "eth0", "up")
        return within

    def ready(self) -> bool:
        states = subprocess.run(["sinfo", "--noheader", "--Node", "--format", "%T"], capture_output=True, text=True)
        return states.stdout.split() == ["idle"] * len(self.nodes)

    def daemon(self, name: str, command: List[str]) -> None:
        with open(self.folder / f"{name}.out", "wb") as output:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT))

    def wait(self, what: str, ready) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in self.daemons):
                self.report()
                sys.exit(f"{what}: not within {PATIENCE:.0f} s, or a daemon has ended")
            time.sleep(0.1)

    def report(self) -> None:
        """Prints the end of what the daemons wrote."""
        for path in sorted([*self.folder.glob("*.out"), *self.folder.glob("*.log"), *self.folder.glob("munge.log")]):
            print(f"--- {path.name}\n" + path.read_text(errors="replace")[-3000:], file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    folder: Optional[str] = os.environ.pop(INSIDE, None)
    if folder is None:
        return enter(sys.argv[1:])
    cluster = Cluster(pathlib.Path(folder), [f"node{number}" for number in range(options.nodes)])
    cluster.start()
    done = subprocess.run(command)
    if done.returncode != 0:
        cluster.report()
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
