// Package agent is what runs in or for each managed cluster: it registers the
// cluster with a hub, reports on it, and carries out the works that the hub
// has for it. If asked to, it lets users of the hub in.
//
// Run takes the options of `muster agent` and starts the parts of the agent,
// registration, work and user access, the installation of the kinds that works need, and the
// server for health and metrics. Several agents may run in a process: each has
// its own logger, metrics and clients. The package must not import the hub or the
// control plane.
package agent
