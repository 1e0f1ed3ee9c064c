//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// probe is a Python program that lets itself be connected to, connects to its arguments,
// and prints those that it reached. Then it waits to be deleted.
const probe = `
import concurrent.futures, socket, sys
server = socket.create_server(("", 8080))
def reach(target):
    host, port = target.split(":")
    try:
        socket.create_connection((host, port), 1).close()
        return target
    except OSError:
        return ""
with concurrent.futures.ThreadPoolExecutor(20) as pool:
    print("reached", *pool.map(reach, sys.argv[1:]), flush=True)
while True:
    server.accept()[0].close()
`

// prove returns an error unless the network of pods is as the tests need it. On each
// node, a pod that the NetworkPolicy selects reaches nothing, and one that it does not
// select reaches everything but the other. So a test that finds no network finds the work
// of the policy.
func (h *harness) prove(ctx context.Context) error {
	targets := []string{
		net.JoinHostPort(serviceIP, "443"),
		apiHost,
		net.JoinHostPort(outsideIP, "80"),
	}
	for _, n := range nodes() {
		targets = append(targets, net.JoinHostPort(n.address(), "10250"))
	}
	server, err := h.probes(ctx, "server", nodes()[:1], false, nil, nil)
	if err != nil {
		return err
	}
	targets = append(targets, server...)
	denied, err := h.probes(ctx, "denied", nodes(), true, targets, nil)
	if err != nil {
		return err
	}
	all := slices.Concat(targets, denied)
	if _, err := h.probes(ctx, "free", nodes(), false, all, targets); err != nil {
		return err
	}
	_, err = h.kubectl(ctx, "delete", "pods", "--all", "--now", "--request-timeout=0")
	return err
}

// probes runs a pod on each node, and returns the addresses at which they are, or an
// error if what one reached is not what it should.
func (h *harness) probes(ctx context.Context, name string, on []node, denied bool,
	targets, reached []string) (addresses []string, err error) {
	var pods []object
	for _, n := range on {
		pods = append(pods, probePod(name, n, denied, targets))
	}
	list := object{"apiVersion": "v1", "kind": "List", "items": pods}
	manifest, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	file := "probe-" + name + ".json"
	if err := h.writeFile(file, string(manifest)); err != nil {
		return nil, err
	}
	if _, err := h.kubectl(ctx, "create", "-f", h.path(file)); err != nil {
		return nil, err
	}
	for _, n := range on {
		pod := probeName(name, n)
		var said []byte
		if err := h.poll(ctx, func() (err error) {
			said, err = h.kubectl(ctx, "logs", pod)
			if err == nil && len(said) == 0 {
				err = errors.New(pod + " has said nothing")
			}
			return err
		}); err != nil {
			return nil, err
		}
		if got := strings.Fields(string(said))[1:]; !slices.Equal(got, reached) {
			return nil, fmt.Errorf("%s reached %q, and not %q", pod, got, reached)
		}
		ip, err := h.kubectl(ctx, "get", "pod", pod, "-o=jsonpath={.status.podIP}")
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, net.JoinHostPort(string(ip), "8080"))
	}
	return addresses, nil
}

func probeName(name string, n node) string { return fmt.Sprintf("probe-%s-%d", name, n) }

type object = map[string]any

func probePod(name string, n node, denied bool, args []string) object {
	labels := object{}
	if denied {
		labels["cofferdam.network"] = "none"
	}
	return object{
		"apiVersion": "v1",
		"kind":       "Pod",
		"metadata":   object{"name": probeName(name, n), "labels": labels},
		"spec": object{
			"nodeName":                     n.String(),
			"restartPolicy":                "Never",
			"automountServiceAccountToken": false,
			"dnsPolicy":                    "None",
			"dnsConfig":                    object{"nameservers": []string{"127.0.0.1"}},
			"securityContext": object{
				"runAsNonRoot":   true,
				"runAsUser":      65534,
				"seccompProfile": object{"type": "RuntimeDefault"},
			},
			"containers": []object{{
				"name":    "main",
				"image":   imageName(),
				"command": slices.Concat([]string{"python3", "-c", probe}, args),
				"securityContext": object{
					"allowPrivilegeEscalation": false,
					"capabilities":             object{"drop": []string{"ALL"}},
				},
			}},
		},
	}
}
