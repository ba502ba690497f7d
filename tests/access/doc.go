// Package access tests that users of a hub get into its clusters, and out of them
// again, with the built program: a hub, dev clusters and their agents as processes
// of their own.
package access
