// Package workcache caches ManifestWorks without their manifests, for controllers
// that make many works of one content: all that matters of a spec is whether it is
// the wanted one, which its digest (package workdigest) shows.
package workcache

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// ByLabel is the index of a cache's works by the value of its label.
const ByLabel = "metadata.labels.cached"

// Keep says what a cache keeps of a work beside its metadata and the digest of its
// spec. It has to return the same when it is given a work as it is kept.
type Keep struct {
	// Status is what is kept of the status.
	Status func(workv1.ManifestWorkStatus) workv1.ManifestWorkStatus
	// ResourceStatus has Status see how each manifest is. Most of a work is that, so it
	// takes most of the time to read.
	ResourceStatus bool
	// Manifests are kept in place of the manifests; nil for none.
	Manifests func(workv1.ManifestWorkSpec) []workv1.Manifest
	// DeleteOption keeps what happens when a work is deleted, and when it is complete.
	DeleteOption bool
}

// unread are the fields of a work that need not be read.
func (k Keep) unread() []string {
	if k.ResourceStatus {
		return nil
	}
	return []string{"status.resourceStatus"}
}

// All is what the manager's cache keeps, which has all works of the fleet: what shows
// whose a work is, whether it has the wanted content, and how it is.
func All() cache.ByObject {
	return cache.ByObject{Transform: Transform(all)}
}

// Unread are the fields of a work that need not be read for what All keeps.
func Unread() []string { return all.unread() }

var all = Keep{Status: conditions(
	work.ConditionApplied, work.ConditionAvailable, work.ConditionProgressing, work.ConditionDegraded,
	work.ConditionComplete,
), DeleteOption: true}

// InProcess is a manager in the process of its API server.
type InProcess interface {
	// ReadMemory has a cache read custom resources from the server's memory, and works without
	// these fields (extension.Reads). The options have a scheme and a mapper.
	ReadMemory(o *cache.Options, without ...string)
}

// NewCache makes a cache of the works that have a label, and adds it to a manager.
// The cache is apart from the manager's, which keeps less of each work, and has all of
// them.
func NewCache(m manager.Manager, label string, keep Keep) (cache.Cache, error) {
	labelled, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	o := cache.Options{
		HTTPClient: m.GetHTTPClient(),
		Scheme:     m.GetScheme(),
		Mapper:     m.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&workv1.ManifestWork{}: {Label: labels.NewSelector().Add(*labelled), Transform: Transform(keep)},
		},
	}
	if m, ok := m.(InProcess); ok {
		m.ReadMemory(&o, keep.unread()...)
	}
	c, err := cache.New(m.GetConfig(), o)
	if err != nil {
		return nil, err
	}
	value := func(o client.Object) []string { return []string{o.GetLabels()[label]} }
	if err := c.IndexField(context.Background(), &workv1.ManifestWork{}, ByLabel, value); err != nil {
		return nil, err
	}
	return c, m.Add(c)
}

// Transform takes out of a work what a cache need not hold: a fleet has the
// manifests of one template many times over.
func Transform(keep Keep) func(any) (any, error) {
	return func(o any) (any, error) {
		w, ok := o.(*workv1.ManifestWork)
		if !ok {
			return o, nil // a tombstone
		}
		w.ManagedFields = nil
		var manifests []workv1.Manifest
		if keep.Manifests != nil {
			manifests = keep.Manifests(w.Spec)
		}
		option := w.Spec.DeleteOption
		w.Spec = workdigest.Lean(w.Spec, manifests...)
		if keep.DeleteOption {
			w.Spec.DeleteOption = option
		}
		w.Status = keep.Status(w.Status)
		return w, nil
	}
}

// Conditions keeps of a status the conditions that show how a work is, without
// their messages.
func Conditions(status workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
	return conditions(
		work.ConditionApplied, work.ConditionAvailable, work.ConditionProgressing, work.ConditionDegraded,
	)(status)
}

// conditions keeps of a status these conditions, without their messages.
func conditions(types ...string) func(workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
	return func(status workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
		var kept []metav1.Condition
		for _, condition := range status.Conditions {
			if slices.Contains(types, condition.Type) {
				condition.Message = ""
				kept = append(kept, condition)
			}
		}
		return workv1.ManifestWorkStatus{Conditions: kept}
	}
}
