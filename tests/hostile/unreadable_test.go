package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// resource is where a kind of the wire is, such as
// "work/v1 manifestworks".
func resource(t testing.TB, config *rest.Config, kind, namespace string) dynamic.ResourceInterface {
	t.Helper()
	objects, err := dynamic.NewForConfig(config)
	testkit.Must(t, err)
	groupVersion, plural, _ := strings.Cut(kind, " ")
	group, version, _ := strings.Cut(groupVersion, "/")
	r := objects.Resource(schema.GroupVersionResource{Group: group + ".open-cluster-management.io", Version: version, Resource: plural})
	if namespace == "" {
		return r
	}
	return r.Namespace(namespace)
}

// patched sends a merge patch of an object, or of a subresource.
func patched(r dynamic.ResourceInterface, name, body string, subresource ...string) error {
	_, err := r.Patch(context.Background(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresource...)
	return err
}

func created(t testing.TB, r dynamic.ResourceInterface, body string) error {
	t.Helper()
	o := &unstructured.Unstructured{}
	testkit.Must(t, json.Unmarshal([]byte(body), &o.Object))
	_, err := r.Create(context.Background(), o, metav1.CreateOptions{})
	return err
}

// One object that programs cannot read, though the schema of its kind takes it,
// would blind the hub's controllers to all objects of the kind.
func TestNobodyWritesWhatProgramsCannotRead(t *testing.T) {
	ctx := context.Background()
	w := ownWorld(t) // a test that fails leaves a hub that is blind
	const name, next = "unreadable", "unreadable-next"
	agent := w.Joined(t, name, "a")
	c := w.admin(t)
	testkit.Must(t, c.Create(ctx, newWork(t, name, "w", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}})))
	testkit.Must(t, c.Create(ctx, &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "x"}}))
	tenant := w.Tenant(t, "unreadable-tenant", "author", rbacv1.PolicyRule{
		APIGroups: []string{"cluster.open-cluster-management.io", "work.open-cluster-management.io", "addon.open-cluster-management.io"}, Resources: []string{"*"}, Verbs: []string{"*"},
	})
	_, token := w.BootstrapToken(t, cluster.BoundBootstrapGroup("unreadable-new"), nil)

	// Times that the schema's check of formats takes and Go's parser does not.
	for _, at := range []string{"2026-01-01t00:00:00z", "2026-01-01T00:00:00+99:99"} {
		conditions := `{"status":{"conditions":[{"type":"X","status":"True","reason":"R","message":"","lastTransitionTime":"` + at + `"}]}}`
		refusedFor(t, "an agent's status of its cluster", patched(resource(t, agent, "cluster/v1 managedclusters", ""), name, conditions, "status"), "ManagedCluster", "parsing time")
		refused(t, "an agent's status of a work", patched(resource(t, agent, "work/v1 manifestworks", name), "w", conditions, "status"))
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			refused(t, "an agent's status of an add-on in "+version, patched(resource(t, agent, "addon/"+version+" managedclusteraddons", name), "x", conditions, "status"))
		}
	}
	// A quantity that takes a processor for minutes, and all memory.
	const bomb = `"12345678901234567890e999999999"`
	for _, field := range []string{"capacity", "allocatable"} {
		refusedFor(t, "an agent's "+field, patched(resource(t, agent, "cluster/v1 managedclusters", ""), name, `{"status":{"`+field+`":{"cpu":`+bomb+`}}}`, "status"), "exponent")
	}
	refused(t, "a new cluster's capacity", created(t, resource(t, w.WithToken(token), "cluster/v1 managedclusters", ""),
		`{"apiVersion":"cluster.open-cluster-management.io/v1","kind":"ManagedCluster","metadata":{"name":"unreadable-new"},"spec":{},"status":{"capacity":{"cpu":`+bomb+`}}}`))
	refused(t, "a tenant's configuration of an add-on", created(t, resource(t, tenant, "addon/v1beta1 addondeploymentconfigs", "unreadable-tenant"),
		`{"apiVersion":"addon.open-cluster-management.io/v1beta1","kind":"AddOnDeploymentConfig","metadata":{"name":"a"},"spec":{"resourceRequirements":[{"containerID":"a:b:c","resources":{"limits":{"cpu":`+bomb+`}}}]}}`))
	// Numbers that are larger than their field.
	refusedFor(t, "a tenant's placement", created(t, resource(t, tenant, "cluster/v1beta1 placements", "unreadable-tenant"),
		`{"apiVersion":"cluster.open-cluster-management.io/v1beta1","kind":"Placement","metadata":{"name":"a"},"spec":{"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":1099511627776}}}}`), "1099511627776")
	refused(t, "a tenant's replica set", created(t, resource(t, tenant, "work/v1alpha1 manifestworkreplicasets", "unreadable-tenant"),
		`{"apiVersion":"work.open-cluster-management.io/v1alpha1","kind":"ManifestWorkReplicaSet","metadata":{"name":"a"},"spec":{"manifestWorkTemplate":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}]}},
			"placementRefs":[{"name":"p","rolloutStrategy":{"type":"Progressive","progressive":{"maxConcurrency":1099511627776}}}]}}`))
	scores := resource(t, tenant, "cluster/v1alpha1 addonplacementscores", "unreadable-tenant")
	testkit.Must(t, created(t, scores, `{"apiVersion":"cluster.open-cluster-management.io/v1alpha1","kind":"AddOnPlacementScore","metadata":{"name":"a"}}`))
	refused(t, "a tenant's scores", patched(scores, "a", `{"status":{"validUntil":"2026-01-01t00:00:00z"}}`, "status"))

	// After all that the hub still sees what happens.
	testkit.Must(t, c.Create(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: next}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}))
	harmless(t, "stopping the hub with what it cannot read", testkit.Poll(testkit.Timeout, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := c.Get(ctx, client.ObjectKey{Name: next}, mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionHubAccepted) {
			return fmt.Errorf("the cluster %s is not accepted: %+v", next, mc.Status.Conditions)
		}
		return nil
	}))
}
