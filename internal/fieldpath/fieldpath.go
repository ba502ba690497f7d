// Package fieldpath reads and removes fields of objects by paths that users
// write: JSONPath in kubectl's dialect, and the paths of jq. The libraries only
// parse them. The evaluation is here, because the libraries bound neither time nor
// memory; here each value that a path looks at is taken from a Budget, which the
// paths of one object share.
//
// Objects are given as JSON decodes them. The package imports nothing of muster.
package fieldpath

import (
	"errors"
	"fmt"
)

// MaxLength is the longest path, in bytes.
const MaxLength = 1024

// tooLong refuses a path that is longer than MaxLength.
func tooLong(path string) error {
	if len(path) <= MaxLength {
		return nil
	}
	return fmt.Errorf("it is %d bytes long, more than the %d that a path may have", len(path), MaxLength)
}

// errEmpty refuses text without a path.
var errEmpty = errors.New("it is empty: write a path such as .spec.replicas")
