// Package image holds the recipe of the image that tests and demonstrations use on a
// machine without a registry.
package image

import _ "embed"

// Recipe is a POSIX shell script. Its operands are the image's name and the words of the
// engine's command.
//
//go:embed build.sh
var Recipe string
