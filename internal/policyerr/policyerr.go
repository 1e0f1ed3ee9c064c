// Package policyerr defines errors of package execpolicy that packages behind it return.
package policyerr

import "errors"

var (
	// ErrNoMount is execpolicy.ErrNoMount.
	ErrNoMount = errors.New("the workspace can't be mounted")
	// ErrStart is execpolicy.ErrStart.
	ErrStart = errors.New("the session did not start")
	// ErrStillThere is execpolicy.ErrStillThere.
	ErrStillThere = errors.New("not known to be gone")
)
