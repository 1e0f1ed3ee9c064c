package kube

import "github.com/seed-64a260eb/cofferdam/internal/kubectl"

// These errors say what a failure of kubectl or of the cluster means. The error that
// wraps one also has their own words.
var (
	// ErrNoKubectl means that there is no kubectl program.
	ErrNoKubectl = kubectl.ErrNoProgram
	// ErrTooOld means that the kubectl program lacks what this package uses.
	ErrTooOld = kubectl.ErrTooOld
	// ErrNoCluster means that kubectl has no configuration that names a cluster, or that
	// the namespace is not a valid one.
	ErrNoCluster = kubectl.ErrNoCluster
	// ErrDown means that the cluster's API does not answer, or not in time.
	ErrDown = kubectl.ErrDown
	// ErrLoggedOut means that the cluster does not know who asks.
	ErrLoggedOut = kubectl.ErrLoggedOut
	// ErrPermission means that the user may not do what a session needs.
	ErrPermission = kubectl.ErrPermission
	// ErrQuota means that a quota of the namespace is used up.
	ErrQuota = kubectl.ErrQuota
	// ErrAdmission means that the cluster refused the pod, or changed it.
	ErrAdmission = kubectl.ErrAdmission
	// ErrArgument means that the cluster found a field of the pod invalid.
	ErrArgument = kubectl.ErrArgument
	// ErrNameInUse means that there is another pod of that name.
	ErrNameInUse = kubectl.ErrNameInUse
	// ErrNoPod means that there is no such pod.
	ErrNoPod = kubectl.ErrNotFound
	// ErrNoRoom means that no node has room for the pod.
	ErrNoRoom = kubectl.ErrNoRoom
	// ErrImageMissing means that the node has no such image, and that it is not pulled.
	ErrImageMissing = kubectl.ErrImageMissing
	// ErrPull means that the image could not be pulled.
	ErrPull = kubectl.ErrPull
	// ErrNoCommand means that the image has no sh, or can't execute it.
	ErrNoCommand = kubectl.ErrNoCommand
	// ErrRuntime means that the node could not start the container.
	ErrRuntime = kubectl.ErrRuntime
	// ErrNetworkOpen means that the network is not known to be kept from the pod.
	ErrNetworkOpen = kubectl.ErrNetworkOpen
)
