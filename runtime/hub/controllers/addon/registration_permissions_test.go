package addon_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/addons"
	addoncontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/registration"
)

func inCluster(role string) v1alpha1.HubPermissionConfig {
	return v1alpha1.HubPermissionConfig{
		Type: v1alpha1.HubPermissionsBindingCurrentCluster, CurrentCluster: &v1alpha1.CurrentClusterBindingConfig{ClusterRoleName: role},
	}
}

func inNamespace(namespace, kind, role string) v1alpha1.HubPermissionConfig {
	return v1alpha1.HubPermissionConfig{
		Type: v1alpha1.HubPermissionsBindingSingleNamespace, SingleNamespace: &v1alpha1.SingleNamespaceBindingConfig{
			Namespace: namespace, RoleRef: v1alpha1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		},
	}
}

// role makes a ClusterRole of the fleet, which may get and list a resource of the core
// group, and returns its name.
func (f *registrationFleet) role(name, resource string) string {
	f.Helper()
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.name + "-" + name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get", "list"}},
	}}
	f.Make(r)
	return r.Name
}

// bound are the add-on's role bindings in a namespace, as "name -> role: subjects",
// with short names.
func (f *registrationFleet) bound(namespace string, clusters ...string) []string {
	f.Helper()
	list := &rbacv1.RoleBindingList{}
	f.Must(f.List(context.Background(), list, client.InNamespace(namespace)))
	var out []string
	for _, b := range list.Items {
		var who []string
		for _, s := range b.Subjects {
			who = append(who, s.Kind+" "+s.Name)
		}
		line := fmt.Sprintf("%s -> %s: %s", b.Name, b.RoleRef.Name, strings.Join(who, ", "))
		line = strings.ReplaceAll(line, f.name, "A")
		for i, c := range clusters {
			line = strings.ReplaceAll(line, c, fmt.Sprintf("c%d", i+1))
		}
		out = append(out, strings.ReplaceAll(line, "system:open-cluster-management:", ""))
	}
	return out
}

func (f *registrationFleet) mustBeBound(namespace string, clusters []string, want ...string) {
	f.Helper()
	if got := f.bound(namespace, clusters...); !slices.Equal(got, want) {
		f.Errorf("the bindings in %s are\n%s\nwant\n%s", namespace, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const ofClusterRole = "open-cluster-management:A:clusterrole:agent -> A-maps: "

// may asks whether the agent of the add-on in a cluster may get config maps somewhere.
func (f *registrationFleet) may(cluster, namespace string) bool {
	f.Helper()
	group := "system:open-cluster-management:cluster:" + cluster + ":addon:" + f.name
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: group + ":agent:" + f.name + "-agent", Groups: []string{group, "system:open-cluster-management:addon:" + f.name, "system:authenticated"},
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Resource: "configmaps", Verb: "get"},
	}}
	f.Must(f.Create(context.Background(), review))
	return review.Status.Allowed
}

func (f *registrationFleet) mustBeAllowed(cluster, namespace string, want bool) {
	f.Helper()
	f.Eventually(func() error { // the authorizer learns of bindings by a watch
		if got := f.may(cluster, namespace); got != want {
			return fmt.Errorf("the agent in %s may get config maps in %s: %v, want %v", cluster, namespace, got, want)
		}
		return nil
	})
}

func TestAnAgentHasItsRoleInItsOwnClusterOnly(t *testing.T) {
	f := newRegistrationFleet(t)
	f.template(kubeClient(inCluster(f.role("maps", "configmaps"))))
	c1, c2 := f.cluster(), f.cluster()
	for _, c := range []string{c1, c2} {
		f.configure(c)
		if n := f.pass(c); n != 2 {
			t.Errorf("%d writes, want a binding and a status", n)
		}
		f.mustBeApplied(c, isApplied)
		f.mustBeBound(c, []string{c}, ofClusterRole+"User cluster:c1:addon:A:agent:A-agent, Group cluster:c1:addon:A")
	}
	f.mustBeAllowed(c1, c1, true)
	f.mustBeAllowed(c2, c2, true)
	f.mustBeAllowed(c1, c2, false)
	b := &rbacv1.RoleBinding{}
	f.Must(f.Get(context.Background(), client.ObjectKey{Namespace: c1, Name: "open-cluster-management:" + f.name + ":clusterrole:agent"}, b))
	owner := metav1.OwnerReference{APIVersion: "addon.open-cluster-management.io/v1beta1", Kind: "ManagedClusterAddOn", Name: f.name, UID: f.addOn(c1).UID}
	if len(b.OwnerReferences) != 1 || b.OwnerReferences[0] != owner || b.Labels["open-cluster-management.io/addon-name"] != f.name {
		t.Errorf("the binding's owners are %+v, and its labels %v", b.OwnerReferences, b.Labels)
	}
	if value, ok := b.Labels["open-cluster-management.io/addon-template-name"]; !ok || value != "" {
		t.Errorf("the label with the template's name is %q (%v)", value, ok)
	}
}

