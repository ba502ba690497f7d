package addon

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

// addOns are those of the cluster on the hub, in v1beta1, whatever version the hub
// serves.
type addOns struct {
	hub       client.Client
	cache     client.Reader
	namespace string
	version   string
}

func (s addOns) isOld() bool { return s.version == addonv1alpha1.GroupVersion.Version }

// object is an empty one of the version that the hub serves.
func (s addOns) object() client.Object {
	if s.isOld() {
		return &addonv1alpha1.ManagedClusterAddOn{}
	}
	return &addonv1beta1.ManagedClusterAddOn{}
}

// get is an add-on as the cache has it; nil when the hub has none of the name.
func (s addOns) get(ctx context.Context, name string) (*addonv1beta1.ManagedClusterAddOn, error) {
	o := s.object()
	err := s.cache.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return newer(o), nil
}

// list are all add-ons as the cache has them.
func (s addOns) list(ctx context.Context) ([]*addonv1beta1.ManagedClusterAddOn, error) {
	var all []*addonv1beta1.ManagedClusterAddOn
	if s.isOld() {
		list := &addonv1alpha1.ManagedClusterAddOnList{}
		err := s.cache.List(ctx, list)
		for i := range list.Items {
			all = append(all, newer(&list.Items[i]))
		}
		return all, err
	}
	list := &addonv1beta1.ManagedClusterAddOnList{}
	err := s.cache.List(ctx, list)
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all, err
}

func newer(o client.Object) *addonv1beta1.ManagedClusterAddOn {
	if old, ok := o.(*addonv1alpha1.ManagedClusterAddOn); ok {
		return conversion.ManagedClusterAddOnToV1beta1(old)
	}
	return o.(*addonv1beta1.ManagedClusterAddOn)
}

// report writes a status, and returns the object that the hub has then; nil when it
// has none any more. It fails when before is not what the hub has.
func (s addOns) report(
	ctx context.Context, before, after *addonv1beta1.ManagedClusterAddOn,
) (*addonv1beta1.ManagedClusterAddOn, error) {
	now := client.Object(before.DeepCopy())
	change := func() bool {
		after.DeepCopyInto(now.(*addonv1beta1.ManagedClusterAddOn))
		return true
	}
	if s.isOld() {
		now = conversion.ManagedClusterAddOnToV1alpha1(before.DeepCopy())
		change = func() bool {
			to := conversion.ManagedClusterAddOnToV1alpha1(after.DeepCopy())
			to.DeepCopyInto(now.(*addonv1alpha1.ManagedClusterAddOn))
			return true
		}
	}
	written, err := patch.Status(ctx, s.hub, now, change)
	if !written || err != nil {
		return nil, err
	}
	return newer(now), nil
}
