"""Tries to leave set-uid files in a directory, and prints how it went."""
import ctypes, errno, os, shutil, stat, subprocess, sys, tarfile, io

libc = ctypes.CDLL(None, use_errno=True)
os.chdir(sys.argv[1])
os.umask(0)
SUID = 0o4755
made = 0


def name():
    global made
    made += 1
    return "f%d" % made


def plain():
    n = name()
    open(n, "w").close()
    return n


def syscall(*args):
    ctypes.set_errno(0)
    if libc.syscall(*args) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def run(*argv):
    p = subprocess.run(argv, stderr=subprocess.PIPE)
    if p.returncode:
        raise PermissionError(errno.EPERM, p.stderr.decode())


def fchmod():
    with open(plain()) as f:
        os.fchmod(f.fileno(), SUID)


def tmpfile():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, SUID)
    os.link("/proc/self/fd/%d" % fd, name(), follow_symlinks=True)


def socket_mode():
    import socket
    s = socket.socket(socket.AF_UNIX)
    os.fchmod(s.fileno(), SUID)
    s.bind(name())


def tar():
    n, inner = name(), name()
    with tarfile.open(n, "w") as t:
        i = tarfile.TarInfo(inner)
        i.mode = SUID
        t.addfile(i)
    run("tar", "-xpf", n)


ways = {
    "chmod": lambda: libc_chmod(plain()),
    "fchmod": fchmod,
    "fchmodat": lambda: os.chmod(plain(), SUID, dir_fd=os.open(".", os.O_RDONLY)),
    "fchmodat2": lambda: syscall(452, -100, plain().encode(), SUID, 0),
    "open": lambda: os.open(name(), os.O_CREAT | os.O_WRONLY, SUID),
    "openat": lambda: os.open(name(), os.O_CREAT | os.O_WRONLY, SUID, dir_fd=os.open(".", os.O_RDONLY)),
    "open a file that is there": lambda: os.open(plain(), os.O_CREAT | os.O_WRONLY, SUID),
    "creat": lambda: libc_creat(name()),
    "tmpfile": tmpfile,
    "mknod": lambda: os.mknod(name(), stat.S_IFREG | SUID),
    "socket": socket_mode,
    "chmod of sh": lambda: run("chmod", "u+s", plain()),
    "tar": tar,
}


def libc_chmod(n):
    if libc.chmod(n.encode(), SUID):
        raise OSError(ctypes.get_errno(), "chmod")


def libc_creat(n):
    fd = libc.creat(n.encode(), SUID)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "creat")


for what, f in ways.items():
    try:
        f()
        print(what + ": done")
    except OSError as e:
        print(what + ": " + {errno.EPERM: "refused", errno.ENOSYS: "missing"}.get(e.errno, str(e)))

# What has the same shape and must go on to work.
os.open(plain(), os.O_RDONLY, SUID)
os.close(os.open(name(), os.O_CREAT | os.O_WRONLY, 0o2755))
os.mkdir(name(), 0o7777)
d = name()
os.mkdir(d)
os.chmod(d, 0o3777)
f = plain()
os.chmod(f, 0o755)
shutil.copy2(f, name())
os.mkfifo(name(), 0o600)
print("ordinary: done")
