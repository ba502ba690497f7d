// Package fleet holds what the controllers of cluster sets, cluster profiles, placements,
// replica sets and works have in common: their tests, which share a control plane.
package fleet
