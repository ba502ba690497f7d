// Package fleet predicts what a placement would select: it takes a snapshot of a
// hub's fleet and runs the hub's own scheduling on it. It knows nothing of
// Terraform.
package fleet
