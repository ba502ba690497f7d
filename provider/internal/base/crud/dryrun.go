package crud

import (
	"cmp"
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// DryRun is what would come of a write. Nothing was written.
type DryRun struct {
	// Live is the object that a creation would find there; nil when there is none,
	// or when it is the claimant's own.
	Live kube.Object
	// Differences are those by which Live would change.
	Differences []Difference
	// Taken are the fields that would be taken over from other managers, whose
	// values differ.
	Taken []kube.Conflict
	// Borrowed is the object as it is, when an update would be refused with a
	// *BorrowedError; Differences are those that it names.
	Borrowed kube.Object
}

// DryRunCreate asks the server what Create would do. That takes one request for an
// object that does not exist. claim is what is left of the object that this one
// replaces, if any. The error is the server's refusal; with a Live object and an
// error that the writer may not write, the two could not be compared.
func (w Write) DryRunCreate(ctx context.Context, client *kube.Client, claim Claim) (DryRun, error) {
	_, refusal := w.dryRun(ctx, client, kube.ApplyOptions{Manager: w.Manager, Force: true, CreateOnly: true}, "")
	if refusal == nil || (!isStale(refusal) && !apierrors.IsForbidden(refusal)) {
		return DryRun{}, refusal
	}
	if isStale(refusal) {
		refusal = nil
	}
	live := w.empty()
	switch err := client.Get(ctx, live, w.Object.GetNamespace(), w.Object.GetName()); {
	case kube.IsNotFound(err, w.Object.GetName()):
		return DryRun{}, refusal
	case err != nil:
		return DryRun{}, cmp.Or(refusal, err)
	case w.refused(live) != nil:
		return DryRun{Live: live}, w.refused(live)
	case live.GetDeletionTimestamp() != nil, claim.Owner != "" && claim.Holds(live):
		return DryRun{}, refusal
	case refusal != nil:
		return DryRun{Live: live}, refusal
	}
	differences, err := w.Compare(ctx, client, live)
	if err == nil && !w.Force {
		_, err = w.dryRun(ctx, client, kube.ApplyOptions{Manager: w.Manager}, live.GetUID())
	}
	return DryRun{Live: live, Differences: differences}, err
}

// DryRunUpdate asks the server what Update would do. That takes one request for an
// object without a status, and another one when fields are taken over.
func (w Write) DryRunUpdate(ctx context.Context, client *kube.Client, claim Claim) (DryRun, error) {
	var run DryRun
	try := func(send func(kube.ApplyOptions) error) error {
		err := send(kube.ApplyOptions{Manager: w.Manager})
		if taken := kube.Conflicts(err); len(taken) > 0 && w.Force {
			run.Taken = append(run.Taken, taken...)
			err = send(kube.ApplyOptions{Manager: w.Manager, Force: true})
		}
		return err
	}
	var would kube.Object
	err := try(func(options kube.ApplyOptions) (err error) {
		would, err = w.dryRun(ctx, client, options, claim.UID)
		return err
	})
	if err == nil {
		if unwanted := w.unwanted(would); len(unwanted) > 0 && w.Force {
			run.Taken = append(run.Taken, w.owners(would, unwanted)...)
		} else if len(unwanted) > 0 {
			err = w.conflict(would, unwanted)
		}
	}
	if err == nil && w.Status != nil {
		err = try(func(options kube.ApplyOptions) error {
			options.DryRun = true
			return client.ApplyStatus(ctx, w.copyOf(w.Status), options)
		})
	}
	if isStale(err) {
		return DryRun{}, nil // It has just been deleted, or replaced. The apply will tell.
	}
	if err == nil && claim.Borrowed && !w.Adopt {
		live := w.empty()
		if client.Get(ctx, live, w.Object.GetNamespace(), w.Object.GetName()) == nil {
			if run.Differences = w.borrowed(ctx, client, live, claim); len(run.Differences) > 0 {
				run.Borrowed = live
			}
		}
	}
	return run, err
}

// dryRun has the server tell what would come of writing the object.
func (w Write) dryRun(
	ctx context.Context, client *kube.Client, options kube.ApplyOptions, uid types.UID,
) (kube.Object, error) {
	options.DryRun = true
	would := w.copyOf(w.Object)
	NewClaim().On(would)
	would.SetUID(uid)
	return would, client.Apply(ctx, would, options)
}