func TestAgentsShareARoleAsLongAsTheyHaveTheAddOn(t *testing.T) {
	f := newRegistrationFleet(t)
	shared := f.Namespace()
	template := f.template(kubeClient(inNamespace(shared, "ClusterRole", f.role("maps", "configmaps"))))
	c1, c2 := f.cluster(), f.cluster()
	both := []string{c1, c2}
	slices.Sort(both)
	c1, c2 = both[0], both[1]
	for _, c := range both {
		f.configure(c)
		f.pass(c)
		f.mustBeApplied(c, isApplied)
	}
	f.mustBeBound(shared, both, ofClusterRole+"Group cluster:c1:addon:A, Group cluster:c2:addon:A")
	f.mustBeAllowed(c2, shared, true)
	f.mustBeAllowed(c2, c1, false)

	// A rollout that has not reached the second cluster leaves it what it has.
	template.Spec.Registration = []v1alpha1.RegistrationSpec{kubeClient()}
	f.Must(f.Update(context.Background(), template))
	f.configure(c1)
	f.pass(c1)
	f.mustBeBound(shared, both, ofClusterRole+"Group cluster:c2:addon:A")
	template.Spec.Registration = []v1alpha1.RegistrationSpec{kubeClient(inNamespace(shared, "ClusterRole", f.name+"-maps"))}
	f.Must(f.Update(context.Background(), template))
	f.configure(c1)
	f.configure(c2)
	f.pass(c1)
	f.mustBeBound(shared, both, ofClusterRole+"Group cluster:c1:addon:A, Group cluster:c2:addon:A")

	f.Remove(f.addOn(c1))
	f.pass(c1)
	f.mustBeBound(shared, both, ofClusterRole+"Group cluster:c2:addon:A")
	f.Remove(f.addOn(c2))
	f.pass(c2)
	f.mustBeBound(shared, both)
}

// A denied cluster's add-ons have no roles, neither their own nor shared ones, and have
// them again when the cluster is accepted.
func TestADeniedClustersAddOnsHaveNoRoles(t *testing.T) {
	f := newRegistrationFleet(t)
	shared := f.Namespace()
	maps := f.role("maps", "configmaps")
	f.template(kubeClient(inCluster(maps), inNamespace(shared, "ClusterRole", maps)))
	c1, c2 := f.cluster(), f.cluster()
	all := []string{c1, c2}
	for _, c := range all {
		f.configure(c)
		f.pass(c)
		f.mustBeApplied(c, isApplied)
	}
	accept := func(yes bool) {
		mc := clusterNamed(c1)
		f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(mc), mc))
		mc.Spec.HubAcceptsClient = &yes
		f.Must(f.Update(context.Background(), mc))
		f.pass(c1)
	}
	accept(false)
	f.mustBeAllowed(c1, c1, false)
	f.mustBeAllowed(c1, shared, false)
	f.mustBeAllowed(c2, shared, true)
	f.pass(c2) // sees to the shared ones as well
	f.mustBeAllowed(c1, shared, false)
	accept(true)
	f.mustBeAllowed(c1, c1, true)
	f.mustBeAllowed(c1, shared, true)
	f.mustBeApplied(c1, isApplied)
}

