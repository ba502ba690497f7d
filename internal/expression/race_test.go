//go:build race

package expression_test

// bombBudget is what a bomb may cost in tests, in CEL's units. With the race
// detector everything takes ten times as long, so the clock would end what the
// cost has to end.
const bombBudget = 10_000
