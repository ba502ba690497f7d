package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	aboutv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/about/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
)

func TestClaimsAndNodesAreReportedAsTheyChange(t *testing.T) {
	f := newCluster(t, "reporting")
	f.join()
	claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "id.k8s.io"}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "one"}}
	must(t, env.Client().Create(t.Context(), claim))
	t.Cleanup(func() { _ = env.Client().Delete(context.Background(), claim) })
	f.eventually(func(mc *clusterv1.ManagedCluster) error {
		if got := mc.Status.ClusterClaims; len(got) != 1 || got[0] != (clusterv1.ManagedClusterClaim{Name: "id.k8s.io", Value: "one"}) {
			return fmt.Errorf("claims %+v", got)
		}
		return nil
	})

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	must(t, env.Client().Create(t.Context(), node))
	t.Cleanup(func() { _ = env.Client().Delete(context.Background(), node) })
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4")}
	node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("3500m")}
	must(t, env.Client().Status().Update(t.Context(), node))
	f.eventually(func(mc *clusterv1.ManagedCluster) error {
		capacity, allocatable := mc.Status.Capacity["cpu"], mc.Status.Allocatable["cpu"]
		if capacity.String() != "4" || allocatable.String() != "3500m" {
			return fmt.Errorf("capacity %v, allocatable %v", mc.Status.Capacity, mc.Status.Allocatable)
		}
		return nil
	})

	must(t, env.Client().Delete(t.Context(), claim))
	f.eventually(func(mc *clusterv1.ManagedCluster) error {
		if got := mc.Status.ClusterClaims; len(got) != 0 {
			return fmt.Errorf("claims %+v", got)
		}
		return nil
	})
}

// propertyDefinition is as small as the cluster-property definition of a real
// cluster could be.
func propertyDefinition() *apiextensionsv1.CustomResourceDefinition {
	object := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "clusterproperties.about.k8s.io",
			Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, for a test"},
		},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "about.k8s.io", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusterproperties", Singular: "clusterproperty", Kind: "ClusterProperty", ListKind: "ClusterPropertyList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &object},
			}},
		},
	}
}

func TestPropertiesAreReportedOnceTheClusterServesThem(t *testing.T) {
	claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "left.out"}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "x"}}
	must(t, env.Client().Create(t.Context(), claim))
	t.Cleanup(func() { _ = env.Client().Delete(context.Background(), claim) })
	f := newCluster(t, "properties")
	f.options.Features = gates("ClusterProperty=true,ClusterClaim=false")
	f.join() // the kind is not there yet, which is not a reason to say nothing
	if got := f.get().Status; got.Version.Kubernetes == "" || len(got.ClusterClaims) != 0 {
		t.Errorf("the first report is %+v", got)
	}
	definition := propertyDefinition()
	must(t, definitions.Install(t.Context(), env.Config("test"), []*apiextensionsv1.CustomResourceDefinition{definition}))
	t.Cleanup(func() {
		c, err := apiextensions.NewForConfig(env.Config("test"))
		must(t, err)
		must(t, c.CustomResourceDefinitions().Delete(context.Background(), definition.Name, metav1.DeleteOptions{}))
	})
	property := &aboutv1alpha1.ClusterProperty{ObjectMeta: metav1.ObjectMeta{Name: "zone"}, Spec: aboutv1alpha1.ClusterPropertySpec{Value: "a"}}
	must(t, env.Client().Create(t.Context(), property))
	reported := func(want ...clusterv1.ManagedClusterClaim) {
		t.Helper()
		f.eventually(func(mc *clusterv1.ManagedCluster) error {
			if !slices.Equal(mc.Status.ClusterClaims, want) {
				return fmt.Errorf("claims %+v, want %+v", mc.Status.ClusterClaims, want)
			}
			return nil
		})
	}
	reported(clusterv1.ManagedClusterClaim{Name: "zone", Value: "a"})
	property.Spec.Value = "b"
	must(t, env.Client().Update(t.Context(), property))
	reported(clusterv1.ManagedClusterClaim{Name: "zone", Value: "b"})
}

func TestManagedNamespaces(t *testing.T) {
	f := newCluster(t, "spaced")
	f.join()
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "with-namespaces"}}
	set.Spec.ManagedNamespaces = []clusterv1beta2.ManagedNamespaceConfig{{Name: "team-a"}}
	must(t, fleet.client.Create(t.Context(), set))
	t.Cleanup(func() { _ = fleet.client.Delete(context.Background(), set) })
	must(t, fleet.client.Patch(t.Context(), f.get(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, cluster.ClusterSetLabel, set.Name))))
	f.eventually(func(mc *clusterv1.ManagedCluster) error {
		if n := mc.Status.ManagedNamespaces; len(n) != 1 || !meta.IsStatusConditionTrue(n[0].Conditions, "NamespaceAvailable") {
			return fmt.Errorf("managed namespaces %+v", n)
		}
		return nil
	})
	label := cluster.ManagedNamespaceLabel(fleet.url)
	ns := &corev1.Namespace{}
	must(t, env.Client().Get(t.Context(), client.ObjectKey{Name: "team-a"}, ns))
	if ns.Labels[label] != "true" || len(strings.TrimPrefix(label, "clusterset.open-cluster-management.io/")) != 63 {
		t.Errorf("labels %v", ns.Labels)
	}

	must(t, fleet.client.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"managedNamespaces":null}}`))))
	testenv.Eventually(t, func() error {
		if err := env.Client().Get(context.Background(), client.ObjectKey{Name: "team-a"}, ns); err != nil {
			return err
		}
		if ns.Labels[label] != "false" {
			return fmt.Errorf("labels %v", ns.Labels)
		}
		return nil
	})
}

func TestClockOutOfSyncStopsReports(t *testing.T) {
	f := newCluster(t, "skewed")
	f.join()
	// In one write, so that there is no moment in which the agent may report.
	f.patchStatus(func(s *clusterv1.ManagedClusterStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: cluster.ConditionClockSynced, Status: metav1.ConditionFalse, Reason: cluster.ReasonClockOutOfSync})
		meta.RemoveStatusCondition(&s.Conditions, cluster.ConditionJoined)
	})
	claim := &clusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "late.example.com"}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "x"}}
	must(t, env.Client().Create(t.Context(), claim))
	t.Cleanup(func() { _ = env.Client().Delete(context.Background(), claim) })
	// Another agent in the same cluster reports it, so this one has seen it too.
	other := newCluster(t, "synced")
	other.join()
	other.eventually(func(mc *clusterv1.ManagedCluster) error {
		if len(mc.Status.ClusterClaims) == 0 {
			return fmt.Errorf("the claim is not reported")
		}
		return nil
	})
	if got := f.get(); meta.FindStatusCondition(got.Status.Conditions, cluster.ConditionJoined) != nil || len(got.Status.ClusterClaims) != 0 {
		t.Errorf("the status was written: %+v", got.Status)
	}
	f.patchStatus(func(s *clusterv1.ManagedClusterStatus) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: cluster.ConditionClockSynced, Status: metav1.ConditionTrue, Reason: cluster.ReasonClockSynced})
	})
	f.awaitCondition(cluster.ConditionJoined, metav1.ConditionTrue)
}