func TestRolesFollowTheTemplate(t *testing.T) {
	f := newRegistrationFleet(t)
	shared := f.Namespace()
	maps, events := f.role("maps", "configmaps"), f.role("events", "events")
	template := f.template()
	c := f.cluster()
	const user = "User cluster:c1:addon:A:agent:A-agent, Group cluster:c1:addon:A"
	for _, x := range []struct {
		permissions []v1alpha1.HubPermissionConfig
		own, shared []string
	}{
		{permissions: []v1alpha1.HubPermissionConfig{inCluster(maps), inNamespace(shared, "ClusterRole", maps)}, own: []string{ofClusterRole + user}, shared: []string{ofClusterRole + "Group cluster:c1:addon:A"}},
		// Upstream's name again, as it is free.
		{permissions: []v1alpha1.HubPermissionConfig{inCluster(events)}, own: []string{"open-cluster-management:A:clusterrole:agent -> A-events: " + user}},
		// Upstream gives both the same name, and fails.
		{permissions: []v1alpha1.HubPermissionConfig{inCluster(maps), inCluster(events), inCluster(maps)}, own: []string{
			"open-cluster-management:A:clusterrole:agent -> A-events: " + user, "open-cluster-management:A:clusterrole:agent:A-maps -> A-maps: " + user,
		}},
		{permissions: []v1alpha1.HubPermissionConfig{inNamespace(c, "ClusterRole", maps)}},
		{},
	} {
		template.Spec.Registration = []v1alpha1.RegistrationSpec{kubeClient(x.permissions...)}
		f.Must(f.Update(context.Background(), template))
		f.configure(c)
		f.pass(c)
		f.mustBeBound(c, []string{c}, x.own...)
		f.mustBeBound(shared, []string{c}, x.shared...)
	}
}

// Who may write templates gives away no more than the service account of upstream's
// add-on manager may: the API server decides, and its words are in the condition.
func TestATemplateCannotGiveAwayWhatNobodyHasGranted(t *testing.T) {
	f := newRegistrationFleet(t)
	secrets := f.role("secrets", "secrets")
	f.template(kubeClient(inCluster(secrets)))
	c := f.cluster()
	f.configure(c)
	f.pass(c)
	f.mustBeBound(c, []string{c})
	f.mustBeApplied(c, "False/SetPermissionFailed/Failed to set permission for hub agent: bind its agent to the ClusterRole "+secrets+" in the namespace "+c+": rolebindings.rbac.authorization.k8s.io")
	f.mustSay(c, `user "system:serviceaccount:open-cluster-management-hub:addon-manager-controller-sa"`, "is attempting to grant RBAC permissions not currently held",
		`Resources:["secrets"]`, "binding the service account addon-manager-controller-sa of the namespace open-cluster-management-hub to the same role")
	if got := f.registered(c); got != registrationForHub {
		t.Errorf("registered is %q, although the credentials do no harm", got)
	}
	if again := f.Reconcile(f.controller, f.key(c)).RequeueAfter; again == 0 {
		t.Error("it is not tried again")
	}

	f.Make(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: f.name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: secrets},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "open-cluster-management-hub", Name: "addon-manager-controller-sa"}},
	})
	f.Eventually(func() error {
		f.pass(c)
		if len(f.bound(c)) != 1 {
			return errors.New("no binding although it is granted")
		}
		return nil
	})
	f.mustBeApplied(c, isApplied)
	if again := f.Reconcile(f.controller, f.key(c)).RequeueAfter; again != 0 {
		t.Errorf("it is tried again after %s", again)
	}
}

func (f *registrationFleet) mustSay(cluster string, pieces ...string) {
	f.Helper()
	for _, c := range f.addOn(cluster).Status.Conditions {
		for _, piece := range pieces {
			if c.Type == "RegistrationApplied" && !strings.Contains(c.Message, piece) {
				f.Errorf("the message lacks %q: %s", piece, c.Message)
			}
		}
	}
}

// What upstream's manager may do by itself counts nowhere where it would reach the hub
// or other clusters.
func TestNamespacesOfTheHubAndOfClustersNeedAGrant(t *testing.T) {
	f := newRegistrationFleet(t)
	other := f.cluster()
	for namespace, want := range map[string]string{
		"default": isApplied, "kube-public": "False/SetPermissionFailed", "kube-system": "False/SetPermissionFailed", other: "False/SetPermissionFailed",
		f.Namespace(): isApplied,
	} {
		t.Run(namespace, func(t *testing.T) {
			g := newRegistrationFleet(t)
			g.template(kubeClient(inNamespace(namespace, "ClusterRole", g.role("maps", "configmaps"))))
			c := g.cluster()
			g.configure(c)
			g.pass(c)
			g.mustBeApplied(c, want)
			g.mustBeAllowed(c, namespace, want == isApplied)
			g.Remove(g.addOn(c))
			g.pass(c)
		})
	}
}

