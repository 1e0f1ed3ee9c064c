package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/seed-64a260eb/cofferdam/internal/kubectl"
)

// A networkPolicy is a NetworkPolicy, as far as it matters whether it allows anything.
type networkPolicy struct {
	Metadata struct{ Name string }
	Spec     struct {
		PodSelector     selector
		PolicyTypes     []string
		Ingress, Egress []json.RawMessage
	}
}

// A selector says which pods are meant.
type selector struct {
	MatchLabels      map[string]string
	MatchExpressions []struct {
		Key, Operator string
		Values        []string
	}
}

// isKnown reports whether selects understands all of the selector.
func (s selector) isKnown() bool {
	for _, e := range s.MatchExpressions {
		if !slices.Contains([]string{"In", "NotIn", "Exists", "DoesNotExist"}, e.Operator) {
			return false
		}
	}
	return true
}

// selects reports whether pods with those labels are meant. What it does not understand
// of the selector it takes to mean all.
func (s selector) selects(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		value, ok := labels[e.Key]
		in := ok && slices.Contains(e.Values, value)
		if e.Operator == "In" && !in || e.Operator == "NotIn" && in ||
			e.Operator == "Exists" && !ok ||
			e.Operator == "DoesNotExist" && ok {
			return false
		}
	}
	return true
}

// networkPolicies returns those of the namespace.
func networkPolicies(ctx context.Context, k *kubectl.Client) ([]networkPolicy, error) {
	text, err := k.Get(ctx,
		"/apis/networking.k8s.io/v1/namespaces/"+k.Namespace+"/networkpolicies")
	if err != nil {
		return nil, fmt.Errorf("the NetworkPolicies of the namespace: %w", err)
	}
	var list struct{ Items []networkPolicy }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("the NetworkPolicies of the namespace: %w", err)
	}
	return list.Items, nil
}

// checkNetwork returns why the policies of a namespace do not keep the network from a pod
// with those labels, or nil. One of them has that name.
func checkNetwork(policies []networkPolicy, name string, labels map[string]string) error {
	named := false
	for _, p := range policies {
		selects := p.Spec.PodSelector.selects(labels)
		if p.Metadata.Name == name {
			named = true
			switch {
			case !selects || !p.Spec.PodSelector.isKnown():
				return fmt.Errorf("%w: NetworkPolicy %s does not select the pod",
					kubectl.ErrNetworkOpen, name)
			case !slices.Contains(p.Spec.PolicyTypes, "Ingress") || !slices.Contains(p.Spec.PolicyTypes, "Egress"):
				return fmt.Errorf(
					"%w: NetworkPolicy %s is not about both what comes in and what goes out",
					kubectl.ErrNetworkOpen, name)
			}
		}
		if selects && len(p.Spec.Ingress)+len(p.Spec.Egress) > 0 {
			return fmt.Errorf("%w: NetworkPolicy %s selects the pod and allows something",
				kubectl.ErrNetworkOpen, p.Metadata.Name)
		}
	}
	if !named {
		return fmt.Errorf("%w: the namespace has no NetworkPolicy %s", kubectl.ErrNetworkOpen,
			name)
	}
	return nil
}
