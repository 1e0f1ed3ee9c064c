package main

import (
	"fmt"
	"strings"
)

// The section of the README that a scoreboard writes stands between these.
const (
	sectionBegin = "<!--scoreboard-->\n"
	sectionEnd   = "<!--/scoreboard-->\n"
)

// section returns the README with its section as the record has it.
func (r *record) section(readme string) (string, error) {
	before, rest, ok := strings.Cut(readme, sectionBegin)
	_, after, ended := strings.Cut(rest, sectionEnd)
	if !ok || !ended {
		return "", fmt.Errorf("the README has no section between %q and %q", sectionBegin, sectionEnd)
	}
	return before + sectionBegin + r.markdown() + sectionEnd + after, nil
}

// markdown returns the section. Its numbers are medians.
func (r *record) markdown() string {
	var b strings.Builder
	ours, theirs := r.times("Command", "cofferdam"), r.times("Command", "docker-exec")
	fmt.Fprintf(&b, "A warm command takes %v. By `docker exec` it takes %.0f times as long.\n\n",
		figures(ours.median()), theirs.over(ours).value)
	fmt.Fprintf(&b, "![Times of commands](%s)\n\n", plotFile)
	b.WriteString("|medians|warm (95th)|times ours|first (95th)|256MiB|host memory|left: deadline|left: SIGKILL|binary|\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range contenders {
		warm, first := r.times("Command", c.name), r.times("First", c.name)
		onEngine := "cofferdam"
		if c.engine == "podman" {
			onEngine = "cofferdam-podman"
		}
		fmt.Fprintf(&b, "|%s|%v (%v)|%.0f|%v (%v)|%v|%.0fMB|%.0f|%.0f|%s|\n", labels[c.name],
			figures(warm.median()), figures(warm.percentile(95)), warm.over(r.times("Command", onEngine)).value,
			figures(first.median()), figures(first.percentile(95)), figures(r.times("Output", c.name).median()),
			r.median("Output", c.name, "peak-B")/1e6,
			r.median("Deadline", c.name, "left"), r.median("Kill", c.name, "left"), r.added(c.name))
	}
	return b.String()
}

// added returns what a contender adds to a program.
func (r *record) added(name string) string {
	n := r.median("Size", name, "B")
	if n < 0 {
		return ""
	}
	return fmt.Sprintf("+%.1fMB", n/1e6)
}
