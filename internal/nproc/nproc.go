// Package nproc tells how many processes of one user podman may be asked to allow.
package nproc

// Everywhere is a limit that every host allows.
const Everywhere = 4096
