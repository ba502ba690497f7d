package ownership

import (
	"fmt"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// ExistsError is that of creating an object that exists and is different.
type ExistsError struct {
	Live        kube.Object
	Differences []Difference
}

// Error implements error.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("%q exists already and differs in %d fields", e.Live.GetName(), len(e.Differences))
}

// DeletingError is that of creating an object whose predecessor is still being
// deleted.
type DeletingError struct{ Live kube.Object }

// Error implements error.
func (e *DeletingError) Error() string {
	return fmt.Sprintf("%q is still being deleted", e.Live.GetName())
}

// TakenError is that of a write to an object that is another resource's by now.
type TakenError struct{ Live kube.Object }

// Error implements error.
func (e *TakenError) Error() string {
	return fmt.Sprintf("%q was taken over by another owner", e.Live.GetName())
}
