package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-64a260eb/cofferdam/dockercli"
	"github.com/seed-64a260eb/cofferdam/internal/render"
)

// A StepName says what was tried.
type StepName string

// The steps, in their order. After one that fails the others are not tried, but a session
// that was started is always closed.
const (
	// StepAnswer is the client's version, and an answer of its engine.
	StepAnswer StepName = "answer"
	// StepInfo is what the engine says of itself and its parts.
	StepInfo StepName = "info"
	// StepImage is the search for an image.
	StepImage StepName = "image"
	// StepStart is the start of a session with the zero policy, or with EngineSeccomp on
	// podman's service, which takes no other filter.
	StepStart StepName = "start"
	// StepCommand is a command whose output has to arrive.
	StepCommand StepName = "command"
	// StepDeadline is a command that has to end at its deadline of a second.
	StepDeadline StepName = "deadline"
	// StepRemoval is the end of the session, after which its container has to be gone.
	StepRemoval StepName = "removal"
)

// A Step is one thing that was tried.
type Step struct {
	Name StepName `json:"name"`
	// Error is why the step failed. If empty, it did not.
	Error string `json:"error,omitempty"`
	// Took is how long the step took.
	Took time.Duration `json:"took_ns"`
}

func newStep(name StepName, start time.Time, err error) Step {
	s := Step{Name: name, Took: time.Since(start)}
	if err != nil {
		s.Error = err.Error()
	}
	return s
}

// A Problem is something that is missing.
type Problem struct {
	// Missing names what is missing.
	Missing string `json:"missing"`
	// Means is what that means for those who use the library.
	Means string `json:"means"`
	// Fix has the commands that fix it, one on a line, for a POSIX shell. A line that
	// begins with "#" is for a person.
	Fix string `json:"fix"`
	// Blocks says that the library can't use the engine until it is fixed.
	Blocks bool `json:"blocks"`
}

// An Engine is what is known of one engine, through one client.
type Engine struct {
	// Name is the engine's name and version, such as "podman 5.4.0", and the client's
	// flags, if it has any. Kind is the client's name alone. If the client gave no
	// answer, Name is the client with its flags, and Kind is empty.
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Client is the client's program with its flags, as a shell would have them.
	Client string `json:"client"`
	// Chosen says that a policy that names no engine uses this one.
	Chosen bool `json:"chosen"`
	// ClientVersion and ServerVersion are those of [dockercli.Engine], as are Rootless,
	// Remote and PodmanService.
	ClientVersion string `json:"client_version"`
	ServerVersion string `json:"server_version"`
	Rootless      bool   `json:"rootless"`
	Remote        bool   `json:"remote"`
	PodmanService bool   `json:"podman_service"`
	// Info is what the engine says it can do, or nil if it does not say.
	Info *dockercli.Info `json:"info"`
	// Versions are those of the engine's parts.
	Versions []dockercli.Component `json:"versions"`
	// Transport is what carries a session's streams, "attach" or "fifo", and TransportWhy
	// is why it is not the other.
	Transport    string `json:"transport"`
	TransportWhy string `json:"transport_why"`
	// Image is the image that was tried. If empty, none was.
	Image string `json:"image"`
	// Steps are the steps that were tried.
	Steps []Step `json:"steps"`
	// Problems are what is missing. Those that block come first.
	Problems []Problem `json:"problems"`
}

// Works reports whether a session started, ran, kept its deadline and was removed.
func (e *Engine) Works() bool {
	return len(e.Steps) > 0 && e.Steps[len(e.Steps)-1].Name == StepRemoval &&
		!slices.ContainsFunc(e.Steps, func(s Step) bool { return s.Error != "" })
}

// step adds a step, and reports whether it went well.
func (e *Engine) step(name StepName, start time.Time, err error) bool {
	e.Steps = append(e.Steps, newStep(name, start, err))
	return err == nil
}

// A Report is what is known of a machine's engines. It marshals to JSON, and back.
type Report struct {
	// Found names the engine of a policy that names none, and says what chose it, or why
	// docker was passed over. If empty, there is none, and FindError is why.
	Found     string `json:"found"`
	FindError string `json:"find_error,omitempty"`
	// Engines are those that were looked at.
	Engines []Engine `json:"engines"`
	// Problems are those of the machine, and not of one engine.
	Problems []Problem `json:"problems"`
}

// Works reports whether the engine of a policy that names none was looked at and works.
func (r *Report) Works() bool {
	return slices.ContainsFunc(r.Engines, func(e Engine) bool { return e.Chosen && e.Works() })
}

