// Package programs lists what ordinary programs do, to be tried under a filter of system
// calls.
package programs

import _ "embed"

// A Program is a script of a POSIX shell that succeeds where its program works. It runs
// in an empty directory that can be written to.
type Program struct {
	Name   string
	Needs  []string // programs, apart from those of the shell
	Script string
	// Modules are those of Python that the script imports. A small Python may lack some.
	Modules string
	// Slow programs are left to the program of this package.
	Slow bool
}

//go:embed ordinary.py
var ordinaryPython string

// All are the programs.
var All = []Program{
	{Name: "python", Needs: []string{"python3"}, Modules: "asyncio, multiprocessing, sqlite3, ssl, venv, zipfile",
		Script: "cat >ordinary.py <<'END'\n" + ordinaryPython + "END\npython3 ordinary.py"},
	{Name: "tools", Needs: []string{"tar", "find", "xargs", "sort", "install", "touch"}, Script: `
		mkdir -p a/b && echo x >a/b/c && chmod 751 a/b/c && mkdir -m 2775 a/g && cp -pr a z && tar -cf a.tar a && mkdir out && tar -xpf a.tar -C out &&
		[ -x out/a/b/c ] && [ -g z/g ] && install -m 755 a/b/c d && find . -type f | sort | xargs cat >/dev/null && touch -d 2020-01-01 d && ln -s d e`},
	{Name: "nice", Needs: []string{"nice"}, Script: `[ "$(nice -n 5 echo ran 2>/dev/null)" = ran ]`},
	{Name: "gcc", Needs: []string{"gcc", "make"}, Script: `
		printf '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n' >hello.c && cp hello.c more.c &&
		printf 'all: hello more\n%%: %%.c\n\tgcc -O1 -o $@ $<\n' >Makefile && make -j2 >/dev/null && [ "$(./hello)" = hello ]`},
	// The check for leaks at the end traces the program.
	{Name: "gcc -fsanitize=address", Needs: []string{"gcc"}, Slow: true, Script: `
		printf '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n' >hello.c && gcc -fsanitize=address -o hello hello.c && [ "$(./hello)" = hello ]`},
	{Name: "git", Needs: []string{"git"}, Script: `
		export HOME=$PWD && git init -q a && cd a && git config user.email a@b && git config user.name c && echo x >f && git add f && git commit -qm one &&
		echo y >f && git commit -qam two && git gc -q && cd .. && git clone -q a b && [ "$(cat b/f)" = y ]`},
	{Name: "node", Needs: []string{"node"}, Slow: true, Script: `cat >a.js <<'END'
const fs = require("fs"), cp = require("child_process"), http = require("http"), crypto = require("crypto");
const { Worker } = require("worker_threads");
const told = (e) => { if (e) throw e; };
(async () => {
	await fs.promises.writeFile("a", "x".repeat(1 << 20));
	await fs.promises.copyFile("a", "b");
	fs.watch(".").close();
	const sum = crypto.createHash("sha256").update(await fs.promises.readFile("b")).digest("hex");
	if (cp.execFileSync("sha256sum", ["a"]).toString().split(" ")[0] !== sum) throw new Error("sum");
	await new Promise((ok) => new Worker("require('worker_threads').parentPort.postMessage(1)", { eval: true }).on("message", ok).on("error", told));
	const server = http.createServer((_, r) => r.end("hello")).listen(0, "127.0.0.1");
	await new Promise((ok) => server.on("listening", ok));
	const body = await new Promise((ok) => http.get({ host: "127.0.0.1", port: server.address().port }, (r) => { let s = ""; r.on("data", (d) => (s += d)).on("end", () => ok(s)); }));
	if (body !== "hello") throw new Error(body);
	server.close();
})().catch((e) => { console.error(e); process.exit(1); });
END
		node a.js`},
	{Name: "go", Needs: []string{"go"}, Slow: true, Script: `
		export HOME=$PWD GOCACHE=$PWD/cache GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local && printf 'package main\n\nfunc main() { println("hello") }\n' >a.go &&
		go mod init a 2>/dev/null && go build -p 2 -o a . && ./a`},
	{Name: "pip", Needs: []string{"python3", "pip3"}, Slow: true, Script: `
		export HOME=$PWD && mkdir -p p/hello && echo 'WORD = "hello"' >p/hello/__init__.py &&
		printf 'from setuptools import setup\nsetup(name="hello", version="1", packages=["hello"])\n' >p/setup.py &&
		pip3 install -q --no-index --no-build-isolation --no-deps --disable-pip-version-check --break-system-packages --target=lib ./p &&
		[ "$(PYTHONPATH=lib python3 -c 'import hello; print(hello.WORD)')" = hello ]`},
	{Name: "numpy", Needs: []string{"python3", "numpy"}, Slow: true, Script: `
		for d in /usr/lib/*/openblas-pthread /usr/lib/*/blas /usr/lib/*/lapack; do [ ! -d "$d" ] || LD_LIBRARY_PATH=${LD_LIBRARY_PATH-}:$d; done
		export LD_LIBRARY_PATH && python3 -c 'import numpy as np
a = np.random.default_rng(1).random((400, 400))
assert np.allclose(np.linalg.inv(a) @ a, np.eye(400))
np.save("a.npy", a)
assert (np.load("a.npy", mmap_mode="r") == a).all()'`},
	{Name: "strace", Needs: []string{"strace"}, Slow: true,
		Script: `strace -f -o trace sh -c 'true & wait' && grep -q execve trace`},
}

// Line returns the script with a new directory to work in, which is removed after it.
func (p Program) Line() string {
	return "(d=$(mktemp -d /tmp/XXXXXX) && cd \"$d\" || exit\n(" + p.Script + "\n)\nr=$?\nrm -rf \"$d\"\nexit $r)"
}
