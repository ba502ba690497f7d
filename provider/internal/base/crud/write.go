package crud

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// createAttempts is how often a write is tried against an object that others write at
// the same moment.
const createAttempts = 10

// deletionPatience is how long a creation waits for an object of the same name
// that is being deleted.
const deletionPatience = 30 * time.Second

// Write is one object as a Terraform resource wants it.
type Write struct {
	// Object is what the configuration sets. A write that went well leaves in it
	// what the server made of it.
	Object kube.Object
	// Status is the object with nothing but the status that the configuration
	// sets; nil for most kinds. It is compared here, and written by the caller.
	Status kube.Object
	// Manager is the field manager.
	Manager string
	// Force takes fields over from other managers.
	Force bool
	// Adopt takes an object over that exists and is different, or that another
	// resource has taken over.
	Adopt bool
	// Harmless reports whether a difference of an object that nobody has marked is
	// nobody's loss, so that it needs no Adopt. Nil says no.
	Harmless func(Difference) bool
	// Unwanted lists fields, by path, that somebody else has set and whose absence
	// from the configuration has a meaning, such as "all clusters", and lists to which
	// somebody else has added. A write removes these fields, or gives the lists the
	// configuration's value. Nil lists none.
	Unwanted func(live kube.Object) [][]string
	// Foreign tells which fields, as in spec.taints or metadata.labels.env, stay with
	// the field managers that the first write takes over from. Nil says none.
	Foreign func(path string) bool
	// Further adds differences that Object does not show; nil adds none.
	Further func(live kube.Object) []Difference
	// Refuse says why an object that exists can't be managed at all; nil refuses none.
	Refuse func(live kube.Object) error
	// Traced notes on the object in which trace it was written, for the agent that
	// carries it out.
	Traced bool
}

func (w Write) refused(live kube.Object) error {
	if w.Refuse == nil {
		return nil
	}
	if err := w.Refuse(live); err != nil {
		return &UnmanageableError{err}
	}
	return nil
}

// Create makes the object and marks it. Of two that create it at the same moment
// one succeeds; the other finds it there. An object that is there is taken over
// when it is as it would be, or when Adopt says so; else the error is an
// *ExistsError. from is the mark of the resource that it was taken from.
func (w Write) Create(ctx context.Context, client *kube.Client) (claim Claim, from string, err error) {
	claim = NewClaim()
	exclusively := kube.ApplyOptions{Manager: w.Manager, Force: w.Force, CreateOnly: true}
	if err = w.apply(ctx, client, &claim, exclusively, nil); !isStale(err) {
		return claim, "", err
	}
	for range createAttempts {
		live := w.empty()
		getting := client.Get(ctx, live, w.Object.GetNamespace(), w.Object.GetName())
		switch {
		case kube.IsNotFound(getting, w.Object.GetName()):
			// Gone meanwhile. A server that always refuses the version gets the
			// object without it.
			if err = w.apply(ctx, client, &claim, exclusively, nil); isStale(err) && !w.exists(ctx, client) {
				err = w.apply(ctx, client, &claim, kube.ApplyOptions{Manager: w.Manager, Force: w.Force}, nil)
			}
		case getting != nil:
			return claim, "", getting
		case OwnerMark(live) == claim.Owner:
			// The first write went well, and its answer was lost.
			claim.UID = live.GetUID()
			return claim, "", w.take(live)
		case w.refused(live) != nil:
			return claim, "", w.refused(live)
		case live.GetDeletionTimestamp() != nil:
			waiting, cancel := context.WithTimeout(ctx, deletionPatience)
			going := client.WaitGone(waiting, live, live.GetNamespace(), live.GetName(), live.GetUID())
			cancel()
			if going != nil {
				return claim, "", &DeletingError{Live: live}
			}
		default:
			differences, comparing := w.Compare(ctx, client, live)
			if kube.IsNotFound(comparing, w.Object.GetName()) {
				continue // It was deleted since it was read, as when a resource gets another address.
			}
			if comparing != nil && !isStale(comparing) {
				return claim, "", comparing
			}
			if comparing == nil && !w.Adopt && len(differences) > 0 {
				return claim, "", &ExistsError{Live: live, Differences: differences}
			}
			from, err = OwnerMark(live), comparing
			if err == nil {
				err = w.apply(ctx, client, &claim, kube.ApplyOptions{Manager: w.Manager, Force: w.Force}, live)
			}
		}
		if !isStale(err) {
			return claim, from, err
		}
	}
	return claim, from, err
}

