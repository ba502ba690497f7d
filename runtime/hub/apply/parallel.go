package apply

import (
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/muster-fleet/terraform-provider-muster/internal/recovery"
)

const (
	// atOnce is how many writes there are at a time.
	atOnce = 10
	// shownErrors is how many errors are reported: those of a large fleet are mostly
	// the same.
	shownErrors = 3
)

// Parallel calls do for 0 to n-1, some at a time, and joins the first errors in that
// order. A panic of do is the error of that call.
func Parallel(n int, do func(i int) error) error {
	errs := make([]error, n)
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error {
			errs[i] = recovery.Call(func() error { return do(i) })
			return nil
		})
	}
	_ = group.Wait()
	var shown []error
	count := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		if count++; count <= shownErrors {
			shown = append(shown, err)
		}
	}
	if count > shownErrors {
		shown = append(shown, fmt.Errorf("and %d more of the kind", count-shownErrors))
	}
	return errors.Join(shown...)
}
