package addon

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/conversion"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

// source are the add-ons of the cluster on the hub, in v1beta1, whatever version the
// hub serves.
type source interface {
	run(ctx context.Context)
	filled() <-chan struct{}
	notify(news loop.Signal)
	objects() []*addonv1beta1.ManagedClusterAddOn
	// report writes a status, and returns the object that the hub has then. It fails
	// when before is not what the hub has.
	report(ctx context.Context, before, after *addonv1beta1.ManagedClusterAddOn) (*addonv1beta1.ManagedClusterAddOn, error)
}

func newSource(version, namespace string, hub client.WithWatch, clk clock.Clock, report func(error)) source {
	if version == addonv1beta1.GroupVersion.Version {
		same := func(a *addonv1beta1.ManagedClusterAddOn) *addonv1beta1.ManagedClusterAddOn { return a }
		return &versioned[*addonv1beta1.ManagedClusterAddOn]{
			hub: hub, newer: same, older: same,
			mirror: addOnMirror[*addonv1beta1.ManagedClusterAddOn](&addonv1beta1.ManagedClusterAddOnList{}, namespace, hub, clk, report),
		}
	}
	return &versioned[*addonv1alpha1.ManagedClusterAddOn]{
		hub: hub, newer: conversion.ManagedClusterAddOnToV1beta1, older: conversion.ManagedClusterAddOnToV1alpha1,
		mirror: addOnMirror[*addonv1alpha1.ManagedClusterAddOn](&addonv1alpha1.ManagedClusterAddOnList{}, namespace, hub, clk, report),
	}
}

func addOnMirror[T client.Object](list client.ObjectList, namespace string, hub client.WithWatch, clk clock.Clock, report func(error)) *mirror.Mirror[T] {
	return mirror.New(mirror.Options[T]{
		Client: hub, List: list, Clock: clk, Select: []client.ListOption{client.InNamespace(namespace)},
		Report: report, Backoff: ptr.To(retry.Quick(time.Minute)),
	})
}

// versioned are add-ons of one version.
type versioned[T client.Object] struct {
	mirror *mirror.Mirror[T]
	hub    client.Client
	newer  func(T) *addonv1beta1.ManagedClusterAddOn
	older  func(*addonv1beta1.ManagedClusterAddOn) T
}

func (v *versioned[T]) run(ctx context.Context) { v.mirror.Run(ctx) }

func (v *versioned[T]) filled() <-chan struct{} { return v.mirror.Filled() }

func (v *versioned[T]) notify(news loop.Signal) { v.mirror.Notify(news) }

func (v *versioned[T]) objects() []*addonv1beta1.ManagedClusterAddOn {
	var all []*addonv1beta1.ManagedClusterAddOn
	for _, o := range v.mirror.Objects() {
		all = append(all, v.newer(o))
	}
	return all
}

func (v *versioned[T]) report(ctx context.Context, before, after *addonv1beta1.ManagedClusterAddOn) (*addonv1beta1.ManagedClusterAddOn, error) {
	from, to := v.older(before.DeepCopy()), v.older(after.DeepCopy())
	if err := v.hub.Status().Patch(ctx, to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})); err != nil {
		return nil, err
	}
	return v.newer(to), nil
}
