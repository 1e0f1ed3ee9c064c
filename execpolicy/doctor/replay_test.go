package doctor_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/seed-64a260eb/cofferdam/internal/fakeengine"
)

const (
	// replayVar names a directory of recorded answers. The test binary, called as docker
	// or podman, then answers from the file of that name in it. Podman's client always
	// has the variables of this prefix.
	replayVar = "PODMAN_REPLAY"
	// recordVar is a PATH. The client of that name on it is then asked, and its answer is
	// put into the file.
	recordVar = "PODMAN_RECORD"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(replayVar); dir != "" && len(os.Args) > 1 {
		name := filepath.Base(os.Args[0])
		if name == "docker" || name == "podman" || name == "nerdctl" {
			os.Exit(answer(filepath.Join(dir, name+".txt"), name, os.Args[1:]))
		}
	}
	fakeengine.Main()
	os.Exit(m.Run())
}

// A recording has the answers of a client, each in a section that begins with a line of
// "== ", what was asked, and maybe how the client ended: its exit code, "hang" or
// "flood". What it says if it fails goes to its stderr.
type recording map[string]string

func readRecording(file string) (recording, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := recording{}
	for _, section := range strings.Split("\n"+string(text), "\n== ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		r[title] = strings.TrimSuffix(body, "\n") + "\n"
	}
	return r, nil
}

// find returns a section, and how the client ends.
func (r recording) find(asked string) (body, end string, ok bool) {
	for title, body := range r {
		if rest, ok := strings.CutPrefix(title, asked); ok && (rest == "" || rest[0] == ' ') {
			if end := strings.TrimSpace(rest); end == "" || end == "hang" || end == "flood" || strings.Trim(end, "0123456789") == "" {
				return body, end, true
			}
		}
	}
	return "", "", false
}

// asked says what words of a client ask for: its flags, and a word for what is asked by a
// template or else the verb.
func asked(words []string) string {
	var flags []string
	for len(words) > 1 && (words[0] == "--context" || words[0] == "--connection") {
		flags, words = append(flags, words[:2]...), words[2:]
	}
	all := strings.Join(words, " ")
	what := ""
	for _, w := range words {
		if strings.HasPrefix(w, "-") && w != "--version" {
			break
		}
		what = strings.TrimSpace(what + " " + w)
	}
	for _, template := range []struct{ has, is string }{
		{"component ", "components"}, {"cgroup ", "info"}, {"ServiceIsRemote", "probe"}, {"KernelVersion", "probe"},
	} {
		if strings.Contains(all, template.has) {
			what = template.is
			break
		}
	}
	return strings.Join(append(flags, what), " ")
}

// answer is the client.
func answer(file, name string, words []string) int {
	if path := os.Getenv(recordVar); path != "" {
		return record(file, name, path, words)
	}
	r, err := readRecording(file)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if name == "podman" && len(words) > 2 && words[0] == "--connection" {
		// Podman heeds these before the flag.
		_, host := os.LookupEnv("CONTAINER_HOST")
		if host || os.Getenv("CONTAINER_CONNECTION") != "" {
			words = words[2:]
		}
	}
	body, end, ok := r.find(asked(words))
	if !ok {
		fmt.Fprintf(os.Stderr, "%q is not recorded\n", asked(words))
		return 1
	}
	switch end {
	case "":
		fmt.Print(body)
		return 0
	case "hang":
		time.Sleep(time.Hour)
	case "flood":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat(body, 1000)); err != nil {
				return 1
			}
		}
	}
	fmt.Fprint(os.Stderr, body)
	code, _ := strconv.Atoi(end)
	return code
}

// record asks the real client, and keeps its answer.
func record(file, name, path string, words []string) int {
	os.Setenv("PATH", path)
	os.Unsetenv(recordVar)
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(name, words...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	code := cmd.ProcessState.ExitCode()
	title, body := asked(words), stdout.String()
	if code != 0 {
		title, body = fmt.Sprintf("%s %d", title, code), stderr.String()
	}
	if r, err := readRecording(file); err == nil {
		if _, _, ok := r.find(asked(words)); ok {
			title = ""
		}
	}
	if title != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = fmt.Fprintf(f, "== %s\n%s\n", title, strings.TrimSpace(anywhere(body)))
			f.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	os.Stdout.Write(stdout.Bytes())
	os.Stderr.Write(stderr.Bytes())
	return code
}

// anywhere returns an answer without what tells which machine it is from.
func anywhere(answer string) string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	if kernel := strings.TrimSpace(string(release)); kernel != "" {
		answer = strings.ReplaceAll(answer, kernel, "6.1.0")
	}
	return answer
}

// onPath makes a PATH with the clients that a directory has recordings of, and nothing
// else. It returns the directory of their programs.
func onPath(t *testing.T, dir string, names ...string) string {
	t.Helper()
	program, err := os.Executable()
	assert.NilError(t, err)
	dir, err = filepath.Abs(dir)
	assert.NilError(t, err)
	bin := t.TempDir()
	for _, name := range names {
		assert.NilError(t, os.Symlink(program, filepath.Join(bin, name)))
	}
	for _, name := range []string{"COFFERDAM_ENGINE", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINER_CONNECTION"} {
		t.Setenv(name, "") // which is put back
		os.Unsetenv(name)  // podman's client takes an empty one for an address
	}
	t.Setenv("GORACE", "atexit_sleep_ms=0") // or a client takes a second to end under -race
	t.Setenv(replayVar, dir)
	t.Setenv("PATH", bin)
	return bin
}
