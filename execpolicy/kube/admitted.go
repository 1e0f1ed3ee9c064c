package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
)

// filledIn are the fields that a cluster fills in of itself, which change nothing of what
// was asked for. What is not of one word alone is below the path before it.
var filledIn = []string{
	"status",
	"metadata.namespace",
	"metadata.uid",
	"metadata.resourceVersion",
	"metadata.generation",
	"metadata.creationTimestamp",
	"metadata.managedFields",
	"metadata.deletionTimestamp",
	"metadata.deletionGracePeriodSeconds",
	// Where it runs, copied from the node by Kubernetes 1.35.
	"metadata.labels.topology.kubernetes.io/zone",
	"metadata.labels.topology.kubernetes.io/region",
	// They say where it may run, and not how.
	"spec.tolerations",
	"spec.nodeName",
	"spec.schedulerName",
	"spec.priorityClassName", // one may be the cluster's default
	"spec.priority",
	"spec.preemptionPolicy",
	"spec.overhead",
	// No token of it is mounted.
	"spec.serviceAccountName",
	"spec.serviceAccount",
	// Those of the service account, for the image alone.
	"spec.imagePullSecrets",
	// What a resize would do, which nobody asks for.
	"spec.containers.0.resizePolicy",
}

// neverAllowed are fields that AllowAdmitted does not allow: a session kills every
// process that it sees, so it must see none but its own.
var neverAllowed = []string{"spec.hostPID", "spec.shareProcessNamespace"}

// checkAdmitted returns an error that names the fields in which a pod is not what was
// sent, or nil. AllowAdmitted and filledIn name fields in which it may differ. One that
// runs may have annotations of what made its network.
func (p *Policy) checkAdmitted(sent object, got []byte, runs bool) error {
	mayDiffer := filledIn
	if runs {
		mayDiffer = append(slices.Clip(filledIn), "metadata.annotations")
	}
	asked, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	var want, have any
	for text, to := range map[*[]byte]*any{&asked: &want, &got: &have} {
		if err := json.Unmarshal(*text, to); err != nil {
			return fmt.Errorf("%w: %w", kubectl.ErrAdmission, err)
		}
	}
	found := slices.DeleteFunc(differences("", want, have), func(d difference) bool {
		allowed := slices.ContainsFunc(p.AllowAdmitted, d.below)
		filled := d.added && slices.ContainsFunc(mayDiffer, d.below)
		return (allowed || filled) && !slices.Contains(neverAllowed, d.path)
	})
	if len(found) == 0 {
		return nil
	}
	advice := "; AllowAdmitted can allow it"
	var words []string
	for _, d := range found {
		words = append(words, d.String())
		if slices.Contains(neverAllowed, d.path) {
			advice = ""
		}
	}
	return fmt.Errorf("%w: %s%s", kubectl.ErrAdmission, strings.Join(words, ", "), advice)
}

// A difference is a field in which a pod is not what was sent.
type difference struct {
	path           string
	added, dropped bool
}

func (d difference) String() string {
	switch {
	case d.added:
		return d.path + " was added"
	case d.dropped:
		return d.path + " was dropped"
	}
	return d.path + " was changed"
}

// below reports whether the field is that of a path, or a part of it. A label and an
// annotation have no parts, but may have dots in their names.
func (d difference) below(path string) bool {
	if strings.HasPrefix(path, "metadata.labels.") || strings.HasPrefix(path, "metadata.annotations.") {
		return d.path == path
	}
	return d.path == path || strings.HasPrefix(d.path, path+".")
}

// differences returns where two JSON values differ, by their paths.
func differences(path string, want, have any) []difference {
	at := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	var found []difference
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return []difference{{path: path}}
		}
		all := maps.Clone(want)
		maps.Copy(all, have)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			w, asked := want[key]
			h, there := have[key]
			switch {
			case asked && there:
				found = append(found, differences(at(key), w, h)...)
			case asked:
				found = append(found, difference{path: at(key), dropped: true})
			default:
				found = append(found, difference{path: at(key), added: true})
			}
		}
	case []any:
		have, ok := have.([]any)
		if !ok {
			return []difference{{path: path}}
		}
		for i := range max(len(want), len(have)) {
			switch {
			case i >= len(want):
				found = append(found, difference{path: at(strconv.Itoa(i)), added: true})
			case i >= len(have):
				found = append(found, difference{path: at(strconv.Itoa(i)), dropped: true})
			default:
				found = append(found, differences(at(strconv.Itoa(i)), want[i], have[i])...)
			}
		}
	default:
		if want != have {
			found = append(found, difference{path: path})
		}
	}
	return found
}