func TestWhatIsWrongWithAPermissionIsSaid(t *testing.T) {
	for name, x := range map[string]struct {
		permission v1alpha1.HubPermissionConfig
		want       []string
	}{
		"no such role":      {inCluster("no-such-role"), []string{"bind its agent to the ClusterRole no-such-role in the namespace", `"no-such-role" not found`, "the role and the namespace have to exist"}},
		"no such namespace": {inNamespace("no-such-namespace", "ClusterRole", "view"), []string{"in the namespace no-such-namespace", "the role and the namespace have to exist"}},
		"no such kind":      {inNamespace("default", "Rolle", "view"), []string{"bind its agent to the Rolle view in the namespace default"}},
		"no cluster role":   {v1alpha1.HubPermissionConfig{Type: "CurrentCluster"}, []string{"spec.registration[0].kubeClient.hubPermissions[0] of the AddOnTemplate", "is of the type CurrentCluster and lacks currentCluster.clusterRoleName"}},
		"no namespace":      {v1alpha1.HubPermissionConfig{Type: "SingleNamespace"}, []string{"is of the type SingleNamespace and lacks singleNamespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newRegistrationFleet(t)
			f.template(kubeClient(x.permission))
			c := f.cluster()
			f.configure(c)
			f.pass(c)
			f.mustBeApplied(c, "False/SetPermissionFailed/Failed to set permission for hub agent: ")
			f.mustSay(c, x.want...)
		})
	}
}

// Bindings of others are neither taken over nor deleted, whatever they are called.
func TestBindingsOfOthersStay(t *testing.T) {
	f := newRegistrationFleet(t)
	maps := f.role("maps", "configmaps")
	f.template(kubeClient(inCluster(maps)))
	c := f.cluster()
	f.configure(c)
	name := "open-cluster-management:" + f.name + ":clusterrole:agent"
	foreign := func(name string, labels map[string]string) *rbacv1.RoleBinding {
		b := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: c, Name: name, Labels: labels}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: maps},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "somebody"}},
		}
		f.Make(b)
		return b
	}
	first := foreign(name, nil)
	foreign("mine", map[string]string{"open-cluster-management.io/addon-name": f.name, "open-cluster-management.io/addon-template-name": ""})
	f.pass(c)
	f.mustBeApplied(c, isApplied)
	f.mustBeBound(c, []string{c}, "mine -> A-maps: User somebody", ofClusterRole+"User somebody",
		"open-cluster-management:A:clusterrole:agent:A-maps -> A-maps: User cluster:c1:addon:A:agent:A-agent, Group cluster:c1:addon:A")

	f.Remove(&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: c, Name: name + ":" + maps}})
	second := foreign(name+":"+maps, nil)
	f.pass(c)
	f.mustBeApplied(c, "False/SetPermissionFailed")
	f.mustSay(c, fmt.Sprintf("the role bindings %q in the namespace %s are not the add-on's", []string{first.Name, second.Name}, c), "rename or delete one of them")
}

func TestTokensGetTheRolesOnceTheirServiceAccountIsThere(t *testing.T) {
	f := newRegistrationFleet(t)
	shared, maps := f.Namespace(), f.role("maps", "configmaps")
	f.template(kubeClient(inCluster(maps), inNamespace(shared, "ClusterRole", maps)))
	c := f.cluster()
	f.configure(c)
	f.says(c, func(s *v1alpha1.ManagedClusterAddOnStatus) { s.KubeClientDriver = "token" })
	f.pass(c)
	f.mustBeApplied(c, "False/PermissionConfigPending/registration subject not ready")
	f.mustBeBound(c, []string{c})
	f.says(c, func(s *v1alpha1.ManagedClusterAddOnStatus) {
		s.Conditions = append(s.Conditions, metav1.Condition{Type: "TokenInfrastructureReady", Status: "True", Reason: "TokenInfrastructureReady", LastTransitionTime: metav1.Now()})
	})
	f.pass(c)
	f.mustBeApplied(c, isApplied)
	f.mustBeBound(c, []string{c}, ofClusterRole+"User system:serviceaccount:c1:A-agent")
	f.mustBeBound(shared, []string{c}, ofClusterRole+"User system:serviceaccount:c1:A-agent")
	f.says(c, func(s *v1alpha1.ManagedClusterAddOnStatus) { s.KubeClientDriver = "csr" })
	f.pass(c)
	f.mustBeBound(shared, []string{c}, ofClusterRole+"Group cluster:c1:addon:A")
}