// String returns the report as text: which engine is used, a table of all, and of each
// what was tried and what is missing.
func (r *Report) String() string {
	var b strings.Builder
	if r.Found != "" {
		fmt.Fprintf(&b, "A policy that names no engine uses %s.\n", printable(r.Found))
	} else {
		// What was found of each engine is a line of its own.
		why := strings.ReplaceAll(r.FindError, "\n", "; ")
		fmt.Fprintf(&b, "A policy that names no engine fails: %s\n", printable(why))
	}
	problems(&b, r.Problems)
	if len(r.Engines) > 0 {
		b.WriteString("\n")
		r.table(&b)
	}
	for i := range r.Engines {
		r.Engines[i].text(&b)
	}
	return b.String()
}

func (r *Report) table(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tENGINE\tWORKS\tROOTLESS\tREMOTE\tCGROUPS\tFILTERS\tRUNTIMES\tSTREAMS\tIMAGE")
	for _, e := range r.Engines {
		chosen := ""
		if e.Chosen {
			chosen = "*"
		}
		cells := []string{chosen, e.Name, "-", "-", "-", "-", "-", "-", "-", "-"}
		cells[2] = yesNo(e.Works())
		if e.Kind != "" {
			cells[3], cells[4] = yesNo(e.Rootless), yesNo(e.Remote)
		}
		if e.Info != nil {
			cells[5], cells[6], cells[7] = Cgroups(e.Info), Filters(e.Info), runtimes(e.Info)
			cells[8], cells[9] = e.Transport, cmp.Or(e.Image, "-")
		}
		for i := range cells {
			cells[i] = printable(cells[i])
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	w.Flush()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// Cgroups says which version of cgroups an engine has, and what it limits by them, as in
// "2: memory swap cpu pids".
func Cgroups(info *dockercli.Info) string {
	return cmp.Or(info.CgroupVersion, "?") + ": " + listed(
		named{"memory", info.MemoryLimit}, named{"swap", info.SwapLimit}, named{"cpu", info.CPULimit}, named{"pids", info.PidsLimit})
}

// Filters names what an engine filters by, as in "seccomp AppArmor".
func Filters(info *dockercli.Info) string {
	return listed(named{"seccomp", info.Seccomp}, named{"AppArmor", info.AppArmor}, named{"SELinux", info.SELinux})
}

type named struct {
	name string
	is   bool
}

// listed returns the names of what is, or "none".
func listed(all ...named) string {
	var names []string
	for _, n := range all {
		if n.is {
			names = append(names, n.name)
		}
	}
	return cmp.Or(strings.Join(names, " "), "none")
}

// runtimes names the default one first. Docker knows its own under a second name.
func runtimes(info *dockercli.Info) string {
	names := []string{info.DefaultRuntime}
	for _, name := range info.Runtimes {
		if name != info.DefaultRuntime && name != "io.containerd."+info.DefaultRuntime+".v2" {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.TrimSpace(strings.Join(names, " ")), "-")
}

func (e *Engine) text(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s (%s)\n", printable(e.Name), printable(e.Client))
	if len(e.Versions) > 0 {
		versions := make([]string, len(e.Versions))
		for i, c := range e.Versions {
			versions[i] = c.Name + " " + c.Version
		}
		fmt.Fprintf(b, "  versions: %s\n", printable(strings.Join(versions, ", ")))
	}
	if e.Transport != "" {
		fmt.Fprintf(b, "  streams: %s, as %s\n", printable(e.Transport), printable(e.TransportWhy))
	}
	for _, s := range e.Steps {
		if s.Error != "" {
			fmt.Fprintf(b, "  %s: failed: %s\n", s.Name, printable(s.Error))
		} else {
			fmt.Fprintf(b, "  %s: ok (%v)\n", s.Name, s.Took.Round(time.Millisecond))
		}
	}
	problems(b, e.Problems)
}

func problems(b *strings.Builder, all []Problem) {
	for _, p := range all {
		title := "missing"
		if p.Blocks {
			title = "MISSING"
		}
		fmt.Fprintf(b, "  %s: %s\n      %s\n", title, printable(p.Missing), printable(p.Means))
		for line := range strings.Lines(p.Fix) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "#") {
				line = "$ " + line
			}
			fmt.Fprintf(b, "      %s\n", printable(line))
		}
	}
}

// maxText bounds a line of the report that quotes others.
const maxText = 1000

// printable is [render.Line] for text that others may have written.
func printable(s string) string { return render.Line(strings.Join(strings.Fields(s), " "), maxText) }
