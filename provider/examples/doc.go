// Package examples applies the examples, modules and guides that users copy, with a real
// Terraform against a real hub and dev clusters. It holds only tests.
package examples
