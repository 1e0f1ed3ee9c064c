package fakekubectl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A state is the directory that a cluster's clients share.
type state string

func (s state) write(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	path := filepath.Join(string(s), name)
	temp := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

func (s state) read(name string, value any) error {
	text, err := os.ReadFile(filepath.Join(string(s), name))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}

// faults returns those of now. A state that is gone ends this program: its test has.
func (s state) faults() Faults {
	var f Faults
	if err := s.read("faults", &f); err != nil {
		os.Exit(1)
	}
	return f
}

type object = map[string]any

// A pod is the path of one.
func (s state) pod(name string) (object, error) {
	var pod object
	err := s.read(filepath.Join("pods", name), &pod)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse("Error from server (NotFound): pods %q not found", name)
	}
	return pod, err
}

const poll = 10 * time.Millisecond

// pose is the whole program. It returns its exit code.
func pose(words []string) int {
	s := state(os.Getenv(stateVar))
	calls, err := os.OpenFile(filepath.Join(string(s), "calls"),
		os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakekubectl: the environment has no state directory:", err)
		return 1
	}
	fmt.Fprintln(calls, strings.ReplaceAll(strings.Join(words, " "), "\n", " "))
	calls.Close()
	var flags = map[string]string{}
	var operands []string
	for i, w := range words {
		if w == "--" {
			operands = append(operands, words[i+1:]...)
			break
		}
		if name, value, _ := strings.Cut(w, "="); strings.HasPrefix(w, "--") {
			flags[name] = value
		} else {
			operands = append(operands, w)
		}
	}
	verb := operands[0]
	path, query, _ := strings.Cut(flags["--raw"], "?")
	if strings.Contains(query, "watch=1") {
		verb = "watch"
	}
	time.Sleep(s.faults().Delay)
	hangs := func(what string) bool { return what == verb || what == path }
	for slices.ContainsFunc(s.faults().Hang, hangs) {
		time.Sleep(poll)
	}
	failure := s.failure(verb)
	out := io.Writer(os.Stdout)
	if failure != nil {
		out = io.Discard
	}
	if failure == nil || failure.Done {
		err = s.do(verb, flags, operands[1:], out)
	}
	if failure != nil {
		err = errors.New(failure.Stderr)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// failure returns how a call of a verb fails, if it does.
func (s state) failure(verb string) *Failure {
	f, ok := s.faults().Fail[verb]
	if !ok {
		return nil
	}
	if f.Times > 0 {
		text, _ := os.ReadFile(filepath.Join(string(s), "failed-"+verb))
		n, _ := strconv.Atoi(string(text))
		if n >= f.Times {
			return nil
		}
		os.WriteFile(filepath.Join(string(s), "failed-"+verb), []byte(strconv.Itoa(n+1)), 0o600)
	}
	return &f
}

func (s state) do(
	verb string, flags map[string]string, operands []string, out io.Writer,
) error {
	path, query, _ := strings.Cut(flags["--raw"], "?")
	name := strings.TrimPrefix(path[strings.LastIndexByte(path, '/')+1:], "pods")
	print := func(value any) error { return json.NewEncoder(out).Encode(value) }
	switch {
	case verb == "config":
		return print(
			object{
				"current-context": "fake",
				"clusters": []any{
					object{"cluster": object{"server": "https://192.0.2.1"}},
				},
				"contexts": []any{object{"context": object{"namespace": "sandboxes"}}},
			},
		)
	case verb == "create" && strings.HasSuffix(path, "/selfsubjectreviews"):
		return print(object{"metadata": object{"creationTimestamp": s.now()}})
	case verb == "create":
		pod, err := s.create()
		if err != nil {
			return err
		}
		return print(pod)
	case verb == "watch":
		seconds, _ := strconv.Atoi(query[strings.LastIndexByte(query, '=')+1:])
		_, name, _ = strings.Cut(query, "metadata.name=")
		name, _, _ = strings.Cut(name, "&")
		return s.watch(name, time.Duration(seconds)*time.Second, print)
	case verb == "get" && strings.HasSuffix(path, "/networkpolicies"):
		if text := s.faults().NetworkPolicies; len(text) > 0 {
			return print(object{"items": text})
		}
		return print(
			object{
				"items": []any{object{"metadata": object{"name": NetworkPolicy}, "spec": object{
					"podSelector": object{
						"matchLabels": object{"cofferdam.network": "none"},
					},
					"policyTypes": []any{"Ingress", "Egress"},
				}}},
			},
		)
	case verb == "get" && path == "/version":
		return print(object{"gitVersion": "v1.33.0"})
	case verb == "get" && path == "/api/v1/nodes":
		if text := s.faults().Nodes; len(text) > 0 {
			return print(object{"items": text})
		}
		return refuse(`Error from server (Forbidden): nodes is forbidden: User "x" cannot list ` +
			`resource "nodes" in API group "" at the cluster scope`)
	case verb == "get" && name == "":
		items := []any{}
		paths, _ := filepath.Glob(filepath.Join(string(s), "pods", "*"))
		for _, path := range paths {
			if pod, err := s.pod(filepath.Base(path)); err == nil {
				items = append(items, pod)
			}
		}
		return print(object{"items": items})
	case verb == "get":
		pod, err := s.pod(name)
		if err != nil {
			return err
		}
		return print(s.seen(pod))
	case verb == "delete" && path != "":
		var options struct {
			GracePeriodSeconds int
			Preconditions      struct{ UID string }
		}
		if err := json.NewDecoder(os.Stdin).Decode(&options); err != nil {
			return err
		}
		return s.delete(name, options.Preconditions.UID, options.GracePeriodSeconds)
	case verb == "delete":
		for _, name := range operands[1:] {
			s.delete(name, "", 1) // it may not be there
		}
		return nil
	case verb == "attach":
		return s.attach(operands[0])
	case verb == "exec":
		return s.engine(append([]string{"exec", "-i"}, operands...)...)
	}
	return fmt.Errorf("error: unknown command %q for \"kubectl\"", verb)
}

func (s state) now() time.Time {
	if t := s.faults().Time; !t.IsZero() {
		return t
	}
	return time.Now().UTC().Truncate(time.Second)
}

// merge merges what into value, as [Faults] says.
func merge(value, what any) any {
	into, ok := value.(object)
	from, ok2 := what.(object)
	if !ok || !ok2 {
		return what
	}
	for key, v := range from {
		if v == nil {
			delete(into, key)
		} else {
			into[key] = merge(into[key], v)
		}
	}
	return into
}

func (s state) create() (object, error) {
	var pod object
	if err := json.NewDecoder(os.Stdin).Decode(&pod); err != nil {
		return nil, err
	}
	metadata := pod["metadata"].(object)
	name := metadata["name"].(string)
	metadata["uid"], metadata["creationTimestamp"], metadata["namespace"] = "uid-of-"+name, s.now(), "sandboxes"
	spec := pod["spec"].(object)
	spec["schedulerName"], spec["serviceAccountName"] = "default-scheduler", "default"
	pod["status"] = object{"phase": "Pending"}
	var change any
	if json.Unmarshal(s.faults().Admit, &change) == nil {
		pod = merge(pod, change).(object)
	}
	if _, err := s.pod(name); err == nil {
		return nil, refuse("Error from server (AlreadyExists): pods %q already exists", name)
	}
	if err := s.write(filepath.Join("pods", name), pod); err != nil {
		return nil, err
	}
	return pod, nil
}

// seen returns a pod as the cluster tells of it.
func (s state) seen(pod object) object {
	status := pod["status"].(object)
	if status["phase"] != "Pending" {
		return pod
	}
	pod["spec"].(object)["nodeName"] = "node-1"
	f := s.faults()
	var other object
	if json.Unmarshal(f.Status, &other) == nil {
		pod["status"] = other
	} else {
		pod["status"] = object{
			"phase": "Running",
			"containerStatuses": []any{object{"name": "main", "imageID": "sha256:fake",
				"state": object{"running": object{}}}},
		}
	}
	var change any
	if json.Unmarshal(f.AdmitLater, &change) == nil {
		pod = merge(pod, change).(object)
	}
	return pod
}

func (s state) watch(name string, within time.Duration, print func(any) error) error {
	var last []byte
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(poll) {
		if s.faults().SilentWatch {
			continue
		}
		pod, err := s.pod(name)
		if err != nil {
			if last != nil {
				return print(object{"type": "DELETED", "object": object{}})
			}
			continue
		}
		text, err := json.Marshal(s.seen(pod))
		if err != nil {
			return err
		}
		if !bytes.Equal(text, last) {
			last = text
			if err := print(
				object{"type": "MODIFIED", "object": json.RawMessage(text)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// attach runs the pod's container, as far as it matters to a session.
func (s state) attach(name string) error {
	pod, err := s.pod(name)
	if err != nil {
		return err
	}
	spec := pod["spec"].(object)
	one := spec["containers"].([]any)[0].(object)
	// The kernel counts its processes: it must be nobody else's.
	user := spec["securityContext"].(object)["runAsUser"]
	argv := []string{
		"run",
		"--rm",
		"-i",
		"--name",
		name,
		"--network",
		"none",
		"--read-only",
		"--env",
		"COFFERDAM_NODE=192.0.2.1",
		"--env",
		"HOME=/tmp",
		"--user",
		strconv.Itoa(int(user.(float64))),
		"--workdir",
		one["workingDir"].(string),
	}
	for _, m := range one["volumeMounts"].([]any) {
		if path := m.(object)["mountPath"].(string); path != "/dev/shm" {
			argv = append(argv, "--tmpfs", path+":rw,exec,mode=1777")
		}
	}
	argv = append(argv, one["image"].(string))
	for _, word := range one["command"].([]any) {
		argv = append(argv, strings.ReplaceAll(word.(string), "$$", "$"))
	}
	err = s.engine(argv...)
	exit := &exec.ExitError{}
	code := 0
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	defer s.lock()()
	// A pod that was deleted stays so.
	if pod, podErr := s.pod(name); podErr == nil && !s.faults().NodeDown {
		pod["status"] = object{
			"phase": "Failed",
			"containerStatuses": []any{object{"name": "main", "imageID": "sha256:fake",
				"state": object{"terminated": object{"exitCode": code, "reason": "Error"}}}},
		}
		s.write(filepath.Join("pods", name), pod)
	}
	return nil // whatever the container exited with
}

// engine runs the engine's client with the streams of this program.
func (s state) engine(words ...string) error {
	cmd := exec.Command(os.Getenv(engineVar), words...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// lock keeps others from changing pods until what it returns is called.
func (s state) lock() (unlock func()) {
	name := filepath.Join(string(s), "lock")
	for os.Mkdir(name, 0o700) != nil {
		time.Sleep(poll)
		s.faults() // ends with the test
	}
	return func() { os.Remove(name) }
}

func (s state) delete(name, uid string, grace int) error {
	pod, err := s.pod(name)
	if err != nil {
		return err
	}
	metadata := pod["metadata"].(object)
	if uid != "" && uid != metadata["uid"] {
		return refuse(
			"Error from server (Conflict): Operation cannot be fulfilled on pods %q: the UID in the precondition (%s) "+
				"does not match the UID in record (%v)",
			name,
			uid,
			metadata["uid"],
		)
	}
	if s.faults().NodeDown && grace > 0 {
		metadata["deletionTimestamp"] = s.now()
		return s.write(filepath.Join("pods", name), pod)
	}
	cmd := exec.Command(os.Getenv(engineVar), "kill", name)
	cmd.Run() // it may have ended
	defer s.lock()()
	return os.Remove(filepath.Join(string(s), "pods", name))
}

// A refusal has words of kubectl.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }
