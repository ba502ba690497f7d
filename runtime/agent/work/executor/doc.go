// Package executor asks the managed cluster what the executor of a work, a
// service account, may do there. In go manifests, out come errors for which
// failure.IsDenied holds. Answers may be remembered until a role or binding
// changes.
package executor
