"""Programs that try to get out of the sandbox, to see what they must not, or to use more than they may. Each
prints GOT and what it got.
"""

from __future__ import annotations

GOLDEN, PORT, ABSTRACT = "@GOLDEN@", "@PORT@", "@ABSTRACT@"
"""Stand for the path of the golden workbook, a port the test listens on, and the name of an abstract socket
it listens on.
"""

HOSTILE: dict[str, str] = {
    "reads the golden file": f"print(open('{GOLDEN}').read())",
    "searches the machine for it": (
        """
import os, sys
for root, folders, names in os.walk("/"):
    if root in ("/proc", "/usr", sys.prefix, sys.base_prefix):
        folders.clear()
        continue
    for name in names:
        if "golden" in name or "answer" in name:
            print("GO" + "T found", os.path.join(root, name), open(os.path.join(root, name), errors="replace").read(4000))
"""
    ),
    "connects to a server of the host": (
        f"""
import socket
socket.create_connection(("127.0.0.1", {PORT}), timeout=2)
print("GO" + "T connected")
"""
    ),
    "connects to an abstract socket of the host": (
        f"""
import socket
s = socket.socket(socket.AF_UNIX); s.connect("\\0{ABSTRACT}"); print("GO" + "T connected")
"""
    ),
    "calls the internet": (
        """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", ("192.0.2.1", 53)); print("GO" + "T sent")
"""
    ),
    "forks without end": "import os\nwhile True:\n    os.fork()",
    "forks and hides in sessions of its own": (
        """
import os, time
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        time.sleep(0.01)
"""
    ),
    "starts threads without end": (
        """
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(60,)).start()
"""
    ),
    "allocates 4 GB": "x = bytearray(4 << 30)\nprint(len(x))",
    "allocates in many processes": (
        """
import os, time
for _ in range(12):
    if os.fork() == 0:
        x = bytearray(b"x" * (400 << 20)); time.sleep(60)
time.sleep(60)
"""
    ),
    "loops for ever": "while True:\n    pass",
    "sleeps for ever and takes no signal": (
        """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    time.sleep(1000)
"""
    ),
    "leaves a process behind": (
        """
import os, subprocess, sys
subprocess.Popen(["sleep", "5731"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    os.execvp("sleep", ["sleep", "5731"])
"""
    ),
    "writes where it should not": (
        f"""
import os
for path in ("/usr/bin/x", "/etc/passwd", "/x", "/dev/x", "/proc/sys/kernel/core_pattern", "/sys/x", "{GOLDEN}", "/root/x", "/home/x"):
    try:
        open(path, "w").write("mine"); print("GO" + "T wrote", path)
    except OSError:
        pass
"""
    ),
    "hands back a link to a file of the machine": (
        f"""
import os
os.symlink("/etc/ld.so.cache", "output.xlsx")
os.symlink("{GOLDEN}", "other.xlsx")
"""
    ),
    "hands back a pipe": "import os\nos.mkfifo('output.xlsx')",
    "hands back a device": "import os\nos.symlink('/dev/zero', 'output.xlsx')",
    "hands back a folder": "import os\nos.makedirs('output.xlsx/' + 'x/' * 500)",
    "kills whatever it can": (
        """
import os, signal
for number in (signal.SIGSTOP, signal.SIGKILL):
    for target in (1, os.getppid()):
        try:
            os.kill(target, number)
        except OSError:
            pass
try:
    os.kill(-1, signal.SIGKILL)
except OSError:
    pass
while True:
    pass
"""
    ),
    "dumps the environment": (
        """
import os, glob
print(dict(os.environ))
for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline"):
    try:
        print(path, open(path).read())
    except OSError:
        pass
"""
    ),
    "reads and writes the watcher": (
        """
import glob, os
for path in ["/proc/1/mem", "/proc/1/maps", *glob.glob("/proc/1/fd/*"), "/proc/1/root/etc/shadow"]:
    try:
        open(path, "r+b").write(b"forged"); print("GO" + "T wrote", path)
    except OSError:
        pass
"""
    ),
    "forges a report on every descriptor": (
        """
import os
for number in range(3, 300):
    try:
        os.write(number, b"\\0" * 8 + b"{}"); print("GO" + "T wrote", number)
    except OSError:
        pass
"""
    ),
    "makes a namespace of its own": (
        """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x10000000, 0x00020000, 0x40000000):
    if libc.unshare(flag) == 0:
        print("GO" + "T wrote a namespace", hex(flag))
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
    print("GO" + "T wrote a mount")
"""
    ),
    "becomes root": (
        """
import os
for step in (lambda: os.setuid(0), lambda: os.setgroups([0]), lambda: os.chroot("/tmp"), lambda: os.nice(-5)):
    try:
        step(); print("GO" + "T wrote myself more rights")
    except OSError:
        pass
"""
    ),
    "fills the disk": (
        """
import itertools
for folder in ("/tmp", ".", "/dev/shm"):
    written = 0
    try:
        for number in itertools.count():
            with open(f"{folder}/{number}", "wb") as file:
                for _ in range(16):
                    file.write(b"x" * (1 << 20)); written += 1
    except OSError:
        pass
    print(folder, written)
"""
    ),
    "writes one endless file": (
        "with open('x', 'wb') as file:\n    while True:\n        file.write(b'x' * (1 << 20))"
    ),
    "prints without end": "while True:\n    print('x' * 100000)",
}
