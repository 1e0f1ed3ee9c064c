// Package policyerr defines an error of package execpolicy, so that more than one of the
// packages behind it can return it.
package policyerr

import "errors"

// ErrStillThere is execpolicy.ErrStillThere.
var ErrStillThere = errors.New("not known to be gone")
