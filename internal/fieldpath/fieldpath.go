// Package fieldpath reads and removes fields of objects by paths that users
// write: JSONPath in kubectl's dialect, and the paths of jq. The libraries only
// parse them. The evaluation is here, because the libraries bound neither time nor
// memory; here a path looks at maxVisits values of an object at most.
//
// Objects are given as JSON decodes them. The package imports nothing of muster.
package fieldpath

import (
	"errors"
	"fmt"
)

const (
	// MaxLength is the longest path, in bytes.
	MaxLength = 1024
	// maxVisits is how many values of an object one path may look at. An object
	// of a MiB has some ten thousand.
	maxVisits = 100_000
)

// ErrLimit marks a path that would look at too many values of an object.
var ErrLimit = fmt.Errorf("it looks at more than %d values of the object: begin it with the names of fields", maxVisits)

// tooLong refuses a path that is longer than MaxLength.
func tooLong(path string) error {
	if len(path) <= MaxLength {
		return nil
	}
	return fmt.Errorf("it is %d bytes long, more than the %d that a path may have", len(path), MaxLength)
}

// visits counts down the values that a path may still look at.
type visits struct{ left int }

func newVisits() *visits { return &visits{maxVisits} }

func (v *visits) take(n int) error {
	if v.left -= n; v.left < 0 {
		return ErrLimit
	}
	return nil
}

// errEmpty refuses text without a path.
var errEmpty = errors.New("it is empty: write a path such as .spec.replicas")