func TestAnAddOnThatIsNoLongerFromATemplateHasNoRoles(t *testing.T) {
	f := newRegistrationFleet(t)
	shared, maps := f.Namespace(), f.role("maps", "configmaps")
	f.template(kubeClient(inCluster(maps), inNamespace(shared, "ClusterRole", maps)))
	c := f.cluster()
	f.configure(c)
	f.pass(c)
	before := f.addOn(c).Status
	definition := f.definition()
	definition.Spec.SupportedConfigs = nil
	f.Must(f.Update(context.Background(), definition))
	f.pass(c)
	f.mustBeBound(c, []string{c})
	f.mustBeBound(shared, []string{c})
	if after := f.addOn(c).Status; len(after.Registrations) != len(before.Registrations) {
		t.Error("the status is the new manager's, and was changed")
	}
}

// While an add-on is being deleted, its hooks may need the hub.
func TestRolesStayUntilTheAddOnIsGone(t *testing.T) {
	f := newRegistrationFleet(t)
	maps := f.role("maps", "configmaps")
	template := f.template(kubeClient(inCluster(maps)))
	c := f.cluster()
	f.configure(c)
	f.pass(c)
	a := f.addOn(c)
	a.Finalizers = []string{"example.org/holding"}
	f.Must(f.Update(context.Background(), a))
	f.Must(f.Delete(context.Background(), a))
	template.Spec.Registration = nil
	f.Must(f.Update(context.Background(), template))
	f.configure(c)
	f.pass(c)
	if got := f.bound(c); len(got) != 1 {
		t.Errorf("the bindings are %v", got)
	}
}

// What others delete or change is put right, and what has outlived its add-on while the
// hub was down is removed.
func TestBindingsAreWatched(t *testing.T) {
	f := newRegistrationFleet(t)
	shared, maps := f.Namespace(), f.role("maps", "configmaps")
	left := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: shared, Name: "open-cluster-management:" + f.name + ":role:agent", Labels: map[string]string{
			"open-cluster-management.io/addon-name": f.name, "open-cluster-management.io/addon-template-name": "",
		}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gone"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "x"}},
	}
	f.Must(f.Create(context.Background(), left))
	f.template(kubeClient(inCluster(maps), inNamespace(shared, "ClusterRole", maps)))
	c := f.cluster()
	f.configure(c)
	env.StartManager(t, func(m manager.Manager) error {
		if err := addons.Index(m.GetFieldIndexer()); err != nil {
			return err
		}
		as, err := addons.NewManager(m.GetConfig(), client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper()})
		f.Must(err)
		registering := registration.NewController(m.GetClient(), m.GetCache(), m.GetAPIReader(), as, clocktesting.NewFakePassiveClock(noon))
		return addoncontrollers.NewStages(m.GetClient(), registering).Register(m)
	})
	until := func(namespace string, want ...string) {
		t.Helper()
		f.Eventually(func() error {
			if got := f.bound(namespace, c); !slices.Equal(got, want) {
				return fmt.Errorf("the bindings are %q, want %q", got, want)
			}
			return nil
		})
	}
	const own, group = ofClusterRole + "User cluster:c1:addon:A:agent:A-agent, Group cluster:c1:addon:A", ofClusterRole + "Group cluster:c1:addon:A"
	until(c, own)
	until(shared, group)
	name := "open-cluster-management:" + f.name + ":clusterrole:agent"
	for _, namespace := range []string{c, shared} {
		b := &rbacv1.RoleBinding{}
		f.Must(f.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, b))
		b.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated"}}
		f.Must(f.Update(context.Background(), b))
	}
	until(c, own)
	until(shared, group)
	for _, namespace := range []string{c, shared} {
		f.Must(f.Delete(context.Background(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	}
	until(c, own)
	until(shared, group)
	f.Remove(f.addOn(c))
	until(shared)
	until(c)
}
