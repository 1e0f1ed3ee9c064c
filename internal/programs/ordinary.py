import asyncio, concurrent.futures, mmap, multiprocessing, os, signal, socket, sqlite3, ssl
import subprocess, sys, tempfile, threading, zipfile


def square(n):
    return n * n


async def talk():
    async def serve(r, w):
        w.write(await r.readline())
        await w.drain()
        w.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
    w.write(b"hello\n")
    assert await r.readline() == b"hello\n"
    w.close()
    server.close()
    p = await asyncio.create_subprocess_exec("echo", "hello", stdout=asyncio.subprocess.PIPE)
    assert (await p.communicate())[0] == b"hello\n"


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(square, range(4))) == [0, 1, 4, 9]
    assert subprocess.run(["sh", "-c", "echo $0", "hello"], capture_output=True, check=True).stdout == b"hello\n"
    for method in "fork", "spawn", "forkserver":
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(square, range(4)) == [0, 1, 4, 9]
    asyncio.run(talk())
    with sqlite3.connect("a.db") as db:
        db.execute("pragma journal_mode=wal")
        db.execute("create table t (n)")
        db.executemany("insert into t values (?)", [(n,) for n in range(100)])
        assert db.execute("select sum(n) from t").fetchone() == (4950,)
    ssl.create_default_context()
    with tempfile.TemporaryFile(dir=".") as f:
        f.truncate(1 << 16)
        mmap.mmap(f.fileno(), 0)[:5] = b"hello"
    with tempfile.NamedTemporaryFile(dir=".") as f:
        os.chmod(f.name, 0o640)
    with zipfile.ZipFile("a.zip", "w") as z:
        z.write("a.db")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    assert signal.sigtimedwait([signal.SIGALRM], 60)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    socket.socketpair()
    a, b = os.pipe()
    os.set_blocking(a, False)
    event = threading.Event()
    threading.Thread(target=event.set).start()
    assert event.wait(60)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], check=True)
    assert subprocess.run(["venv/bin/python", "-c", "print(1)"], capture_output=True, check=True).stdout == b"1\n"
