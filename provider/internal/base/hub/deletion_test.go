package hub

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// Those who wait for a deletion learn what holds it, and whose it is.
func TestDescribeDeletion(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	asked := metav1.NewTime(now.Add(-90 * time.Second))
	owns := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const hold = `{"f:metadata":{"f:finalizers":{".":{},"v:\"example.com/hold\"":{}}}}`
	for name, test := range map[string]struct {
		object metav1.ObjectMeta
		want   string
	}{
		"not asked for": {want: "  Its deletion has not begun."},
		"nothing holds it": {
			object: metav1.ObjectMeta{DeletionTimestamp: &asked},
			want:   "  Its deletion was asked for 90s ago.",
		},
		"somebody's finalizer": {
			object: metav1.ObjectMeta{
				DeletionTimestamp: &asked, Finalizers: []string{"example.com/hold"},
				ManagedFields: []metav1.ManagedFieldsEntry{owns("backup", hold), owns("kubectl", `{"f:metadata":{"f:labels":{"f:a":{}}}}`)},
			},
			want: "  Its deletion was asked for 90s ago.\n  Finalizer example.com/hold, set by \"backup\": the one who set it has to remove it first",
		},
		"several owners, and the agent's own": {
			object: metav1.ObjectMeta{
				DeletionTimestamp: &asked, Finalizers: []string{"example.com/hold", work.ManifestWorkFinalizer},
				ManagedFields: []metav1.ManagedFieldsEntry{owns("z", hold), owns("a", hold), owns("a", hold)},
			},
			want: "  Its deletion was asked for 90s ago.\n  Finalizer example.com/hold, set by \"a\" and \"z\": the one who set it has to remove it first\n" +
				"  Finalizer cluster.open-cluster-management.io/manifest-work-cleanup: the cluster's agent removes the objects from the cluster first; it has to be running and connected",
		},
		"an add-on's jobs": {
			object: metav1.ObjectMeta{DeletionTimestamp: &asked, Finalizers: []string{addon.PreDeleteFinalizer, addon.HostingPreDeleteFinalizer, addon.HostingManifestsFinalizer}},
			want: "  Its deletion was asked for 90s ago.\n" +
				"  Finalizer addon.open-cluster-management.io/addon-pre-delete: the add-on's jobs have to complete in the cluster first; its agent has to be running and connected\n" +
				"  Finalizer addon.open-cluster-management.io/hosting-addon-pre-delete: the add-on's jobs have to complete in the hosting cluster first; the agent there has to be running and connected\n" +
				"  Finalizer addon.open-cluster-management.io/hosting-manifests-cleanup: the hub removes the add-on's works from the hosting cluster first",
		},
		"an owner that is not told": {
			object: metav1.ObjectMeta{
				DeletionTimestamp: &asked, Finalizers: []string{"example.com/hold"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "none"}, owns("broken", "{")},
			},
			want: "  Its deletion was asked for 90s ago.\n  Finalizer example.com/hold: the one who set it has to remove it first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DescribeDeletion(&test.object, now); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// What somebody else's finalizer holds is for its controller to release, and what the
// fleet holds is not.
func TestReleaseByOthers(t *testing.T) {
	now := metav1.Now()
	held := func(finalizers ...string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "paris", Name: "web", DeletionTimestamp: &now, Finalizers: finalizers}
	}
	for name, test := range map[string]struct {
		object *metav1.ObjectMeta
		only   bool
		want   string
	}{
		"nobody":      {held(), false, ""},
		"the agent":   {held(work.ManifestWorkFinalizer), false, ""},
		"not deleted": {&metav1.ObjectMeta{Finalizers: []string{"example.com/hold"}}, false, ""},
		"somebody":    {held("example.com/hold"), true, "Repair the controller of example.com/hold: "},
		"both":        {held(work.ManifestWorkFinalizer, "example.com/hold", "b.io/x"), false, "Repair the controller of example.com/hold and of b.io/x: "},
	} {
		got := ReleaseByOthers(test.object, "manifestworks")
		if (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) || strings.Contains(got, "null") || HeldByOthersOnly(test.object) != test.only {
			t.Errorf("%s: got %q, %t", name, got, HeldByOthersOnly(test.object))
		}
		if got != "" && !strings.HasSuffix(got, "kubectl edit manifestworks -n paris web") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
