//go:build !race

package expression_test

// bombBudget is what a bomb may cost in tests, in CEL's units: as much as the
// expressions of a placement may cost on one cluster.
const bombBudget = 100_000
