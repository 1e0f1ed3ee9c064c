//go:build !linux

package execpolicy_test

import "testing"

func systemCases(*testing.T) []sweepCase { return nil }
