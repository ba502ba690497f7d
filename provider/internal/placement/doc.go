// Package placement has the resources muster_placement and
// muster_addon_placement_score and the data sources of placements: their
// decisions, and what a placement would select.
package placement
