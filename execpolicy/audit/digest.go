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

// drawn are the flags whose values are another with each container, and say nothing of
// how it is isolated.
var drawn = func() []string {
	flags := []string{"--name="}
	for _, label := range []string{"name", "host", "boot", "pidns", "pid", "timens", "pid-start", "created", "expires"} {
		flags = append(flags, "--label=cofferdam."+label+"=")
	}
	return flags
}()

// isDrawn reports whether a word is one of those flags, or mounts the FIFOs of one
// container.
func isDrawn(word string) bool {
	return strings.HasPrefix(word, "--mount=type=bind,source=") && strings.HasSuffix(word, ",target="+fifo.Target+",readonly") ||
		slices.ContainsFunc(drawn, func(flag string) bool { return strings.HasPrefix(word, flag) })
}

// drawnLabels are the keys of those labels.
var drawnLabels = func() []string {
	var keys []string
	for _, flag := range drawn {
		if key, ok := strings.CutPrefix(flag, "--label="); ok {
			keys = append(keys, strings.TrimSuffix(key, "="))
		}
	}
	return keys
}()

// withoutDrawn returns a command line's word without what is another with each pod, if
// the word is a pod.
func withoutDrawn(word string) string {
	var pod struct {
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	}
	if !strings.HasPrefix(word, "{") || json.Unmarshal([]byte(word), &pod) != nil {
		return word
	}
	delete(pod.Metadata, "name")
	if labels, ok := pod.Metadata["labels"].(map[string]any); ok {
		for _, key := range drawnLabels {
			delete(labels, key)
		}
	}
	if security, ok := pod.Spec["securityContext"].(map[string]any); ok {
		for _, field := range []string{"runAsUser", "runAsGroup"} {
			if n, ok := security[field].(float64); ok && n >= account.FirstDrawn {
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
			word = withoutDrawn(word)
		}
		operands = operands || word == "--"
		if operands || !isDrawn(word) {
			// No argument holds a NUL byte.
			h.Write([]byte(word + "\x00"))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
