// Package chaos kills processes of a fleet in the middle of their work and
// looks whether anything is lost or doubled.
package chaos
