// Package registration checks the rules of the controllers below this
// folder against a real API server.
package registration
