package failure

import (
	"errors"
	"time"
)

// ErrIgnoreFields marks what went wrong with a manifest's ignored fields.
var ErrIgnoreFields = errors.New("Failed to process ignoreFields")

// applyConflictError is a conflict with another field manager, in the server's
// words. No quick retry resolves it.
type applyConflictError struct{ error }

func (e applyConflictError) Unwrap() error { return e.error }

// Conflict marks an error as a conflict with another field manager.
func Conflict(err error) error { return applyConflictError{err} }

// IsConflict reports whether a manifest's fields belong to others.
func IsConflict(err error) bool {
	var conflict applyConflictError
	return errors.As(err, &conflict)
}

// deniedError says that a work's executor may not do what the work asks.
type deniedError struct{ why string }

func (e *deniedError) Error() string { return e.why }

// Denied is the error of an executor that may not do something.
func Denied(why string) error { return &deniedError{why} }

// IsDenied reports whether a work's executor may not do what the work asks.
func IsDenied(err error) bool {
	var no *deniedError
	return errors.As(err, &no)
}

// DeniedRetry is how long a work waits whose executor was denied: rights are
// only watched with the gate ExecutorValidatingCaches.
const DeniedRetry = time.Minute
