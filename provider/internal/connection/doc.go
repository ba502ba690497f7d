// Package connection is how a configuration says where an API server is: the
// attributes, for the provider block and for resources, and the environment
// variables that stand in for them. What it makes of them is a kube.Connection.
// It dials nothing.
package connection
