// Package connection is how a configuration says where an API server is: the
// attributes, for the provider block and for resources, and the environment
// variables that stand in for them. What it makes of them is a kube.Connection.
// It dials nothing.
//
// One table, settings, has each attribute with its variables and how it goes with
// the others. The schemas, the reading of the environment and the documentation
// follow from it.
package connection