// Compare lists what taking live over would change of it. It writes nothing.
func (w Write) Compare(ctx context.Context, client *kube.Client, live kube.Object) ([]Difference, error) {
	options := kube.ApplyOptions{Manager: w.Manager, Force: true, DryRun: true}
	would := w.copyOf(w.Object)
	would.SetUID(live.GetUID())
	would.SetResourceVersion(live.GetResourceVersion())
	if err := client.Apply(ctx, would, options); err != nil {
		return nil, err
	}
	differences, err := Differences(live, would, false)
	if err != nil {
		return nil, err
	}
	if w.Status != nil {
		scored := w.copyOf(w.Status)
		if err := client.ApplyStatus(ctx, scored, options); err != nil {
			return nil, err
		}
		// A dry run of the status leaves the rest as it is.
		more, err := Differences(live, scored, true)
		if err != nil {
			return nil, err
		}
		differences = append(differences, more...)
	}
	if differences, err = w.withUnwanted(would, differences); err != nil {
		return nil, err
	}
	if w.Further != nil {
		differences = append(differences, w.Further(live)...)
	}
	if OwnerMark(live) != "" || w.Harmless == nil {
		return differences, nil
	}
	var grave []Difference
	for _, d := range differences {
		if !w.Harmless(d) {
			grave = append(grave, d)
		}
	}
	return grave, nil
}

// borrowed lists what a write would change of an object that was imported while it
// carried another resource's mark, unless Adopt says that it may.
func (w Write) borrowed(ctx context.Context, client *kube.Client, live kube.Object, claim Claim) []Difference {
	if !claim.Borrowed || w.Adopt || OwnerMark(live) != claim.Owner {
		return nil
	}
	differences, err := w.Compare(ctx, client, live)
	if err != nil {
		return nil // The write gets the same answer.
	}
	return differences
}

// Update writes the object again and returns the claim on it from then on. An
// object that is another resource's by now is left, with a *TakenError, and so is one
// that was imported with another resource's mark, with a *BorrowedError, unless Adopt
// says so. One that is gone is created.
func (w Write) Update(ctx context.Context, client *kube.Client, claim Claim) (Claim, error) {
	var err error
	for attempt := range createAttempts {
		live := w.empty()
		getting := createRead(client, attempt)(ctx, live, w.Object.GetNamespace(), w.Object.GetName())
		if kube.IsNotFound(getting, w.Object.GetName()) {
			created, _, err := w.Create(ctx, client)
			return created, err
		}
		if getting != nil {
			return claim, getting
		}
		next := claim.Writing()
		if !claim.Holds(live) {
			if attempt == 0 {
				continue // It may be older than the claim.
			}
			if !w.Adopt {
				return claim, &TakenError{Live: live}
			}
			next = NewClaim()
		}
		if differences := w.borrowed(ctx, client, live, claim); len(differences) > 0 {
			return claim, &BorrowedError{Live: live, Differences: differences}
		}
		if err = w.inherit(ctx, client, live, claim.From); err == nil {
			err = w.apply(ctx, client, &next, kube.ApplyOptions{Manager: w.Manager, Force: w.Force}, live)
		}
		if err == nil {
			return next, nil
		}
		if !isStale(err) {
			return claim, err
		}
	}
	return claim, err
}

// apply writes the object with the claim's mark, onto live if that is given.
func (w Write) apply(
	ctx context.Context, client *kube.Client, claim *Claim, options kube.ApplyOptions, live kube.Object,
) error {
	wanted := w.copyOf(w.Object)
	claim.On(wanted)
	if w.Traced && tracing.IsSampled(ctx) {
		annotations := wanted.GetAnnotations()
		annotations[work.TraceparentAnnotation] = tracing.Traceparent(ctx)
		wanted.SetAnnotations(annotations)
	}
	if live != nil {
		wanted.SetUID(live.GetUID())
		wanted.SetResourceVersion(live.GetResourceVersion())
	}
	if err := client.Apply(ctx, wanted, options); err != nil {
		return err
	}
	claim.UID = wanted.GetUID()
	if err := w.removeUnwanted(ctx, client, wanted); err != nil {
		return err
	}
	return w.take(wanted)
}

func (w Write) exists(ctx context.Context, client *kube.Client) bool {
	return client.Get(ctx, w.empty(), w.Object.GetNamespace(), w.Object.GetName()) == nil
}

func (w Write) take(result kube.Object) error { return kube.Assign(w.Object, result) }

func (w Write) copyOf(object kube.Object) kube.Object {
	copied, _ := object.DeepCopyObject().(kube.Object)
	copied.SetUID(types.UID(""))
	copied.SetResourceVersion("")
	return copied
}

func (w Write) empty() kube.Object { return kube.Fresh(w.Object) }

// isStale reports whether a write was refused because the object is not the one
// that was read, and not because of the fields of other managers.
func isStale(err error) bool {
	return apierrors.IsConflict(err) && len(kube.Conflicts(err)) == 0
}

// UnmanageableError is why an object that exists can't be managed.
type UnmanageableError struct{ error }

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

// BorrowedError is that of changing an object that was imported while it carried the
// mark of another Terraform resource.
type BorrowedError struct {
	Live        kube.Object
	Differences []Difference
}

// Error implements error.
func (e *BorrowedError) Error() string {
	return fmt.Sprintf("%q was imported, and another Terraform resource manages it", e.Live.GetName())
}

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
