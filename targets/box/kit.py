"""What the emulated machine is made of, out of Debian's packages: a kernel, the drivers of its disk, busybox.

Nothing is installed and nothing needs root. What is downloaded or made lies in one folder and is used again.
"""

import gzip
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
# The kernel for machines that are emulated: ext4 and the serial lines are built in, and it is a third of the full one.
KERNEL = "linux-image-cloud-amd64"
DRIVERS = ["virtio_pci", "virtio_blk"]
# Debian keeps file system tools where an ordinary user's PATH does not look.
os.environ["PATH"] += ":/usr/sbin:/sbin"


class Missing(Exception):
    """Something is missing; the text says what to do."""


def run(*command, **more):
    """Runs a command; its output, or Missing with what it said."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if done.returncode != 0:
        raise Missing(f"`{' '.join(command)}` failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def check_tools():
    """Raises Missing with one line for all that is not there."""
    tools = {"qemu-system-x86_64": "qemu-system-x86", "mkfs.ext4": "e2fsprogs", "debugfs": "e2fsprogs",
             "apt-get": "apt", "dpkg-deb": "dpkg", "cc": "gcc libc6-dev"}
    packages = [package for tool, package in tools.items() if not shutil.which(tool)]
    if packages:
        raise Missing(f"{', '.join(tool for tool in tools if not shutil.which(tool))} missing; on Debian: apt-get install -y --no-install-recommends {' '.join(sorted(set(packages)))}")


def package(name, folder):
    """The folder in which the newest version of a package is unpacked."""
    into = f"{folder}/{name}"
    if not os.path.isdir(into):
        os.makedirs(f"{folder}/download", exist_ok=True)
        try:
            run("apt-get", "download", "-q", name, cwd=f"{folder}/download")
        except Missing as error:
            raise Missing(f"{error}; `apt-get update` as root may help") from error
        found = [file for file in os.listdir(f"{folder}/download") if file.startswith(f"{name}_")]
        run("dpkg-deb", "-x", f"{folder}/download/{found[0]}", f"{into}.part")
        os.rename(f"{into}.part", into)
        shutil.rmtree(f"{folder}/download")
    return into


def kernel(folder):
    """The folder of the kernel that Debian's newest meta package names."""
    names = run("apt-cache", "depends", KERNEL).decode()
    found = re.search(r"Depends: (linux-image-[0-9]\S*)", names)
    if not found:
        raise Missing(f"apt knows no {KERNEL}; is this Debian for amd64, and was `apt-get update` done?")
    return package(found[1], folder)


def modules(root, wanted):
    """Files of kernel modules, each after those it depends on."""
    files = {}
    for folder, _, names in os.walk(f"{root}/lib/modules"):
        files.update({name[:-3]: f"{folder}/{name}" for name in names if name.endswith(".ko")})
    order = []

    def add(name):
        with open(files[name], "rb") as file:
            depends = re.search(rb"\0depends=([^\0]*)\0", file.read())[1].decode()
        for other in filter(None, depends.split(",")):
            add(other)
        if files[name] not in order:
            order.append(files[name])

    for name in wanted:
        add(name)
    return order


def archive(entries):
    """A cpio archive as the kernel unpacks it into its first file system: (path, mode, content)."""
    out = bytearray()
    for inode, (path, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        out += bytes(-len(out) % 4)
        out += content
        out += bytes(-len(out) % 4)
    return gzip.compress(bytes(out), 1)


def build(folder, binary):
    """Makes `initramfs` in the folder, with this static binary in it; the path of the kernel."""
    check_tools()
    os.makedirs(folder, exist_ok=True)
    root = kernel(folder)
    drivers = modules(root, DRIVERS)
    synced = f"{folder}/synced"
    run("cc", "-static", "-Os", "-o", synced, f"{HERE}/synced.c")
    entries = [(name, 0o40755, b"") for name in ("bin", "dev", "proc", "sys", "tmp", "etc", "lib", "state")]
    files = {"init": f"{HERE}/init", "agent": f"{HERE}/agent", "bin/qinglet": binary, "bin/synced": synced,
             "bin/busybox": f"{package('busybox-static', folder)}/bin/busybox"}
    files.update({f"lib/{at:02}-{os.path.basename(path)}": path for at, path in enumerate(drivers)})
    for name, path in files.items():
        with open(path, "rb") as file:
            entries.append((name, 0o100755, file.read()))
    entries += [("etc/passwd", 0o100644, b"root:x:0:0:root:/:/bin/sh\n"), ("etc/inittab", 0o100644, b"::respawn:/agent\n")]
    with open(f"{folder}/initramfs", "wb") as file:
        file.write(archive(entries))
    return next(f"{root}/boot/{name}" for name in os.listdir(f"{root}/boot") if name.startswith("vmlinuz"))
