// Package e2e tests muster as its users get it: the built program, in processes
// of its own, and clusters that know nothing of each other.
package e2e
