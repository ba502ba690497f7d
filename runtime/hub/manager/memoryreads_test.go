package manager_test

import (
	"context"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/manager"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/workcache"
)

// Custom resources are read from the server's memory, each cache what it is made for, and all
// else by requests.
func TestWhatIsReadFromTheServersMemory(t *testing.T) {
	var read []extension.Reads
	m, err := manager.New(&rest.Config{Host: "127.0.0.1:1"}, manager.Options{
		Log: logr.Discard(),
		Memory: func(r extension.Reads) toolscache.ListerWatcher {
			read = append(read, r)
			return r.Requests
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	work := workv1.GroupVersion.WithKind("ManifestWork")
	untyped, metadata := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	untyped.SetGroupVersionKind(work)
	metadata.SetGroupVersionKind(work)
	informer := func(kind client.Object) {
		t.Helper()
		read = nil
		if _, err := m.GetCache().GetInformer(context.Background(), kind, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
	}
	for name, kind := range map[string]client.Object{
		"leases": &coordinationv1.Lease{}, "secrets of two namespaces": &corev1.Secret{},
		"works without a type": untyped, "the metadata of works": metadata,
	} {
		if informer(kind); len(read) != 0 {
			t.Errorf("%s are read as %+v", name, read)
		}
	}
	informer(&clusterv1beta1.Placement{})
	if len(read) != 1 || read[0].Resource.Resource != "placements" || read[0].Transform == nil ||
		read[0].Labels != nil || read[0].Without != nil {
		t.Errorf("placements are read as %+v", read)
	}
	informer(&workv1.ManifestWork{})
	if len(read) != 1 || read[0].Kind != work || read[0].Requests == nil ||
		!slices.Equal(read[0].Without, []string{"status.resourceStatus"}) {
		t.Errorf("works are read as %+v", read)
	}

	for _, whole := range []bool{false, true} {
		read = nil
		keep := workcache.Keep{Status: workcache.Conditions, ResourceStatus: whole}
		if _, err := workcache.NewCache(m, "example.org/label", keep); err != nil {
			t.Fatal(err)
		}
		if len(read) != 1 || read[0].Labels.String() != "example.org/label" || (read[0].Without == nil) != whole {
			t.Errorf("labelled works are read as %+v", read)
		}
	}
}
