// Package addon checks the controllers below this folder against a real API
// server.
package addon
