"""Tries system calls, and prints of each how it ended: "refused", "missing" or "allowed"."""
import ctypes, errno, os, platform, signal

libc = ctypes.CDLL(None, use_errno=True)
nr = {
    "x86_64": {"keyctl": 250, "add_key": 248, "ioprio_set": 251, "setpriority": 141, "sched_setscheduler": 144,
               "sched_setparam": 142, "sched_setattr": 314, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
               "unshare": 272, "setns": 308, "clone": 56, "mount": 165, "chroot": 161, "pivot_root": 155,
               "process_vm_readv": 310, "kcmp": 312, "name_to_handle_at": 303, "personality": 135, "socket": 41},
    "aarch64": {"keyctl": 219, "add_key": 217, "ioprio_set": 30, "setpriority": 140, "sched_setscheduler": 119,
                "sched_setparam": 118, "sched_setattr": 274, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
                "unshare": 97, "setns": 268, "clone": 220, "mount": 40, "chroot": 51, "pivot_root": 41,
                "process_vm_readv": 270, "kcmp": 272, "name_to_handle_at": 264, "personality": 92, "socket": 198},
}[platform.machine()]
# These have one number everywhere.
nr |= {"io_uring_setup": 425, "open_tree": 428, "fsopen": 430, "clone3": 435, "openat2": 437, "unknown": 4000}

buf = ctypes.create_string_buffer(256)
me = os.getpid()
CLONE_NEWUSER = 0x10000000


def call(name, *args):
    ctypes.set_errno(0)
    r = libc.syscall(nr[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return r, ctypes.get_errno()


def tell(name, r, e):
    word = "allowed"
    if r == -1 and e in (errno.EPERM, errno.EAFNOSUPPORT):
        word = "refused"
    elif r == -1 and e == errno.ENOSYS:
        word = "missing"
    print(name, word, flush=True)


param = ctypes.create_string_buffer(256)
for name, args in [
    ("keyctl", (0, -3, 0)), ("add_key", (b"user", b"a", b"b", 1, -3)), ("ioprio_set", (1, 0, 3 << 13)),
    ("setpriority", (0, 1, 1)), ("sched_setscheduler", (1, 5, param)), ("sched_setparam", (0, param)),
    ("sched_setattr", (0, param, 0)), ("bpf", (0, buf, 0)), ("perf_event_open", (buf, 0, -1, -1, 0)),
    ("userfaultfd", (1,)), ("unshare", (CLONE_NEWUSER,)), ("setns", (0, 0)), ("mount", (b"a", b"/tmp", b"tmpfs", 0, 0)),
    ("chroot", (b"/",)), ("pivot_root", (b"/", b"/")), ("process_vm_readv", (me, buf, 0, buf, 0, 0)),
    ("kcmp", (me, me, 0, 0, 0)), ("name_to_handle_at", (-100, b"/", buf, buf, 0)), ("io_uring_setup", (1, buf)),
    ("open_tree", (-100, b"/", 0)), ("fsopen", (b"tmpfs", 0)), ("clone3", (0, 0)), ("openat2", (-100, b"/", buf, 24)),
    ("unknown", ()), ("personality", (0x0040000,)),
]:
    tell(name, *call(name, *args))

# The kernel refuses the type, whether it has the family or not, and does not look at the
# high half of either.
for name, family in [("unix", 1), ("inet", 2), ("inet6", 10), ("netlink", 16), ("xdp", 44), ("alg", 38), ("vsock", 40)]:
    tell("socket " + name, *call("socket", family, 1 << 20, 0))
for name, family in [("alg", 38), ("vsock", 40)]:
    for bit in 32, 33, 62, 63:
        tell("socket %s with bit %d" % (name, bit), *call("socket", family | 1 << bit, 1 << 20, 0))

r, e = call("clone", CLONE_NEWUSER | signal.SIGCHLD, 0, 0, 0, 0)
if r == 0:
    os._exit(0)
tell("clone", r, e)

# A processor of this kind takes calls by two further tables of numbers, of which a filter may
# know nothing.
if platform.machine() == "x86_64":
    import mmap
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\0\0\0\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    getpid = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    for name, f in [("32-bit call", getpid), ("x32 call", lambda: libc.syscall(ctypes.c_long(0x40000000 | 39)))]:
        pid = os.fork()
        if pid == 0:
            os._exit(f() != os.getpid())
        status = os.waitpid(pid, 0)[1]
        # A kernel may be without the table: the instruction is one of another kind then.
        how = {signal.SIGSYS: "killed", signal.SIGSEGV: "missing"}.get(os.WTERMSIG(status), "allowed")
        print(name, how)
