package dockercli

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// PS returns the names of all containers, running or not, that have all of the labels. A
// label with an empty value matches any value. There must be at least one label, so that
// a caller can't list all containers by mistake.
func (e *Engine) PS(ctx context.Context, labels map[string]string) ([]string, error) {
	argv, err := e.psArgs(labels)
	if err != nil {
		return nil, err
	}
	out, err := e.do(ctx, call{verb: "ps", argv: argv})
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		// Further names are aliases that other containers gave it.
		name, _, _ := strings.Cut(strings.TrimSpace(line), ",")
		if name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

func (e *Engine) psArgs(labels map[string]string) ([]string, error) {
	var c checker
	argv := append(e.argv("ps", "--all", "--no-trunc", "--format={{.Names}}"), e.labelFilters(&c, labels)...)
	c.words(argv)
	return argv, c.err()
}

// labelFilters returns the flags that leave only what has all of the labels.
func (e *Engine) labelFilters(c *checker, labels map[string]string) (flags []string) {
	if len(labels) == 0 {
		c.refuse("labels: there must be at least one")
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		c.labelKey(key)
		if strings.TrimSpace(value) != value || strings.Contains(value, "\r\n") {
			c.refuse("label %s=%q: the engines can't look for white space at its ends, or for a carriage return at a line's end", key, value)
		}
		filter := "label=" + key
		if value != "" {
			filter += "=" + value
		}
		if e.Kind.dialect().filterIsCSV {
			filter = csvField(filter)
		}
		flags = append(flags, "--filter="+filter)
	}
	return flags
}
