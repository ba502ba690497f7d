// Package clusterset checks the controllers below this folder against a
// real API server. They share its start, and one test binary that links it.
package clusterset
