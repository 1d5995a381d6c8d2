"""Nodes on a network whose cables can be cut, made lossy and slow: network namespaces whose interface is a TAP device, and
frames that this program passes between them. It needs root, ip, and /dev/net/tun."""

import collections
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time

TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x0002 | 0x1000
FRAME_BYTES = 9100
MTU = 9000

CLONE_NEWNET = 0x40000000

Frame = collections.namedtuple("Frame", "due order node bytes")


class Node:
    """A namespace with eth0, 10.66.0.NUMBER, whose other end is the file descriptor `cable`."""

    def __init__(self, number):
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", f"hostname n{number} && ip link set lo up && echo up && exec sleep 3600"],
            stdout=subprocess.PIPE,
        )
        self.holder.stdout.readline()
        self.number = number
        self.address = f"10.66.0.{number}"
        self.cable = -1
        try:
            self.cable = self.open_tap()
            self.run("ip", "link", "set", "eth0", "address", f"02:00:00:00:00:{number:02x}", "mtu", str(MTU))
            self.run("ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
            self.run("ip", "link", "set", "eth0", "up")
        except (OSError, subprocess.SubprocessError):
            self.destroy()
            raise
        # what the cable does to frames that go out of this node and into it
        self.cut_out = self.cut_in = False
        self.loss_percent = 0
        self.delay_seconds = 0.0

    def inside(self):
        return ["nsenter", "--target", str(self.holder.pid), "--net", "--uts", "--"]

    def run(self, *command):
        subprocess.run(self.inside() + list(command), check=True)

    def open_tap(self):
        """Make the interface inside the namespace; the descriptor then works outside of it."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/proc/{self.holder.pid}/ns/net", os.O_RDONLY)
        try:
            setns(there)
            cable = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(cable, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP_NO_PI))
        finally:
            setns(home)
            os.close(home)
            os.close(there)
        return cable

    def destroy(self):
        if self.cable >= 0:
            os.close(self.cable)
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


def setns(descriptor):
    """Move this thread into a network namespace."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """Nodes 1 to COUNT, and the thread that passes their frames on."""

    def __init__(self, count, seed):
        self.nodes = [Node(number) for number in range(1, count + 1)]
        self.draw = random.Random(seed)
        self.over = False
        self.late = []  # frames that wait for their time
        self.order = 0
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def helpers(self):
        return {node.holder.pid for node in self.nodes}

    def hit(self, fault):
        """Do to a node's cable what a fault says."""
        node = self.nodes[int(fault.target.removeprefix("node")) - 1]
        if fault.kind() == "cut":
            node.cut_in = node.cut_out = True
        elif fault.kind() == "oneway":
            node.cut_out = True
        elif fault.kind() == "loss":
            node.loss_percent = fault.number()
        else:
            node.delay_seconds = fault.number() / 1000

    # ---- the thread ----

    def carry(self):
        poll = select.poll()
        for node in self.nodes:
            poll.register(node.cable, select.POLLIN)
        by_cable = {node.cable: node for node in self.nodes}
        while not self.over:
            wait = 50 if not self.late else max(0, (self.late[0].due - time.monotonic()) * 1000)
            for cable, _ in poll.poll(min(wait, 50)):
                self.take(by_cable[cable])
            while self.late and self.late[0].due <= time.monotonic():
                self.deliver(heapq.heappop(self.late))

    def take(self, sender):
        """Pass on what a node sends, up to some frames."""
        for _ in range(64):
            try:
                frame = os.read(sender.cable, FRAME_BYTES)
            except OSError:
                return
            to = self.nodes if frame[0] & 1 else [node for node in self.nodes if node.number == frame[5]]
            for node in to:
                if node is not sender:
                    self.send(sender, node, frame)

    def send(self, sender, receiver, frame):
        if sender.cut_out or receiver.cut_in:
            return
        loss = max(sender.loss_percent, receiver.loss_percent)
        if loss and self.draw.randrange(100) < loss:
            return
        delay = max(sender.delay_seconds, receiver.delay_seconds)
        self.order += 1
        entry = Frame(time.monotonic() + delay, self.order, receiver, frame)
        if delay:
            heapq.heappush(self.late, entry)
        else:
            self.deliver(entry)

    def deliver(self, entry):
        try:
            os.write(entry.node.cable, entry.bytes)
        except OSError:
            pass  # a full queue drops frames, as a switch does

    def destroy(self):
        self.over = True
        self.thread.join()
        for node in self.nodes:
            node.destroy()


def why_not():
    """Why there can be no such network here; "" if it can."""
    try:
        network = Network(1, 0)
    except (OSError, subprocess.SubprocessError) as error:
        return f"nodes on a network cannot be made here: {error}"
    network.destroy()
    return ""
