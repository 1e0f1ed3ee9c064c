package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/account"
	"github.com/seed-64a260eb/cofferdam/internal/fifo"
)

// volatileFlags are the flags whose values are another with each container, and say
// nothing of how it is isolated.
var volatileFlags = func() []string {
	flags := []string{"--name="}
	for _, label := range []string{"name", "host", "boot", "pidns", "pid", "timens", "pid-start", "created", "expires"} {
		flags = append(flags, "--label=cofferdam."+label+"=")
	}
	return flags
}()

// isVolatile reports whether a word is one of those flags, or mounts the FIFOs of one
// container.
func isVolatile(word string) bool {
	return mountsFIFOs(word) || slices.ContainsFunc(volatileFlags, func(flag string) bool { return strings.HasPrefix(word, flag) })
}

// mountsFIFOs reports whether a word mounts the FIFOs of a container. Where SELinux is
// enforced they get a label, for which docker has another flag.
func mountsFIFOs(word string) bool {
	if mount, ok := strings.CutPrefix(word, "--mount=type=bind,source="); ok {
		return strings.HasSuffix(strings.TrimSuffix(mount, ",relabel=private"), ",target="+fifo.Target+",readonly")
	}
	return strings.HasPrefix(word, "--volume=") && strings.HasSuffix(word, ":"+fifo.Target+":ro,Z")
}

// volatileLabels are the keys of those labels.
var volatileLabels = func() []string {
	var keys []string
	for _, flag := range volatileFlags {
		if key, ok := strings.CutPrefix(flag, "--label="); ok {
			keys = append(keys, strings.TrimSuffix(key, "="))
		}
	}
	return keys
}()

// withoutVolatile returns a command line's word without what is another with each pod, if
// the word is a pod.
func withoutVolatile(word string) string {
	var pod struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if !strings.HasPrefix(word, "{") || json.Unmarshal([]byte(word), &pod) != nil {
		return word
	}
	labels, _ := pod.Metadata["labels"].(map[string]any)
	if labels["cofferdam.name"] == nil {
		return word // it is a command's own
	}
	delete(pod.Metadata, "name")
	for _, key := range volatileLabels {
		delete(labels, key)
	}
	if security, ok := pod.Spec["securityContext"].(map[string]any); ok {
		for _, field := range []string{"runAsUser", "runAsGroup"} {
			if n, ok := security[field].(float64); ok && n >= account.FirstRandom {
				security[field] = "drawn"
			}
		}
	}
	text, err := json.Marshal(pod)
	if err != nil {
		return word
	}
	return string(text)
}

// digest returns the digest of a command line.
func digest(argv []string) string {
	h := sha256.New()
	operands := false
	for i, word := range argv {
		if i == len(argv)-1 {
			word = withoutVolatile(word)
		}
		operands = operands || word == "--"
		if operands || !isVolatile(word) {
			// No argument holds a NUL byte.
			h.Write([]byte(word + "\x00"))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
