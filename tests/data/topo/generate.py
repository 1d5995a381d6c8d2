#!/usr/bin/env python3
"""generate.py: write the machines of these tests as hwloc 2 exports them: generate.py writes NAME.xml beside itself.

They are of no real machine, but each is of the shape of a class of them:
gpu8     two sockets of 64 cores in L3 groups of 8, two threads a core; 8 GPUs and 8 InfiniBand cards in pairs behind PCI switches
epyc4    one socket of 64 cores in four NUMA nodes and L3 groups of 8; 4 AMD GPUs, numbered against the order of cores, and 4 cards
power9   two sockets of 22 cores with 4 threads, L3 for pairs of cores, memory nodes of GPUs; 6 GPUs, a card with 2 ports a socket
cpu4     two sockets of 24 cores in two NUMA nodes each, two threads a core; one Omni-Path card, slow Ethernet, one link down
offline  two sockets of 6 cores, of which some cores and some threads are off line
vm1      one core, nothing known of caches
"""
import os
from xml.sax.saxutils import quoteattr


def bits(members):
    value = sum(1 << m for m in set(members))
    words = []
    while True:
        words.append("0x%08x" % (value & 0xFFFFFFFF))
        value >>= 32
        if not value:
            return ",".join(reversed(words))


class Machine:
    def __init__(self, host, infos):
        self.serial = 0
        self.lines = []
        self.depth = 0
        self.host = host
        self.infos = infos

    def open(self, type_, infos=(), children=True, **attributes):
        self.serial += 1
        attributes["gp_index"] = self.serial
        text = "".join(" %s=%s" % (k, quoteattr(str(v))) for k, v in attributes.items() if v is not None)
        closed = not children and not infos
        self.lines.append("%s<object type=%s%s%s>" % (" " * self.depth, quoteattr(type_), text, "/" if closed else ""))
        if closed:
            return
        self.depth += 1
        for name, value in infos:
            self.lines.append("%s<info name=%s value=%s/>" % (" " * self.depth, quoteattr(name), quoteattr(value)))
        if not children:
            self.close()

    def close(self):
        self.depth -= 1
        self.lines.append(" " * self.depth + "</object>")

    def sets(self, cpus, nodes):
        return {"cpuset": bits(cpus), "complete_cpuset": bits(cpus), "nodeset": bits(nodes), "complete_nodeset": bits(nodes)}

    def begin(self, cpus, nodes, allowed=None, complete=None):
        allowed = allowed if allowed is not None else cpus
        complete = complete if complete is not None else cpus
        self.open("Machine", [("HostName", self.host)] + self.infos, os_index=0, cpuset=bits(cpus), complete_cpuset=bits(complete),
                  allowed_cpuset=bits(allowed), nodeset=bits(nodes), complete_nodeset=bits(nodes), allowed_nodeset=bits(nodes))

    def node(self, number, cpus, gib, subtype=None):
        self.open("NUMANode", children=False, os_index=number, local_memory=gib << 30, subtype=subtype, **self.sets(cpus, [number]))

    def cache(self, cpus, nodes, mib):
        self.open("L3Cache", cache_size=mib << 20, depth=3, cache_linesize=64, cache_associativity=16, cache_type=0,
                  **self.sets(cpus, nodes))

    def core(self, number, cpus, nodes):
        self.open("Core", os_index=number, **self.sets(cpus, nodes))
        for cpu in cpus:
            self.open("PU", children=False, os_index=cpu, **self.sets([cpu], nodes))
        self.close()

    def host_bridge(self, domain, first, last):
        self.open("Bridge", bridge_type="0-1", depth=0, bridge_pci="%04x:[%02x-%02x]" % (domain, first, last))

    def bridge(self, depth, busid, first, last, device="8086:352a"):
        self.open("Bridge", bridge_type="1-1", depth=depth, bridge_pci="%s:[%02x-%02x]" % (busid[:4], first, last), pci_busid=busid,
                  pci_type="0604 [%s] [0000:0000] 00" % device, pci_link_speed="63.015385")

    def pci(self, busid, kind, device, name, speed, devices=()):
        self.open("PCIDev", [("PCIDevice", name)], children=True, pci_busid=busid, pci_type="%s [%s] [0000:0000] a1" % (kind, device),
                  pci_link_speed="%.6f" % speed)
        for kind, device, infos in devices:
            self.open("OSDev", infos, children=False, name=device, osdev_type=kind)
        self.close()

    def gpu(self, busid, speed=63.015385, device="10de:2330", name="GH100 [H100 SXM5 80GB]", kind="0302"):
        self.pci(busid, kind, device, name, speed)

    def infiniband(self, busid, number, speed=63.015385, state="4", netdev=None, device="15b3:1021"):
        self.pci(busid, "0207", device, "MT2910 Family [ConnectX-7]", speed,
                 [(2, netdev or "ib%d" % number, [("Port", "1")]), (3, "mlx5_%d" % number, [("Port1State", state)])])

    def ethernet(self, busid, names, device="8086:1521", speed=2.0):
        for i, name in enumerate(names):
            self.pci(busid[:-1] + str(i), "0200", device, "I350 Gigabit Network Connection", speed, [(2, name, [("Port", "1")])])

    def screen(self, busid, device="1a03:2000", name="ASPEED Graphics Family"):
        self.pci(busid, "0300", device, name, 0)

    def write(self, folder, name):
        self.close()
        with open(os.path.join(folder, name + ".xml"), "w", encoding="ascii") as file:
            file.write('<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">\n')
            file.write("\n".join(self.lines))
            file.write("\n</topology>\n")


