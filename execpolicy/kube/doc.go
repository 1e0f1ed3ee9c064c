// Package kube runs sessions in the pods of a Kubernetes cluster.
package kube
