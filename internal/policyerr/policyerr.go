// Package policyerr defines errors of package execpolicy that other packages return too.
package policyerr

import "errors"

var (
	// ErrNoMount is execpolicy.ErrNoMount.
	ErrNoMount = errors.New("the workspace can't be mounted")
	// ErrStart is execpolicy.ErrStart.
	ErrStart = errors.New("the session did not start")
	// ErrStillThere is execpolicy.ErrStillThere.
	ErrStillThere = errors.New("not known to be gone")
	// ErrSecrets is why a policy takes no spec with secrets.
	ErrSecrets = errors.New("only a session has Secrets")
)
