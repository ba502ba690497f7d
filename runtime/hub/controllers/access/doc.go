// Package access holds what the controllers of user access have in common: their tests,
// which share a control plane.
package access
