package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/enginetest/private"
	"github.com/seed-64a260eb/cofferdam/internal/shellquote"
)

// sshdConfig lets nobody in but root with our key. MaxStartups and MaxSessions are the
// defaults, which a machine has whose owner did not think of them. HOME keeps the shell
// from what root's own startup files do.
const sshdConfig = `Port %[2]s
ListenAddress 127.0.0.1
HostKey %[1]s/host
AuthorizedKeysFile %[1]s/key.pub
PidFile none
AuthenticationMethods publickey
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
AllowStreamLocalForwarding yes
MaxStartups 10:30:100
MaxSessions 10
SetEnv PATH="%[3]s" HOME=%[1]s
`

const sshConfig = `IdentityFile %[1]s/key
IdentitiesOnly yes
UserKnownHostsFile %[1]s/known_hosts
GlobalKnownHostsFile none
StrictHostKeyChecking yes
BatchMode yes
LogLevel ERROR
`

// configureSSH sets up an sshd beside the daemon, and a program ssh that knows it.
func (e *Engine) configureSSH(ctx context.Context, setup *private.Setup) error {
	programs := map[string]string{"ssh": "", "ssh-keygen": "", "sshd": ""}
	for name := range programs {
		path, err := exec.LookPath(name)
		if err != nil && name == "sshd" {
			// An ordinary PATH has no programs for root.
			path, err = exec.LookPath("/usr/sbin/sshd")
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		programs[name] = path
	}
	dir := e.path("ssh")
	if err := os.MkdirAll(filepath.Join(dir, ".ssh"), 0o700); err != nil {
		return err
	}
	for _, key := range []string{"host", "key"} {
		said, err := exec.CommandContext(ctx, programs["ssh-keygen"], "-q", "-t", "ed25519", "-N", "", "-C", "", "-f",
			filepath.Join(dir, key)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ssh-keygen: %w: %s", err, said)
		}
	}
	host, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		return err
	}
	name, port, _ := strings.Cut(e.Link.Address(), ":")
	files := map[string]string{
		"sshd_config": fmt.Sprintf(sshdConfig, dir, sshPort, os.Getenv("PATH")),
		"ssh_config":  fmt.Sprintf(sshConfig, dir),
		"known_hosts": fmt.Sprintf("[%s]:%s %s", name, port, host),
		// Where podman looks.
		".ssh/known_hosts": fmt.Sprintf("[%s]:%s %s", name, port, host),
		// It reads the configuration of the user whom the system knows, whatever HOME is.
		"ssh": "#!/bin/sh\nexec " + shellquote.Quote(programs["ssh"]) + " -F " + shellquote.Quote(filepath.Join(dir, "ssh_config")) + " \"$@\"\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			return err
		}
	}
	e.Chosen = append(e.Chosen, "PATH="+dir+":"+os.Getenv("PATH"))
	if setup.Podman {
		// Its client has no use of ssh, and would write into the user's own list.
		e.Chosen = append(e.Chosen, "HOME="+dir)
	}
	setup.Beside += "mkdir -p /run/sshd\n" + shellquote.Quote(programs["sshd"]) + " -f " + shellquote.Quote(filepath.Join(dir, "sshd_config")) + "\n"
	return nil
}