def processor(vendor, family, model, name):
    return [("CPUVendor", vendor), ("CPUFamilyNumber", str(family)), ("CPUModelNumber", str(model)), ("CPUModel", name)]


AMD = processor("AuthenticAMD", 25, 17, "AMD EPYC 9554 64-Core Processor")
INTEL = processor("GenuineIntel", 6, 143, "Intel(R) Xeon(R) Platinum 8468")
LINUX = [("Backend", "Linux"), ("OSName", "Linux"), ("Architecture", "x86_64")]


def switch(machine, domain, root, nth):
    """A root port with a PCI switch: two GPUs and two cards, each below a port of its own."""
    bus = root + 1
    machine.bridge(1, "%04x:%02x:01.1" % (domain, root), bus, bus + 5)
    machine.bridge(2, "%04x:%02x:00.0" % (domain, bus), bus + 1, bus + 5, "1000:c030")
    for port in range(4):
        machine.bridge(3, "%04x:%02x:%02x.0" % (domain, bus + 1, port), bus + 2 + port, bus + 2 + port, "1000:c030")
        busid = "%04x:%02x:00.0" % (domain, bus + 2 + port)
        if port % 2 == 0:
            machine.gpu(busid)
        else:
            machine.infiniband(busid, nth * 2 + port // 2)
        machine.close()
    machine.close()
    machine.close()


def gpu8(folder):
    machine = Machine("gpu8", LINUX)
    machine.begin(range(256), [0, 1])
    for socket in range(2):
        def threads(cores):
            return [c for core in cores for c in (core, core + 128)]
        cores = range(socket * 64, socket * 64 + 64)
        machine.open("Package", AMD, os_index=socket, **machine.sets(threads(cores), [socket]))
        machine.node(socket, threads(cores), 768)
        for group in range(8):
            of_group = cores[group * 8:group * 8 + 8]
            machine.cache(threads(of_group), [socket], 32)
            for core in of_group:
                machine.core(core - socket * 64, threads([core]), [socket])
            machine.close()
        for half in range(2):
            root = 0x10 + socket * 0x80 + half * 0x20
            machine.host_bridge(0, root, root + 0xF)
            switch(machine, 0, root, socket * 2 + half)
            machine.close()
        if socket == 0:
            machine.host_bridge(0, 0, 7)
            machine.bridge(1, "0000:00:01.1", 1, 1)
            machine.ethernet("0000:01:00.0", ["eno1", "eno2"])
            machine.close()
            machine.bridge(1, "0000:00:02.1", 2, 3)
            machine.bridge(2, "0000:02:00.0", 3, 3, "1a03:1150")
            machine.screen("0000:03:00.0")
            machine.close()
            machine.close()
            machine.close()
        machine.close()
    machine.write(folder, "gpu8")


def epyc4(folder):
    machine = Machine("epyc4", LINUX)
    machine.begin(range(128), range(4))

    def threads(cores):
        return [c for core in cores for c in (core, core + 64)]
    machine.open("Package", AMD, os_index=0, **machine.sets(range(128), range(4)))
    for node in range(4):
        cores = range(node * 16, node * 16 + 16)
        machine.open("Group", **machine.sets(threads(cores), [node]), kind=1001, subkind=0)
        machine.node(node, threads(cores), 128)
        for group in range(2):
            of_group = cores[group * 8:group * 8 + 8]
            machine.cache(threads(of_group), [node], 32)
            for core in of_group:
                machine.core(core, threads([core]), [node])
            machine.close()
        # buses count down while cores count up
        root = 0xC0 - node * 0x40
        machine.host_bridge(0, root, root + 0x1F)
        machine.bridge(1, "0000:%02x:01.1" % root, root + 1, root + 3)
        machine.bridge(2, "0000:%02x:00.0" % (root + 1), root + 2, root + 3, "1002:14a0")
        machine.bridge(3, "0000:%02x:00.0" % (root + 2), root + 3, root + 3, "1002:14a1")
        machine.gpu("0000:%02x:00.0" % (root + 3), 31.507692, "1002:7408", "Aldebaran/MI200 [Instinct MI250X]", "0380")
        machine.close()
        machine.close()
        machine.close()
        machine.bridge(1, "0000:%02x:03.1" % root, root + 4, root + 4)
        machine.pci("0000:%02x:00.0" % (root + 4), "0200", "17db:0501", "Slingshot 200Gb NIC", 31.507692,
                    [(2, "hsn%d" % (3 - node), [("Port", "1")])])
        machine.close()
        machine.close()
        machine.close()
    machine.close()
    machine.write(folder, "epyc4")


def power9(folder):
    machine = Machine("power9", [("PlatformName", "PowerNV"), ("Backend", "Linux"), ("OSName", "Linux"), ("Architecture", "ppc64le")])
    machine.begin(range(176), [0, 8, 250, 251, 252, 253, 254, 255])
    for number in range(250, 256):
        machine.node(number, [], 16, "GPUMemory")
    for socket in range(2):
        node = socket * 8
        machine.open("Package", [("CPUModel", "POWER9, altivec supported")], os_index=node,
                     **machine.sets(range(socket * 88, socket * 88 + 88), [node]))
        machine.node(node, range(socket * 88, socket * 88 + 88), 256)
        for pair in range(11):
            first = socket * 88 + pair * 8
            machine.cache(range(first, first + 8), [node], 10)
            for core in range(2):
                cpus = range(first + core * 4, first + core * 4 + 4)
                machine.core(cpus[0], cpus, [node])
            machine.close()
        domain = 4 if socket == 0 else 0x35
        machine.host_bridge(domain, 0, 5)
        machine.bridge(1, "%04x:00:00.0" % domain, 1, 5, "1014:04c1")
        machine.bridge(2, "%04x:01:00.0" % domain, 2, 5, "10b5:8725")
        for i in range(3):
            machine.bridge(3, "%04x:02:%02x.0" % (domain, 2 + i), 3 + i, 3 + i, "10b5:8725")
            machine.gpu("%04x:%02x:00.0" % (domain, 3 + i), 15.753846, "10de:1db1", "GV100GL [Tesla V100 SXM2 16GB]")
            machine.close()
        machine.close()
        machine.close()
        machine.close()
        domain = 3 if socket == 0 else 0x33
        machine.host_bridge(domain, 0, 1)
        machine.bridge(1, "%04x:00:00.0" % domain, 1, 1, "1014:04c1")
        for port in range(2):
            machine.infiniband("%04x:01:00.%d" % (domain, port), socket * 2 + port, 15.753846, "4", None, "15b3:1019")
        machine.close()
        machine.close()
        machine.close()
    machine.write(folder, "power9")


def cpu4(folder):
    machine = Machine("cpu4", LINUX)
    machine.begin(range(96), range(4))

    def threads(cores):
        return [c for core in cores for c in (core, core + 48)]
    for socket in range(2):
        nodes = [socket * 2, socket * 2 + 1]
        cores = range(socket * 24, socket * 24 + 24)
        machine.open("Package", INTEL, os_index=socket, **machine.sets(threads(cores), nodes))
        machine.cache(threads(cores), nodes, 105)
        for half in range(2):
            of_node = cores[half * 12:half * 12 + 12]
            machine.open("Group", **machine.sets(threads(of_node), [nodes[half]]), kind=1001, subkind=0)
            machine.node(nodes[half], threads(of_node), 64)
            for core in of_node:
                machine.core(core - socket * 24, threads([core]), [nodes[half]])
            if socket == 0 and half == 0:
                machine.host_bridge(0, 0, 3)
                machine.bridge(1, "0000:00:1c.0", 1, 1)
                machine.ethernet("0000:01:00.0", ["eno1"])
                machine.close()
                machine.bridge(1, "0000:00:1d.0", 2, 2)
                machine.screen("0000:02:00.0", "102b:0536", "MGA G200eW3")
                machine.close()
                machine.close()
            if socket == 1 and half == 0:
                machine.host_bridge(0, 0x80, 0x83)
                machine.bridge(1, "0000:80:01.0", 0x81, 0x81)
                machine.pci("0000:81:00.0", "0208", "8086:24f0", "Omni-Path HFI Silicon 100 Series [discrete]", 15.753846,
                            [(2, "hsi0", [("Port", "1")]), (3, "hfi1_0", [("Port1State", "4")])])
                machine.close()
                machine.bridge(1, "0000:80:02.0", 0x82, 0x82)
                machine.infiniband("0000:82:00.0", 0, 15.753846, "1", "ib0")
                machine.close()
                machine.close()
            machine.close()
        machine.close()
        machine.close()
    machine.write(folder, "cpu4")


def offline(folder):
    # cores 0 to 5 and 6 to 11, second threads at +12; off line: core 2, core 9, and the second threads of cores 0, 4 and 7
    off = {2, 14, 9, 21, 12, 16, 19}
    on = [c for c in range(24) if c not in off]
    machine = Machine("offline", LINUX)
    machine.begin(on, [0, 1], complete=range(24))
    for socket in range(2):
        cores = [c for c in range(socket * 6, socket * 6 + 6)]
        cpus = [t for c in cores for t in (c, c + 12) if t in on]
        machine.open("Package", INTEL, os_index=socket, **machine.sets(cpus, [socket]))
        machine.node(socket, cpus, 32)
        machine.cache(cpus, [socket], 15)
        for core in cores:
            threads = [t for t in (core, core + 12) if t in on]
            if threads:
                machine.core(core - socket * 6, threads, [socket])
        machine.close()
        machine.close()
    machine.write(folder, "offline")


def vm1(folder):
    machine = Machine("vm1", LINUX)
    machine.begin([0], [0])
    machine.node(0, [0], 2)
    machine.open("Package", INTEL, os_index=0, **machine.sets([0], [0]))
    machine.core(0, [0], [0])
    machine.close()
    machine.host_bridge(0, 0, 0)
    machine.pci("0000:00:02.0", "0300", "1013:00b8", "GD 5446", 0)
    machine.pci("0000:00:03.0", "0200", "1af4:1000", "Virtio network device", 0, [(2, "eth0", [])])
    machine.close()
    machine.write(folder, "vm1")


if __name__ == "__main__":
    for write in gpu8, epyc4, power9, cpu4, offline, vm1:
        write(os.path.dirname(os.path.abspath(__file__)))
