package execpolicy_test

import (
	"context"
	"fmt"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/execpolicy"
	"github.com/seed-64a260eb/cofferdam/internal/presets"
)

// explain prints a preset's command line as it is on every machine.
func explain(p execpolicy.DockerPolicy) {
	p.Engine = &dockercli.Engine{Path: "true"} // no engine is asked
	line, err := p.Explain(context.Background(), execpolicy.Spec{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(presets.Stable(dockercli.Docker, line))
}

func ExampleNotebook() {
	explain(execpolicy.Notebook())
	// Output:
	// docker run --env=HTTP_PROXY= --env=http_proxy= --env=HTTPS_PROXY= --env=https_proxy= --env=FTP_PROXY= \
	//   --env=ftp_proxy= --env=ALL_PROXY= --env=all_proxy= --env=NO_PROXY= --env=no_proxy= --name=NAME --rm \
	//   --interactive --pull=never --network=none --hostname=cofferdam --dns=192.0.2.1 \
	//   --tmpfs=/.cofferdam:rw,nosuid,nodev,exec,size=37748736,mode=1777,uid=65534,gid=65534 \
	//   --tmpfs=/tmp:rw,nosuid,nodev,exec,size=536870912,mode=1777,uid=65534,gid=65534 \
	//   --tmpfs=/workspace:rw,nosuid,nodev,exec,size=67108864,mode=1777,uid=65534,gid=65534 --workdir=/workspace \
	//   --shm-size=16m --user=65534:65534 --entrypoint= --no-healthcheck --memory=2147483648 \
	//   --memory-swap=2147483648 --cpus=1 --pids-limit=512 --ulimit=core=0:0 --ulimit=nofile=1024:1024 \
	//   --cap-drop=ALL --security-opt=no-new-privileges --security-opt=seccomp=/dev/fd/3 --ipc=private \
	//   --log-driver=none -- python:3.12-alpine3.19 sh 3<seccomp.json
}

func ExampleBuildPolicies() {
	fetch, build := execpolicy.BuildPolicies()
	explain(fetch)
	explain(build)
	// Output:
	// docker run --env=HTTP_PROXY= --env=http_proxy= --env=HTTPS_PROXY= --env=https_proxy= --env=FTP_PROXY= \
	//   --env=ftp_proxy= --env=ALL_PROXY= --env=all_proxy= --env=NO_PROXY= --env=no_proxy= --name=NAME --rm \
	//   --interactive --pull=never --hostname=cofferdam --read-only \
	//   --tmpfs=/.cofferdam:rw,nosuid,nodev,exec,size=37748736,mode=1777,uid=65534,gid=65534 \
	//   --tmpfs=/tmp:rw,nosuid,nodev,exec,size=1073741824,mode=1777,uid=65534,gid=65534 \
	//   --tmpfs=/workspace:rw,nosuid,nodev,exec,size=67108864,mode=1777,uid=65534,gid=65534 --workdir=/workspace \
	//   --shm-size=16m --user=65534:65534 --entrypoint= --no-healthcheck --memory=2147483648 \
	//   --memory-swap=2147483648 --cpus=1 --pids-limit=512 --ulimit=core=0:0 --ulimit=nofile=1024:1024 \
	//   --cap-drop=ALL --security-opt=no-new-privileges --security-opt=seccomp=/dev/fd/3 --ipc=private \
	//   --log-driver=none -- python:3.12-alpine3.19 sh 3<seccomp.json
	// docker run --env=HTTP_PROXY= --env=http_proxy= --env=HTTPS_PROXY= --env=https_proxy= --env=FTP_PROXY= \
	//   --env=ftp_proxy= --env=ALL_PROXY= --env=all_proxy= --env=NO_PROXY= --env=no_proxy= --name=NAME --rm \
	//   --interactive --pull=never --network=none --hostname=cofferdam --dns=192.0.2.1 --read-only \
	//   --tmpfs=/.cofferdam:rw,nosuid,nodev,exec,size=37748736,mode=1777,uid=65534,gid=65534 \
	//   --tmpfs=/tmp:rw,nosuid,nodev,exec,size=1073741824,mode=1777,uid=65534,gid=65534 \
	//   --tmpfs=/workspace:rw,nosuid,nodev,exec,size=67108864,mode=1777,uid=65534,gid=65534 --workdir=/workspace \
	//   --shm-size=16m --user=65534:65534 --entrypoint= --no-healthcheck --memory=2147483648 \
	//   --memory-swap=2147483648 --cpus=1 --pids-limit=512 --ulimit=core=0:0 --ulimit=nofile=1024:1024 \
	//   --cap-drop=ALL --security-opt=no-new-privileges --security-opt=seccomp=/dev/fd/3 --ipc=private \
	//   --log-driver=none -- python:3.12-alpine3.19 sh 3<seccomp.json
}

func ExampleDockerPolicy_zero() {
	explain(execpolicy.DockerPolicy{})
	// Output:
	// docker run --env=HTTP_PROXY= --env=http_proxy= --env=HTTPS_PROXY= --env=https_proxy= --env=FTP_PROXY= \
	//   --env=ftp_proxy= --env=ALL_PROXY= --env=all_proxy= --env=NO_PROXY= --env=no_proxy= --name=NAME --rm \
	//   --interactive --pull=never --network=none --hostname=cofferdam --dns=192.0.2.1 --read-only \
	//   --tmpfs=/.cofferdam:rw,nosuid,nodev,exec,size=37748736,mode=1777,uid=65534,gid=65534 \
	//   --tmpfs=/tmp:rw,nosuid,nodev,exec,size=67108864,mode=1777,uid=65534,gid=65534 \
	//   --tmpfs=/workspace:rw,nosuid,nodev,exec,size=67108864,mode=1777,uid=65534,gid=65534 --workdir=/workspace \
	//   --shm-size=16m --user=65534:65534 --entrypoint= --no-healthcheck --memory=536870912 --memory-swap=536870912 \
	//   --cpus=1 --pids-limit=256 --ulimit=core=0:0 --ulimit=nofile=1024:1024 --cap-drop=ALL \
	//   --security-opt=no-new-privileges --security-opt=seccomp=/dev/fd/3 --ipc=private --log-driver=none -- \
	//   python:3.12-alpine3.19 sh 3<seccomp.json
}

func ExampleCompat_explain() {
	explain(execpolicy.Compat())
	// Output:
	// docker run -i --name=NAME --pull=never --tmpfs=/.cofferdam:rw,nosuid,nodev,exec,size=37748736,mode=1777 \
	//   --entrypoint= --no-healthcheck --log-driver=none --rm --network none -w / python:3.12-alpine3.19 /bin/bash
}
