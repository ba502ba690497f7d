package manifest

import (
	"errors"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/internal/fieldpath"
)

// ErrIgnoreFields marks what went wrong with a manifest's ignored fields.
var ErrIgnoreFields = errors.New("Failed to process ignoreFields")

// ErrNoTurn marks a manifest that waits, as the paths to its ignored fields cost so
// much that its work has to wait for its turn.
var ErrNoTurn = errors.New("it waits for its turn: the paths to the fields that it ignores cost so much " +
	"that only one such work is carried out at a time; begin the paths with the names of fields, or use fewer")

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

// RetriedRarely reports whether a quick retry of a manifest would not help.
func RetriedRarely(err error) bool {
	return IsDenied(err) || IsConflict(err) || errors.Is(err, ErrNoTurn) || errors.Is(err, fieldpath.ErrLimit)
}
