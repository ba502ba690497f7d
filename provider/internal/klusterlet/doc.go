// Package klusterlet has the resource muster_klusterlet: it installs, updates
// and removes the agent in a managed cluster, through that cluster's own
// connection.
package klusterlet
