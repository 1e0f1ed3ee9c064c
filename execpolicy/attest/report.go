package attest

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

// A State says whether a protection is in force.
type State string

const (
	// Yes says that the protection is seen from inside to be in force, and that the
	// engine does not say otherwise.
	Yes State = "yes"
	// No says that it is seen not to be in force, from inside or from outside.
	No State = "no"
	// Unknown says that it can't be seen from inside. Where the protection is required,
	// Unknown counts as No.
	Unknown State = "unknown"
	// Admitted says that it can't be seen from inside by its nature, and that the API
	// server of a cluster has it in the pod that it has admitted. Where the protection is
	// required, Admitted counts as Yes.
	Admitted State = "admitted"
)

// A Finding is what was seen of one protection.
type Finding struct {
	Protection Protection `json:"protection"`
	// Asked is what the policy asks for, in words. If empty, the policy does not ask for
	// this protection.
	Asked   string `json:"asked"`
	InForce State  `json:"in_force"`
	// Inside is what the container's shell saw. Outside is what the engine says it has
	// applied or, of a pod, what the API server has admitted, which the node may not have
	// applied. Either is empty if nothing is known from that side.
	Inside  string `json:"inside"`
	Outside string `json:"outside"`
	// Note explains the finding. It is empty if there is nothing to explain.
	Note string `json:"note,omitempty"`
}

func (f *Finding) note(text string) {
	if f.Note != "" {
		f.Note += "; "
	}
	f.Note += text
}

// A Report is a record of what isolates one container. It marshals to JSON, and back.
type Report struct {
	Time time.Time `json:"time"`
	// Engine is "docker", "podman" or "kubernetes".
	Engine string `json:"engine"`
	// Versions are those of the client, the engine and its parts, as they report them.
	Versions []dockercli.Component `json:"versions"`
	// Image is the image's name in the policy, and ImageID the ID that it had.
	Image   string `json:"image"`
	ImageID string `json:"image_id"`
	// Container is the name of the container or the pod.
	Container string `json:"container"`
	// Transport is "attach" or "fifo", as [execpolicy.Session.Transport] has it. It is
	// empty if nothing was started.
	Transport string `json:"transport"`
	// Egress is what may be reached by [execpolicy.DockerPolicy.Egress], as the policy
	// says. It is empty if that is nothing.
	Egress []string `json:"egress,omitempty"`
	// Findings has all protections, in the order of [Protections] and, for a pod,
	// [PodProtections]. It is empty if nothing was started.
	Findings []Finding `json:"findings"`
	// Confinement is what AppArmor or SELinux do. It is zero if nothing was started.
	Confinement Confinement `json:"confinement"`
	// Missing are the protections that are required and not in force.
	Missing []Protection `json:"missing"`
	// Weaknesses are those of the engine.
	Weaknesses []Weakness `json:"weaknesses"`
}

// Finding returns what was seen of a protection. If the report does not have the
// protection, its InForce is Unknown.
func (r *Report) Finding(p Protection) Finding {
	for _, f := range r.Findings {
		if f.Protection == p {
			return f
		}
	}
	return Finding{Protection: p, InForce: Unknown}
}

// require sets what is missing, and returns the error that names it.
func (r *Report) require(required []Protection) error {
	var words []string
	for _, f := range r.Findings {
		isRequired := slices.Contains(required, f.Protection) || len(required) == 0 && f.Asked != ""
		if !isRequired || f.InForce == Yes || f.InForce == Admitted {
			continue
		}
		r.Missing = append(r.Missing, f.Protection)
		seen := []string{}
		for _, side := range [][2]string{{"inside", f.Inside}, {r.words().says, f.Outside}, {"note", f.Note}} {
			if side[1] != "" {
				seen = append(seen, side[0]+": "+side[1])
			}
		}
		words = append(words, fmt.Sprintf("%s (%s)", f.Protection, strings.Join(seen, "; ")))
	}
	for _, name := range required {
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Protection == name }) {
			r.Missing = append(r.Missing, name)
			words = append(words, fmt.Sprintf("%s (%s has none)", name, r.Engine))
		}
	}
	if len(words) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrNotInForce, strings.Join(words, ", "))
}

// A wording is how a report calls what is not the same for all engines.
type wording struct{ container, outside, says string }

func (r *Report) words() wording {
	if r.Engine == kubernetes {
		return wording{"pod", "ADMITTED", "the API server has admitted"}
	}
	return wording{"container", "OUTSIDE", "the engine says"}
}

// String returns the report as a table, with notes and weaknesses below it.
func (r *Report) String() string {
	var b strings.Builder
	versions := make([]string, len(r.Versions))
	for i, c := range r.Versions {
		versions[i] = c.Name + " " + c.Version
	}
	fmt.Fprintf(&b, "%s: %s\n", r.Engine, printable(strings.Join(versions, ", ")))
	fmt.Fprintf(&b, "image %s, %s\n", printable(r.Image), printable(r.ImageID))
	fmt.Fprintf(&b, "%s %s, %s\n\n", r.words().container, printable(r.Container), r.Time.Format(time.RFC3339))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROTECTION\tASKED\tIN FORCE\tINSIDE\t"+r.words().outside)
	var notes []string
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.Protection, cmp.Or(printable(f.Asked), "not asked for"), f.InForce, dash(f.Inside), dash(f.Outside))
		if f.Note != "" {
			notes = append(notes, fmt.Sprintf("%s: %s", f.Protection, f.Note))
		}
	}
	w.Flush()
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n%s:\n  %s\n", title, strings.Join(lines, "\n  "))
		}
	}
	missing := make([]string, len(r.Missing))
	for i, p := range r.Missing {
		missing[i] = string(p)
	}
	weak := make([]string, len(r.Weaknesses))
	for i, known := range r.Weaknesses {
		weak[i] = known.String()
	}
	section("required and not in force", missing)
	section("notes", notes)
	section("what may be reached by Egress", r.Egress)
	section("security modules", r.Confinement.lines())
	section("published escapes of these versions (a distribution may have fixed them without another number)", weak)
	return b.String()
}

// dash stands for what is empty.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return printable(s)
}

// maxEvidence bounds a column.
const maxEvidence = 160

// printable is [render.Line] for text that others may have written.
func printable(s string) string { return render.Line(s, maxEvidence) }
