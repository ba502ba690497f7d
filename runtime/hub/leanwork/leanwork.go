// Package leanwork caches ManifestWorks without their manifests, for controllers
// that make many works of one content: all that matters of a spec is whether it is
// the wanted one, which its digest tells.
package leanwork

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// ByLabel is the index of a cache's works by the value of its label.
const ByLabel = "metadata.labels.lean"

// NewCache makes a cache of the works that have a label, and adds it to a manager.
// report says what is kept of their status. The cache is apart from the manager's,
// where others expect whole works, and all of them.
func NewCache(m manager.Manager, label string, report func(workv1.ManifestWorkStatus) workv1.ManifestWorkStatus) (cache.Cache, error) {
	labelled, err := labels.NewRequirement(label, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	c, err := cache.New(m.GetConfig(), cache.Options{
		HTTPClient: m.GetHTTPClient(),
		Scheme:     m.GetScheme(),
		Mapper:     m.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&workv1.ManifestWork{}: {Label: labels.NewSelector().Add(*labelled), Transform: Transform(report)},
		},
	})
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
func Transform(report func(workv1.ManifestWorkStatus) workv1.ManifestWorkStatus) func(any) (any, error) {
	return func(o any) (any, error) {
		w, ok := o.(*workv1.ManifestWork)
		if !ok {
			return o, nil // a tombstone
		}
		w.ManagedFields = nil
		w.Spec = workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{
			{RawExtension: runtime.RawExtension{Raw: []byte(Digest(w.Spec))}},
		}}}
		w.Status = report(w.Status)
		return w, nil
	}
}

// Conditions keeps of a status the conditions that tell how a work is, without
// their messages.
func Conditions(status workv1.ManifestWorkStatus) workv1.ManifestWorkStatus {
	var kept []metav1.Condition
	for _, condition := range status.Conditions {
		switch condition.Type {
		case work.ConditionApplied, work.ConditionAvailable, work.ConditionProgressing, work.ConditionDegraded:
			condition.Message = ""
			kept = append(kept, condition)
		}
	}
	return workv1.ManifestWorkStatus{Conditions: kept}
}
