package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// What a cluster's agent claims is a text in the objects of its own cluster, and who may
// write nothing but WorkOverrides changes no set that asks for more.
func TestHostileOverrides(t *testing.T) {
	ctx, admin := context.Background(), hub.admin(t)
	const namespace, honest, hostile = "overrides-team", "overrides-honest", "overrides-hostile"
	honestly := testfleet.Client(t, hub.Joined(t, honest, "a"))
	agent := testfleet.Client(t, hub.Joined(t, hostile, "a"))
	verbs := []string{"get", "list", "create", "update", "patch", "delete"}
	tenant := testfleet.Client(t, hub.Tenant(t, namespace, "overrider",
		rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"workoverrides"}, Verbs: verbs}))

	binding := &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"},
	}
	binding.Spec.ClusterSet = "default"
	testkit.Must(t, admin.Create(ctx, binding))
	placement := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"}}
	placement.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
	one := clusterv1beta1.ClusterPredicate{}
	one.RequiredClusterSelector.LabelSelector.MatchLabels = map[string]string{"overrides": "test"}
	placement.Spec.Predicates = []clusterv1beta1.ClusterPredicate{one}
	testkit.Must(t, admin.Create(ctx, placement))
	for _, name := range []string{honest, hostile} {
		testkit.Must(t, admin.Patch(ctx, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}},
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"overrides":"test"}}}`))))
	}
	claim := func(agent client.Client, name, value string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			mc := &clusterv1.ManagedCluster{}
			if err := agent.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
				return err
			}
			mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "zone", Value: value}}
			return agent.Status().Update(ctx, mc)
		})
	}
	content := func(name string) string {
		list := &workv1.ManifestWorkList{}
		testkit.Must(t, admin.List(ctx, list, client.InNamespace(name)))
		if len(list.Items) != 1 || len(list.Items[0].Spec.Workload.Manifests) != 1 {
			return fmt.Sprintf("%d works", len(list.Items))
		}
		return string(list.Items[0].Spec.Workload.Manifests[0].Raw)
	}
	has := func(name, want string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			if have := content(name); !strings.Contains(have, want) {
				return fmt.Errorf("%s has %s, want %s", name, have, want)
			}
			return nil
		})
	}

	claim(honestly, honest, "z1")
	claim(agent, hostile, `{{SECRET}}"},"kind":"ClusterRoleBinding`)
	set := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web",
		Annotations: map[string]string{muster.OverrideAnnotation: `{"values":[{"name":"ZONE","claim":"zone"},` +
			`{"name":"SECRET","expression":"'topsecret'"}]}`}}}
	set.Spec.PlacementRefs = []workv1alpha1.LocalPlacementReference{{Name: "all"}}
	set.Spec.PlacementRefs[0].RolloutStrategy.Type = "All"
	config := configMap("default", "web")
	config.Data = map[string]string{"zone": strings.Repeat("{{ZONE}} ", 100)}
	set.Spec.ManifestWorkTemplate = newWork(t, "", "", config).Spec
	testkit.Must(t, admin.Create(ctx, set))
	has(honest, "z1 z1")
	has(hostile, `{{SECRET}}\"},\"kind\":\"ClusterRoleBinding`)
	if have := content(hostile); strings.Contains(have, "topsecret") {
		t.Errorf("a claim was filled in again: %s", have)
	}

	// The next content reaches the others, whatever the agent claims. A long claim fits into
	// the content of now, and not into the next.
	long := strings.Repeat("x", 1024)
	claim(agent, hostile, long)
	has(hostile, long)
	config.Data["zone"] = strings.Repeat("{{ZONE}} next ", 500)
	set.Spec.ManifestWorkTemplate = newWork(t, "", "", config).Spec
	testkit.Must(t, admin.Get(ctx, client.ObjectKeyFromObject(set), &workv1alpha1.ManifestWorkReplicaSet{}))
	testkit.Eventually(t, func() error {
		now := &workv1alpha1.ManifestWorkReplicaSet{}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(set), now); err != nil {
			return err
		}
		now.Spec = set.Spec
		return admin.Update(ctx, now)
	})
	has(honest, "z1 next z1 next")
	if have := content(hostile); !strings.Contains(have, long) || strings.Contains(have, "next") {
		t.Errorf("a work that can't be filled in is no longer what it was: %.300s", have)
	}

	// In the same way it is a text in an add-on, and no variable of it.
	claim(agent, hostile, `{{HUB_KUBECONFIG}}{{ {{"},"kind":"ClusterRoleBinding`)
	const logger = "overrides-logger"
	const zone = `{"values":[{"name":"ZONE","claim":"zone"}]}`
	template := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{
		Name: logger, Annotations: map[string]string{muster.OverrideAnnotation: zone},
	}}
	template.Spec.AddonName = logger
	template.Spec.AgentSpec = newWork(t, "", "", config).Spec
	definition := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: logger}}
	definition.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{{
		ConfigGroupResource: configured(addon.TemplateResource),
		DefaultConfig:       &addonv1alpha1.ConfigReferent{Name: logger},
	}}
	testkit.Must(t, admin.Create(ctx, template))
	testkit.Must(t, admin.Create(ctx, definition))
	for name, want := range map[string]string{
		honest: "z1 next z1 next", hostile: `{{HUB_KUBECONFIG}}{{ {{\"},\"kind\":\"ClusterRoleBinding next`,
	} {
		hub.install(t, name, logger, registration.ConditionRegistrationApplied)
		testkit.Eventually(t, func() error {
			w, deployed := &workv1.ManifestWork{}, addon.DeployWorkName(logger)+"-0"
			if err := admin.Get(ctx, client.ObjectKey{Namespace: name, Name: deployed}, w); err != nil {
				return err
			}
			if have := string(w.Spec.Workload.Manifests[0].Raw); !strings.Contains(have, want) {
				return fmt.Errorf("%s has %.300s, want %s", name, have, want)
			}
			return nil
		})
	}
	refused(t, "an agent annotates a template", agent.Patch(ctx, template.DeepCopy(), client.RawPatch(
		types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))))
	refused(t, "a tenant annotates a template", tenant.Patch(ctx, template.DeepCopy(), client.RawPatch(
		types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))))
	testkit.Must(t, admin.Delete(ctx, definition))
	testkit.Must(t, admin.Delete(ctx, template))

	// Agents read no overrides, and write none; nor do they choose their labels.
	there := &v1alpha1.WorkOverride{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "there"}}
	testkit.Must(t, tenant.Create(ctx, there))
	refused(t, "an agent reads an override", agent.Get(ctx, client.ObjectKeyFromObject(there), there.DeepCopy()))
	for _, in := range []string{namespace, hostile, ""} {
		refused(t, "an agent lists overrides", agent.List(ctx, &v1alpha1.WorkOverrideList{}, client.InNamespace(in)))
	}
	for _, in := range []string{namespace, hostile} {
		refused(t, "an agent makes an override", agent.Create(ctx, &v1alpha1.WorkOverride{
			ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "mine"}}))
	}
	refused(t, "an agent changes its labels", agent.Patch(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: hostile}},
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"tier":"gold"}}}`))))

	// Who may write overrides alone can't give a set one.
	refused(t, "a tenant annotates a set", tenant.Patch(ctx, set.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+muster.OverrideAnnotation+`":"there"}}}`))))
	refused(t, "a tenant writes overrides elsewhere", tenant.Create(ctx, &v1alpha1.WorkOverride{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "there"}}))
	testkit.Must(t, admin.Delete(ctx, set))
	testkit.Must(t, admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
}
