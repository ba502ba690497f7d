package crud

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Delete asks for the deletion of an object, if it is still the claimant's. One
// that is another's by now is left, with a *TakenError. obj gets the object as it
// was seen last.
func Delete(
	ctx context.Context, client *kube.Client, obj kube.Object, namespace, name string, claim Claim,
) (kube.Deletion, error) {
	for attempt := 0; ; attempt++ {
		err := createRead(client, attempt)(ctx, obj, namespace, name)
		if kube.IsNotFound(err, name) {
			return kube.Deletion{Gone: true}, nil
		}
		if err != nil {
			return kube.Deletion{}, err
		}
		if !claim.Holds(obj) {
			if attempt == 0 {
				continue // It may be older than the claim.
			}
			return kube.Deletion{}, &TakenError{Live: obj}
		}
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		deletion, err := client.DeleteIf(ctx, obj, namespace, name,
			metav1.Preconditions{UID: &uid, ResourceVersion: &version})
		if !isStale(err) || attempt+1 == createAttempts {
			return deletion, err
		}
	}
}

// createRead reads an object for a write that depends on its resource version. The first
// time it may be some seconds old; if that is too old, the write is refused, and the
// next one gets the object as it is.
func createRead(
	client *kube.Client, attempt int,
) func(ctx context.Context, obj kube.Object, namespace, name string) error {
	if attempt == 0 {
		return client.Lookup
	}
	return client.Get
}

// DeleteAndWait is Delete, and waits until the object is gone. When ctx ends
// first, obj holds what was seen last.
func DeleteAndWait(
	ctx context.Context, client *kube.Client, obj kube.Object, namespace, name string, claim Claim,
) error {
	deletion, err := Delete(ctx, client, obj, namespace, name, claim)
	if err != nil || deletion.Gone {
		return err
	}
	return client.WaitGone(ctx, obj, namespace, name, deletion.UID)
}

// Release gives up what the claimant has set of an object, and leaves the object.
// bare names it and sets nothing.
func Release(ctx context.Context, client *kube.Client, bare kube.Object, manager string, claim Claim) error {
	live, _ := bare.DeepCopyObject().(kube.Object)
	err := client.Get(ctx, live, bare.GetNamespace(), bare.GetName())
	if kube.IsNotFound(err, bare.GetName()) {
		return nil
	}
	if err != nil {
		return err
	}
	if !claim.Holds(live) {
		return &TakenError{Live: live}
	}
	bare.SetUID(live.GetUID())
	return client.Apply(ctx, bare, kube.ApplyOptions{Manager: manager})
}
