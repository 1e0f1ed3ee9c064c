package main

import (
	"fmt"
	"strings"

	"github.com/seed-64a260eb/cofferdam/execpolicy/doctor"
)

const (
	readme = "README.md"
	begin  = "<!--tested-->\n"
	end    = "<!--/tested-->\n"
)

// table returns what engines are, as a table of Markdown.
func table(engines []doctor.Engine) string {
	var b strings.Builder
	b.WriteString("|engine|client|rootless|cgroups|filters|runtime|streams|\n|---|---|---|---|---|---|---|\n")
	for _, e := range engines {
		rootless := "no"
		if e.Rootless {
			rootless = "yes"
		}
		runtime := e.Info.DefaultRuntime
		for _, c := range e.Versions {
			if c.Name == runtime {
				// What follows is the distribution's.
				version, _, _ := strings.Cut(c.Version, "+")
				runtime += " " + version
			}
		}
		version, _, _ := strings.Cut(e.Name, "+")
		fmt.Fprintf(&b, "|%s|%s|%s|%s|%s|%s|%s|\n", version, e.ClientVersion, rootless,
			doctor.Cgroups(e.Info), doctor.Filters(e.Info), runtime, e.Transport)
	}
	return b.String()
}

// replace returns the text with the table in place of the marked section.
func replace(text, table string) (string, error) {
	before, rest, ok := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("%s: there is no section between %q and %q", readme, begin, end)
	}
	return before + begin + "\n" + table + "\n" + end + after, nil
}
