"""One job of tests/chaos/worker: starts it, says what its processes do, and what is left of it at the end."""

import collections
import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

PHASES = ["none", "start", "sets", "run", "join", "leave", "over"]  # worker.c: enum phase
KINDS = ["", "allreduce", "broadcast", "allgather", "alltoall", "reducescatter", "barrier"]  # op_plan.h: from 1
RECORD = struct.Struct("iiii48x")  # worker.c: struct progress

Progress = collections.namedtuple("Progress", "pid phase kind operations")
Process = collections.namedtuple("Process", "pid parent state name")

PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """What a job leaves behind becomes a child of this process, where it is found."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def all_processes():
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        comm = text[text.index("(") + 1 : text.rindex(")")]
        rest = text[text.rindex(")") + 2 :].split()
        found.append(Process(int(name), int(rest[1]), rest[0], comm))
    return found


def descendants(root):
    """The processes below root, zombies included, root not."""
    children = collections.defaultdict(list)
    for process in all_processes():
        children[process.parent].append(process)
    found, look_at = [], [root]
    while look_at:
        below = children[look_at.pop()]
        found += below
        look_at += [process.pid for process in below]
    return found


def waits_for_lock(pid):
    """Does the process's first thread wait in futex(2), as for a mutex?"""
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
            return file.read().startswith("futex")
    except OSError:
        return False


