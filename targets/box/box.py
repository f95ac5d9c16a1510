"""An emulated machine: one core, 128 MiB, a disk, and a clock that starts where it is told. Software emulation only,
so that it is the same everywhere. Scripts go in over a serial line; its power can be cut."""

import base64
import os
import re
import select
import subprocess
import time

MEMORY_MIB = 128
DISK_MIB = 32
BOOT_S = 180


class Box:
    def __init__(self, folder, kernel):
        self.folder, self.kernel = folder, kernel
        self.disk = f"{folder}/disk.img"
        self.process, self.orders, self.got = None, 0, b""
        with open(self.disk, "wb") as file:
            file.truncate(DISK_MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self.disk], check=True)

    def start(self, date):
        """Boots with the hardware clock at this date (UTC); the seconds it took until it obeyed."""
        began = time.monotonic()
        command = ["qemu-system-x86_64", "-M", "pc", "-accel", "tcg", "-cpu", "qemu64,+rdrand", "-smp", "1",
                   "-m", str(MEMORY_MIB), "-nodefaults", "-no-user-config", "-display", "none", "-rtc", f"base={date}",
                   "-kernel", self.kernel, "-initrd", f"{self.folder}/initramfs",
                   "-append", "console=ttyS0 quiet panic=-1",
                   "-drive", f"if=none,id=disk,format=raw,file={self.disk}", "-device", "virtio-blk-pci,drive=disk",
                   "-serial", f"file:{self.folder}/console.log", "-serial", "stdio"]
        with open(f"{self.folder}/qemu.log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.got = b""
        self._answer(0, BOOT_S)
        return time.monotonic() - began

    def sh(self, script, timeout_s=90):
        """Runs a shell script in the machine; (exit code, output)."""
        self.orders += 1
        line = f"{self.orders} {base64.b64encode(script.encode()).decode()}\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        return self._answer(self.orders, timeout_s)

    def cut(self):
        """Cuts the power: the machine is gone between two instructions, and its memory with it."""
        if self.process and self.process.poll() is None:
            self.process.kill()
        if self.process:
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
        self.process = None

    def _answer(self, order, timeout_s):
        end = time.monotonic() + timeout_s
        last = re.compile(rb"(?:^|\n)@@%d (\d+)\n" % order)
        while not (found := last.search(self.got)):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))
            got = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not got:
                why = "the machine is off" if ready else f"no answer within {timeout_s} s"
                raise TimeoutError(f"{why}; {self.folder}/console.log and qemu.log say more")
            self.got += got
        output, self.got = self.got[:found.start()], self.got[found.end():]
        return int(found[1]), output.decode(errors="replace").strip("\n")
