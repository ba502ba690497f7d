// Package cli is what the programs muster and muster-agent have in common: their
// root command, how they start, log and end, and the commands agent and version.
//
// It must not import the control plane, the hub or dev clusters: muster-agent,
// which is all that the agent's image holds, is small because of that.
package cli