def unix_sockets():
    """Names of the bound Unix sockets of this network namespace."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        return {line.split()[7] for line in file if len(line.split()) > 7}


class Job:
    """A job and a folder of its own, which holds all that it may write."""

    def __init__(self, build, size, isolated, helpers=(), by_mpirun=False):
        self.build = build
        self.by_mpirun = by_mpirun
        self.helpers = set(helpers)  # processes below this one that are no part of the job
        self.size = size
        self.isolated = isolated  # nobody else uses /dev/shm and this network namespace
        self.folder = tempfile.mkdtemp(prefix="chaos.")
        self.disk = os.path.join(self.folder, "disk")  # of all that it writes
        os.mkdir(self.disk)
        self.mounted = False
        self.make_folders()
        # not a file, which a limit of file sizes would end
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.written = b""
        self.progress_path = os.path.join(self.folder, "progress")
        with open(self.progress_path, "wb") as file:
            file.write(bytes(size * RECORD.size))
        self.shared_before = self.shared_now()
        self.sockets_before = unix_sockets() if isolated else set()
        self.popens = []
        self.began = time.monotonic()
        self.ended = None

    # ---- its disk ----

    def make_folders(self):
        self.temporary = os.path.join(self.disk, "tmp")
        self.traces = os.path.join(self.disk, "traces")
        os.mkdir(self.temporary)
        os.mkdir(self.traces)

    def shrink_disk(self, kilobytes):
        """From now on its disk has room for so many kilobytes. Only in a mount namespace of our own."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes + 4}k", "none", self.disk], check=True)
        self.mounted = True
        with open(os.path.join(self.disk, "filler"), "wb") as file:
            file.write(bytes(4096))
        self.make_folders()

    def shrink_shared(self, kilobytes):
        """The same for /dev/shm; destroy() undoes it."""
        subprocess.run(["mount", "-o", f"remount,size={kilobytes + 4}k", "/dev/shm"], check=True)
        with open("/dev/shm/filler", "wb") as file:
            file.write(bytes(4096))
        self.shared_before = self.shared_now()

    def broken_traces(self):
        """Sentences about timelines that are no JSON."""
        found = []
        for name in sorted(os.listdir(self.traces)):
            if not name.endswith(".json"):
                continue
            try:
                with open(os.path.join(self.traces, name), encoding="utf-8") as file:
                    json.load(file)
            except ValueError as error:
                found.append(f"the timeline {name} is broken: {error}")
        return found

    def environment(self, more):
        """That of a user, without what the shell around us has of hvd and launchers."""
        foreign = re.compile("(HVD|HOROVOD|PMIX|OMPI|PMI|SLURM|JSM|PROPERTY)_")
        kept = {name: value for name, value in os.environ.items() if not foreign.match(name)}
        kept["HVD_MODULE_PATH"] = f"{self.build}/pmix_shim/.libs:{self.build}/core/.libs"
        kept["TMPDIR"] = self.temporary
        kept.update(more)
        return kept

    def launch(self, command, more_environment):
        """Start a launcher, or a rank that needs none, and write what it says to the output of the job."""
        self.popens.append(
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=self.write_end,
                stderr=self.write_end,
                env=self.environment(more_environment),
                start_new_session=True,
            )
        )

    def run_next(self):
        """Another job of the same user."""
        subprocess.run([f"{self.build}/bin/hvdrun", "-n", "1", "true"], env=self.environment({}), check=False, timeout=60)

    def output(self):
        self.collect()
        return self.written.decode(errors="replace")

    def collect(self):
        """Take what has been written."""
        while True:
            try:
                self.written += os.read(self.read_end, 65536)
            except BlockingIOError:
                return

    # ---- what it does ----

    def progress(self):
        with open(self.progress_path, "rb") as file:
            return [Progress(*record) for record in RECORD.iter_unpack(file.read())]

    def running(self):
        self.collect()
        for popen in self.popens:
            if popen.poll() is None:
                return True
        if self.ended is None:
            self.ended = time.monotonic()
        return False

    def pid_of(self, part):
        """The process that is `hvdrun`, `reaper`, `server` or the rank of a number; None while there is none."""
        if isinstance(part, int):
            return self.pid_of_rank(part)
        if part == "hvdrun":
            return self.popens[0].pid
        name = {"reaper": "hvdrun-reaper", "server": "hvdrun-pmix"}[part]
        for process in descendants(self.popens[0].pid):
            if process.name == name and process.state != "Z":
                return process.pid
        return None

    def pid_of_rank(self, rank):
        """A rank of mpirun writes the number that it has in a process namespace of its own."""
        pid = self.progress()[rank].pid or None
        if pid is None or not self.by_mpirun:
            return pid
        for process in descendants(self.popens[0].pid):
            try:
                with open(f"/proc/{process.pid}/environ", "rb") as file:
                    variables = file.read().split(b"\0")
            except OSError:
                continue  # it has ended
            if process.name.endswith("worker") and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                return process.pid
        return None

    def stopped_with(self, pid):
        """The processes that stand still when this one does: nsenter, which brings a rank of mpirun to its node, stops too."""
        parents = [process.parent for process in all_processes() if process.pid == pid and self.by_mpirun]
        return [pid] + parents

    def end_stuck_mpirun(self):
        """At the end of its time: does mpirun alone still run, and wait for a lock of its own? Then end it."""
        if not self.by_mpirun:
            return False
        for _ in range(20):
            alive = [process for process in descendants(self.popens[0].pid) if process.state != "Z"]
            mpirun = [process.pid for process in alive if process.name == "mpirun"]
            if len(mpirun) != 1 or any(process.name.endswith("worker") for process in alive):
                return False
            if not waits_for_lock(mpirun[0]):
                return False
            time.sleep(0.05)
        os.kill(mpirun[0], signal.SIGKILL)
        return self.wait(5)

    def wait(self, seconds):
        """Wait for the end; False where it did not come in time."""
        end = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def statuses(self):
        return [popen.returncode for popen in self.popens]

    # ---- what is left ----

    def shared_now(self):
        return set(os.listdir("/dev/shm")) if self.isolated else set()

    def processes_left(self):
        """All processes below this one that are no helpers; orphans that have ended are reaped."""
        own = {popen.pid for popen in self.popens}
        found = []
        for process in descendants(os.getpid()):
            if process.parent == os.getpid() and process.state == "Z" and process.pid not in own:
                os.waitpid(process.pid, 0)
            elif process.pid not in self.helpers:
                found.append(process)
        return found

    def left(self, seconds):
        """Sentences about what is still there after so many seconds."""
        end = time.monotonic() + seconds
        while True:
            found = [f"process {process.pid} ({process.name}, state {process.state})" for process in self.processes_left()]
            found += [f"/dev/shm/{name}" for name in sorted(self.shared_now() - self.shared_before)]
            found += [f"file {name}" for name in sorted(os.listdir(self.temporary))]
            if self.isolated:
                found += [f"socket {name}" for name in sorted(unix_sockets() - self.sockets_before)]
            if not found or time.monotonic() > end:
                return found
            time.sleep(0.02)

    def destroy(self):
        """End what is left, and remove the folder."""
        for _ in range(100):
            left = self.processes_left()
            if not left:
                break
            for process in left:
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        for name in self.shared_now() - self.shared_before:
            path = os.path.join("/dev/shm", name)
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        if os.path.exists("/dev/shm/filler"):
            os.unlink("/dev/shm/filler")
            subprocess.run(["mount", "-o", "remount,size=50%", "/dev/shm"], check=True)
        if self.mounted:
            subprocess.run(["umount", "-l", self.disk], check=True)
        os.close(self.read_end)
        os.close(self.write_end)
        shutil.rmtree(self.folder, ignore_errors=True)
