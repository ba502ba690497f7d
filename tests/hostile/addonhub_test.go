package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

const newerAddOns = "addon/v1beta1 managedclusteraddons"

// templateAddOn is an add-on from a template of its name, which users install by hand.
// grants are the roles that its agents get in the namespace vault.
func (w *world) templateAddOn(t testing.TB, name, vault string, grants ...string) *addonv1alpha1.ClusterManagementAddOn {
	t.Helper()
	template := &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	template.Spec.AddonName = name
	template.Spec.AgentSpec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"` + name[:min(len(name), 200)] + `"}}`),
	}}}
	spec := addonv1alpha1.RegistrationSpec{Type: addonv1alpha1.RegistrationTypeKubeClient, KubeClient: &addonv1alpha1.KubeClientRegistrationConfig{}}
	for _, role := range grants {
		spec.KubeClient.HubPermissions = append(spec.KubeClient.HubPermissions, addonv1alpha1.HubPermissionConfig{
			Type: addonv1alpha1.HubPermissionsBindingSingleNamespace, SingleNamespace: &addonv1alpha1.SingleNamespaceBindingConfig{
				Namespace: vault, RoleRef: addonv1alpha1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			},
		})
	}
	template.Spec.Registration = []addonv1alpha1.RegistrationSpec{spec}
	a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: name}}
	a.Spec.SupportedConfigs = []addonv1alpha1.ConfigMeta{{
		ConfigGroupResource: addonv1alpha1.ConfigGroupResource{Group: addon.GroupName, Resource: addon.TemplateResource},
		DefaultConfig:       &addonv1alpha1.ConfigReferent{Name: name},
	}}
	for _, o := range []client.Object{template, a} {
		testkit.Must(t, w.admin(t).Create(context.Background(), o))
		t.Cleanup(func() { _ = w.admin(t).Delete(context.Background(), o) })
	}
	return a
}

// install installs an add-on in a cluster, and returns it when it has a condition.
func (w *world) install(t testing.TB, cluster, name, condition string) *addonv1alpha1.ManagedClusterAddOn {
	t.Helper()
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name}}
	testkit.Must(t, w.admin(t).Create(context.Background(), a))
	testkit.Eventually(t, func() error {
		if err := w.admin(t).Get(context.Background(), client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(a.Status.Conditions, condition) {
			return fmt.Errorf("the add-on %s of %s is not %s: %+v", name, cluster, condition, a.Status)
		}
		return nil
	})
	return a
}

// An agent wants the rights that another add-on's template gives: it says that this
// template counts for an add-on of its own.
func TestAgentTakesNoOtherTemplate(t *testing.T) {
	ctx := context.Background()
	const name, plain, rich, vault = "template-thief", "thief-plain", "thief-rich", "thief-vault"
	agent, c := hub.Joined(t, name, "a"), hub.admin(t)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "thief-role", Labels: map[string]string{addon.AggregateToManagerLabel: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
	}
	testkit.Must(t, c.Create(ctx, role))
	testkit.Must(t, c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: vault}}))
	hub.templateAddOn(t, plain, vault)
	hub.templateAddOn(t, rich, vault, role.Name)
	a := hub.install(t, name, plain, registration.ConditionRegistrationApplied)
	stolen := &addonv1alpha1.ClusterManagementAddOn{}
	testkit.Eventually(t, func() error {
		if err := c.Get(ctx, client.ObjectKey{Name: rich}, stolen); err != nil {
			return err
		}
		if len(stolen.Status.DefaultConfigReferences) == 0 || stolen.Status.DefaultConfigReferences[0].DesiredConfig.SpecHash == "" {
			return fmt.Errorf("the template of %s has no hash: %+v", rich, stolen.Status)
		}
		return nil
	})
	want, err := json.Marshal(stolen.Status.DefaultConfigReferences[0].DesiredConfig)
	testkit.Must(t, err)
	reference := `[{"group":"` + addon.GroupName + `","resource":"` + addon.TemplateResource + `","desiredConfig":` + string(want) + `}]`
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		testkit.Must(t, patched(resource(t, agent, "addon/"+version+" managedclusteraddons", name), plain, `{"status":{"configReferences":`+reference+`}}`, "status"))
		have := &addonv1alpha1.ManagedClusterAddOn{}
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(a), have))
		if len(have.Status.ConfigReferences) != 1 || have.Status.ConfigReferences[0].DesiredConfig.Name != plain {
			t.Errorf("in %s an agent chooses a template: %+v", version, have.Status.ConfigReferences)
			continue
		}
		harmless(t, "an agent chooses a template in "+version, nil)
	}
	// The other add-on's agents have the role, these not.
	hub.install(t, name, rich, registration.ConditionRegistrationApplied)
	bindings := &rbacv1.RoleBindingList{}
	testkit.Must(t, c.List(ctx, bindings, client.InNamespace(vault)))
	if len(bindings.Items) == 0 {
		t.Fatal("the add-on's agents have not got their role")
	}
	for _, b := range bindings.Items {
		if slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return strings.Contains(s.Name, plain) }) {
			t.Errorf("the add-on without rights has got some: %+v", b)
		}
	}
}

// An agent fills the status of its add-on with whatever fits. Others notice nothing,
// and an administrator can still look.
func TestAgentFloodsTheStatusOfAnAddOn(t *testing.T) {
	ctx := context.Background()
	const name, other, flooded = "addon-flood", "addon-flood-other", "flooded"
	agent := hub.Joined(t, name, "a")
	hub.Joined(t, other, "a")
	hub.templateAddOn(t, flooded, "default")
	hub.install(t, name, flooded, registration.ConditionRegistrationApplied)
	status := func(body any) error {
		raw, err := json.Marshal(map[string]any{"status": body})
		testkit.Must(t, err)
		return patched(resource(t, agent, newerAddOns, name), flooded, string(raw), "status")
	}
	var many []map[string]any
	for i := range 10_000 {
		many = append(many, map[string]any{"type": "customSigner", "customSigner": map[string]any{"signerName": fmt.Sprintf("example.org/s-%d", i)}})
	}
	testkit.Must(t, status(map[string]any{"registrations": many}))
	a := &addonv1alpha1.ManagedClusterAddOn{}
	testkit.Must(t, hub.admin(t).Get(ctx, client.ObjectKey{Namespace: name, Name: flooded}, a))
	if len(a.Status.Registrations) != 1 {
		t.Errorf("an agent has made %d registrations", len(a.Status.Registrations))
	}
	harmless(t, "an agent makes 10,000 registrations", nil)

	var conditions []metav1.Condition
	for i := range 15 {
		conditions = append(conditions, metav1.Condition{
			Type: fmt.Sprintf("Flood%d", i), Status: metav1.ConditionFalse, Reason: "Flood", LastTransitionTime: metav1.Now(), Message: strings.Repeat("\x1b[2J", 1_000),
		})
	}
	conditions = append(conditions, metav1.Condition{
		Type: addon.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "Flood", LastTransitionTime: metav1.Now(), Message: strings.Repeat("\x1b[2J", 8_000),
	})
	testkit.Must(t, status(map[string]any{"conditions": conditions})) // nearly as much as it may
	for range 6 {
		conditions = append(conditions, conditions...)
	}
	attempts.Add(1)
	if err := status(map[string]any{"conditions": conditions}); err == nil {
		t.Error("an agent has stored 13 MB")
	} else {
		refusals.Add(1)
	}
	hub.install(t, other, flooded, registration.ConditionRegistrationApplied)
	harmless(t, "an agent holds up others' add-ons", nil)

	out, err := exec.Command(program, "status", "--kubeconfig", hub.process.Kubeconfig).CombinedOutput()
	switch {
	case err != nil:
	case !strings.Contains(string(out), "Flood") || strings.Contains(string(out), "\x1b"):
		err = fmt.Errorf("muster status says %q", out)
	case len(out) > 1<<20:
		err = fmt.Errorf("muster status says %d bytes", len(out))
	}
	harmless(t, "an agent writes to an administrator's terminal", err)
}

// A manager of an add-on that names configurations without saying what it wants stops
// nobody; upstream's hub dies of it.
func TestConfigurationWithoutContent(t *testing.T) {
	const name, broken, next = "addon-nil", "nil-config", "nil-next"
	hub.Joined(t, name, "a")
	hub.templateAddOn(t, broken, "default")
	hub.templateAddOn(t, next, "default")
	hub.install(t, name, broken, addon.ConditionConfigured)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		reference := `{"group":"` + addon.GroupName + `","resource":"` + addon.TemplateResource + `"` + map[bool]string{true: `,"name":"x"`}[version == "v1alpha1"] + `}`
		testkit.Must(t, patched(resource(t, hub.Admin, "addon/"+version+" managedclusteraddons", name), broken, `{"status":{"configReferences":[`+reference+`]}}`, "status"))
	}
	hub.install(t, name, next, addon.ConditionConfigured)
	testkit.Eventually(t, func() error {
		a := &addonv1alpha1.ManagedClusterAddOn{}
		err := hub.admin(t).Get(context.Background(), client.ObjectKey{Namespace: name, Name: broken}, a)
		if err == nil && (len(a.Status.ConfigReferences) != 1 || a.Status.ConfigReferences[0].DesiredConfig == nil) {
			err = fmt.Errorf("the references are %+v", a.Status.ConfigReferences)
		}
		return err
	})
	harmless(t, "a manager stops the hub with a reference to nothing", nil)
}

// A tenant has all rights to add-ons in a namespace that is not a cluster's.
func TestTenantsAndAddOns(t *testing.T) {
	ctx := context.Background()
	const name, namespace, theirs = "addon-tenants", "addon-tenant", "tenants-target"
	hub.Joined(t, name, "a")
	hub.templateAddOn(t, theirs, "default")
	tenant := testfleet.Client(t, hub.Tenant(t, namespace, "author", rbacv1.PolicyRule{APIGroups: []string{addon.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}}))
	in := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: theirs}
	}
	refused(t, "a tenant makes an add-on for all clusters", tenant.Create(ctx, &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: "of-tenant"}}))
	refused(t, "a tenant makes a template", tenant.Create(ctx, &addonv1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: "of-tenant"}}))
	refused(t, "a tenant installs an add-on in a cluster", tenant.Create(ctx, &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: in(name)}))
	refused(t, "a tenant configures others' add-ons", tenant.Create(ctx, &addonv1alpha1.AddOnDeploymentConfig{ObjectMeta: in("default")}))
	refused(t, "a tenant lists the add-ons of all clusters", tenant.List(ctx, &addonv1alpha1.ManagedClusterAddOnList{}))

	// An add-on where no cluster is gets nothing of the hub: no service account whose
	// token the tenant could have, no rights, no work.
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: in(namespace)}
	testkit.Must(t, tenant.Create(ctx, a))
	token := []byte(`{"status":{"kubeClientDriver":"token","registrations":[{"signerName":"` + addon.KubeClientSigner + `"}]}}`)
	testkit.Must(t, tenant.Status().Patch(ctx, a, client.RawPatch(types.MergePatchType, token)))
	hub.install(t, name, theirs, registration.ConditionRegistrationApplied) // the hub has seen the one before by now
	for what, list := range map[string]client.ObjectList{"roles": &rbacv1.RoleList{}, "bindings": &rbacv1.RoleBindingList{}, "service accounts": &corev1.ServiceAccountList{}, "works": &workv1.ManifestWorkList{}} {
		testkit.Must(t, hub.admin(t).List(ctx, list, client.InNamespace(namespace)))
		testkit.Must(t, meta.EachListItem(list, func(o runtime.Object) error {
			if m, err := meta.Accessor(o); err != nil || m.GetName() != "author" && m.GetName() != "default" {
				t.Errorf("an add-on where no cluster is has got %s: %s (%v)", what, m.GetName(), err)
			}
			return nil
		}))
		harmless(t, "an add-on where no cluster is gets "+what, nil)
	}
}

// Somebody defines a thousand add-ons, whose placements don't exist, and one with the
// longest name that there is. Another one is installed as ever.
func TestAThousandAddOns(t *testing.T) {
	ctx := context.Background()
	const name = "addon-crowd"
	hub.Joined(t, name, "a")
	c := hub.admin(t)
	crowd := func(i int) *addonv1alpha1.ClusterManagementAddOn {
		a := &addonv1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("crowd-%d", i)}}
		a.Spec.InstallStrategy = addonv1alpha1.InstallStrategy{Type: addonv1alpha1.InstallStrategyPlacements, Placements: []addonv1alpha1.PlacementStrategy{
			{PlacementRef: addonv1alpha1.PlacementRef{Namespace: "default", Name: fmt.Sprintf("crowd-%d", i)}},
		}}
		return a
	}
	each := func(do func(*addonv1alpha1.ClusterManagementAddOn) error) {
		t.Helper()
		var group errgroup.Group
		group.SetLimit(16)
		for i := range 1000 {
			group.Go(func() error { return do(crowd(i)) })
		}
		testkit.Must(t, group.Wait())
	}
	each(func(a *addonv1alpha1.ClusterManagementAddOn) error { return c.Create(ctx, a) })
	defer each(func(a *addonv1alpha1.ClusterManagementAddOn) error { return client.IgnoreNotFound(c.Delete(ctx, a)) })
	long := strings.Repeat("a", 253)
	hub.templateAddOn(t, long, "default")
	testkit.Must(t, c.Create(ctx, &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: long}}))
	hub.templateAddOn(t, "in-the-crowd", "default")
	hub.install(t, name, "in-the-crowd", registration.ConditionRegistrationApplied)
	harmless(t, "a thousand add-ons hold up another", nil)
	testkit.Must(t, c.Delete(ctx, &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: long}}))
	testkit.Eventually(t, func() error {
		err := c.Get(ctx, client.ObjectKey{Namespace: name, Name: long}, &addonv1alpha1.ManagedClusterAddOn{})
		if client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the add-on with the long name is still there (%v)", err)
		}
		return nil
	})
	harmless(t, "an add-on with a name of 253 characters stays for ever", nil)
	if code, body, err := getRaw(t, hub.Admin, "/readyz"); err != nil || code != http.StatusOK {
		t.Errorf("the hub is not ready: %d %s %v", code, body, err)
	}
}
