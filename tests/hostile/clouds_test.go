package hostile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// estate is a tenant's namespace that may select from the default set, with somebody
// who has all rights on clouds and on works there, and none to grant anything.
type estate struct {
	namespace     string
	admin, tenant client.Client
}

func newEstate(t *testing.T, namespace string, works string) *estate {
	t.Helper()
	e := &estate{namespace: namespace, admin: hub.admin(t)}
	e.tenant = testfleet.Client(t, hub.Tenant(t, namespace, "tenant",
		rbacv1.PolicyRule{APIGroups: []string{muster.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"placements"}, Verbs: []string{"*"}}))
	user := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "tenant"}
	for _, o := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: works, Name: namespace}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks", "manifestworks/status"}, Verbs: []string{"*"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: works, Name: namespace}, Subjects: []rbacv1.Subject{user},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: namespace},
		},
		&clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "default"},
		},
		placementOf(namespace, "p", works),
	} {
		testkit.Must(t, e.admin.Create(t.Context(), o))
	}
	return e
}

// placementOf selects one cluster, out of reach or not.
func placementOf(namespace, name, cluster string) *clusterv1beta1.Placement {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	p.Spec.Tolerations = []clusterv1beta1.Toleration{{Operator: clusterv1beta1.TolerationOpExists}}
	p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"hostile": cluster}},
	}}}
	return p
}

// cloud is a cloud of the estate, which grants nothing.
func (e *estate) cloud(name, namespace string) *v1alpha1.LogicalCloud {
	lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name}}
	lc.Spec.Placements, lc.Spec.Namespace.Name = []v1alpha1.PlacementReference{{Name: "p"}}, namespace
	return lc
}

// is waits until a condition of a cloud has a status, and says some words.
func (e *estate) is(lc *v1alpha1.LogicalCloud, kind string, status metav1.ConditionStatus, words string) error {
	return testkit.Poll(testkit.Timeout, func() error {
		if err := e.admin.Get(context.Background(), client.ObjectKeyFromObject(lc), lc); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(lc.Status.Conditions, kind); c == nil || c.Status != status || !strings.Contains(fmt.Sprintf("%s %+v", c.Message, lc.Status.Clusters), words) {
			return fmt.Errorf("the conditions of the cloud %s are %+v, its clusters %+v, want %s %s with %q", lc.Name, lc.Status.Conditions, lc.Status.Clusters, kind, status, words)
		}
		return nil
	})
}

// gone waits until a cloud is gone.
func (e *estate) gone(lc *v1alpha1.LogicalCloud) error {
	return testkit.Poll(testkit.Timeout, func() error {
		if err := e.admin.Get(context.Background(), client.ObjectKeyFromObject(lc), lc); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cloud %s is still there: %w, %+v", lc.Name, err, lc.Status)
		}
		return nil
	})
}

// rightsIn are the names of roles and bindings in a namespace of a cluster.
func rightsIn(t *testing.T, m *member, namespace string) (names []string) {
	t.Helper()
	roles, bindings := &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}
	testkit.Must(t, errors.Join(m.admin.List(t.Context(), roles, client.InNamespace(namespace)), m.admin.List(t.Context(), bindings, client.InNamespace(namespace))))
	for _, r := range roles.Items {
		names = append(names, "role "+r.Name)
	}
	for _, b := range bindings.Items {
		names = append(names, "binding "+b.Name)
	}
	return names
}

// Tenants who may write clouds, and works besides, get nothing in a cluster that was
// not granted to them, and nothing of each other's.
func TestTenantsOfClouds(t *testing.T) {
	ctx := context.Background()
	m := hub.join(t, "clouds", "--user-access")
	testkit.Must(t, hub.admin(t).Patch(ctx, clusterNamed(m.name, false), mergePatchf(`{"metadata":{"labels":{"hostile":%q}}}`, m.name)))
	one, two := newEstate(t, "clouds-one", m.name), newEstate(t, "clouds-two", m.name)
	pods := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	all := []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	for name, rules := range map[string][]rbacv1.PolicyRule{"clouds-reader": pods, "clouds-root": all} {
		testkit.Must(t, one.admin.Create(ctx, &v1alpha1.AccessRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules, ClusterScopeAllowed: true}))
	}
	prod := one.cloud("prod", "clouds-apps")
	prod.Spec.Grants = []v1alpha1.Grant{{Role: "clouds-reader", Users: []string{"jo"}}}
	testkit.Must(t, one.admin.Create(ctx, prod))
	testkit.Must(t, one.is(prod, muster.ConditionReady, metav1.ConditionTrue, ""))

	tenantsGrantMore(t, one, prod)
	tenantsWriteWorks(t, one, prod, m)
	tenantsTakeNamespaces(t, one, two, prod, m)
	cloudsGoWhileTheAgentIsAway(t, one, two, m)
}

// tenantsGrantMore has a tenant change a cloud that an administrator has granted
// something in.
func tenantsGrantMore(t *testing.T, e *estate, prod *v1alpha1.LogicalCloud) {
	t.Helper()
	ctx := t.Context()
	grant := func(role, scope, user string) string {
		return fmt.Sprintf(`{"spec":{"grants":[{"role":%q,"scope":%q,"users":[%q]}]}}`, role, scope, user)
	}
	for what, patch := range map[string]string{
		"grants to itself":                        grant("clouds-reader", "Namespace", "system:serviceaccount:clouds-one:tenant"),
		"grants a role that it may not":           grant("clouds-root", "Namespace", "jo"),
		"grants in the whole cluster":             grant("clouds-reader", "Cluster", "jo"),
		"grants rules of its own":                 `{"spec":{"grants":[{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}],"users":["jo"]}]}}`,
		"grants to a group":                       `{"spec":{"grants":[{"role":"clouds-reader","users":["jo"],"groups":["devs"]}]}}`,
		"takes over a namespace":                  `{"spec":{"namespace":{"existing":"Adopt"}}}`,
		"moves to another namespace":              `{"spec":{"namespace":{"name":"kube-system"}}}`,
		"frees its pods of security":              `{"spec":{"namespace":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}}`,
		"gives its namespace to another cloud":    `{"spec":{"namespace":{"annotations":{"muster-fleet.io/logical-cloud":"x/y"}}}}`,
		"selects by another tenant's placement":   `{"spec":{"placements":[{"name":"../clouds-two/p"}]}}`,
		"takes off the finalizer":                 `{"metadata":{"finalizers":null}}`,
		"grants in a namespace of the agent's":    `{"spec":{"namespace":{"name":"open-cluster-management-agent"}}}`,
		"grants to a component of Kubernetes":     grant("clouds-reader", "Namespace", "system:kube-controller-manager"),
		"grants to administrators of the cluster": `{"spec":{"grants":[{"role":"clouds-reader","users":["jo"],"groups":["system:masters"]}]}}`,
		"grants to a name with a line break":      grant("clouds-reader", "Namespace", "jo\nroot"),
	} {
		refused(t, "a tenant "+what, e.tenant.Patch(ctx, prod.DeepCopy(), mergePatchf("%s", patch)))
	}
	refused(t, "a tenant forgets which keys are withdrawn", e.tenant.Status().Patch(ctx, prod.DeepCopy(), mergePatchf(`{"status":{"revokedKeys":null,"conditions":null}}`)))
	// Which clusters a tenant reaches is decided by the sets that are bound in its namespace.
	beyond := placementOf(e.namespace, "beyond", "clouds")
	beyond.Spec.ClusterSets = []string{"global"}
	testkit.Must(t, e.tenant.Create(ctx, beyond))
	reach := e.cloud("reach", "clouds-reach")
	reach.Spec.Placements = []v1alpha1.PlacementReference{{Name: "beyond"}}
	testkit.Must(t, e.tenant.Create(ctx, reach))
	harmless(t, "a tenant selects from a set that is not bound in its namespace", e.is(reach, muster.ConditionSelected, metav1.ConditionFalse, ""))
	testkit.Must(t, e.tenant.Delete(ctx, reach))
}

// tenantsWriteWorks has a tenant who may write works in a cluster write those of
// clouds.
func tenantsWriteWorks(t *testing.T, e *estate, prod *v1alpha1.LogicalCloud, m *member) {
	t.Helper()
	ctx := t.Context()
	id := muster.CloudID(prod.Namespace, prod.Name)
	clouds := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: m.name, Name: muster.CloudWork(prod.Namespace, prod.Name)}}
	testkit.Must(t, e.admin.Get(ctx, client.ObjectKeyFromObject(clouds), clouds))
	forged := newWork(t, m.name, "forged", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "default"}})
	plain := forged.DeepCopy()
	plain.Name = "plain"
	testkit.Must(t, e.tenant.Create(ctx, plain))
	forged.Labels = map[string]string{muster.LogicalCloudLabel: id}
	label := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, muster.LogicalCloudLabel, id)
	for what, err := range map[string]error{
		"makes a work of a cloud":        e.tenant.Create(ctx, forged),
		"makes its work one of a cloud":  e.tenant.Patch(ctx, plain.DeepCopy(), mergePatchf("%s", label)),
		"takes a cloud's label off":      e.tenant.Patch(ctx, clouds.DeepCopy(), mergePatchf(`{"metadata":{"labels":null}}`)),
		"changes a cloud's work":         e.tenant.Patch(ctx, clouds.DeepCopy(), mergePatchf(`{"spec":{"workload":{"manifests":[]}}}`)),
		"binds a key":                    e.tenant.Patch(ctx, clouds.DeepCopy(), mergePatchf(`{"metadata":{"annotations":{%q:"0123"}}}`, muster.BoundKeysAnnotation)),
		"says that it is applied":        e.tenant.Status().Patch(ctx, clouds.DeepCopy(), mergePatchf(`{"status":{"conditions":[]}}`)),
		"deletes a cloud's work":         e.tenant.Delete(ctx, clouds.DeepCopy()),
		"deletes all works":              e.tenant.DeleteAllOf(ctx, &workv1.ManifestWork{}, client.InNamespace(m.name)),
		"owns a cloud's work, to remove": e.tenant.Patch(ctx, clouds.DeepCopy(), mergePatchf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`)),
	} {
		refused(t, "a tenant "+what, err)
	}
	testkit.Must(t, e.admin.Delete(ctx, plain))
}

// tenantsTakeNamespaces has clouds ask for namespaces that are not theirs.
func tenantsTakeNamespaces(t *testing.T, one, two *estate, prod *v1alpha1.LogicalCloud, m *member) {
	t.Helper()
	ctx := t.Context()
	before := rightsIn(t, m, "clouds-apps")
	rival := two.cloud("rival", "clouds-apps")
	testkit.Must(t, two.tenant.Create(ctx, rival))
	harmless(t, "a cloud wants the namespace of another tenant's cloud", two.is(rival, muster.ConditionReady, metav1.ConditionFalse, muster.ReasonNamespaceTaken))
	// With rights that only an administrator gives it, it still gets nothing there.
	testkit.Must(t, two.admin.Patch(ctx, rival.DeepCopy(), mergePatchf(`{"spec":{"namespace":{"existing":"Adopt"},"grants":[{"role":"clouds-root","users":["eve"]}]}}`)))
	testkit.Must(t, two.tenant.Delete(ctx, rival))
	harmless(t, "a cloud that got nothing is deleted", two.gone(rival))
	var err error
	if after := rightsIn(t, m, "clouds-apps"); !slices.Equal(before, after) {
		err = fmt.Errorf("the namespace had %v, and has %v", before, after)
	}
	harmless(t, "a rival cloud leaves its traces", errors.Join(err, one.is(prod, muster.ConditionReady, metav1.ConditionTrue, "")))

	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "clouds-theirs", Labels: map[string]string{"owner": "them"}}}
	testkit.Must(t, m.admin.Create(ctx, theirs))
	thief := two.cloud("thief", theirs.Name)
	thief.Spec.Namespace.OnDelete = v1alpha1.OnDeleteDelete
	testkit.Must(t, two.tenant.Create(ctx, thief))
	harmless(t, "a cloud wants a namespace of the cluster's owner", two.is(thief, muster.ConditionReady, metav1.ConditionFalse, muster.ReasonNamespaceExists))
	refused(t, "a tenant has it taken over", two.tenant.Patch(ctx, thief.DeepCopy(), mergePatchf(`{"spec":{"namespace":{"existing":"Adopt"}}}`)))
	testkit.Must(t, two.tenant.Delete(ctx, thief))
	err = two.gone(thief)
	now := &corev1.Namespace{}
	if errGet := m.admin.Get(ctx, client.ObjectKeyFromObject(theirs), now); errGet != nil || now.DeletionTimestamp != nil || now.UID != theirs.UID || now.Labels["owner"] != "them" || len(now.Annotations) > 0 {
		err = errors.Join(err, errGet, fmt.Errorf("the namespace is %+v", now.ObjectMeta))
	}
	if left := rightsIn(t, m, theirs.Name); len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("there are %v", left))
	}
	harmless(t, "a cloud deletes a namespace that is not its own", err)
}

// cloudsGoWhileTheAgentIsAway deletes clouds whose cluster is offline.
func cloudsGoWhileTheAgentIsAway(t *testing.T, one, two *estate, m *member) {
	t.Helper()
	ctx := t.Context()
	long := one.cloud(strings.Repeat("n", 253), strings.Repeat("s", 63)) // the longest names there are
	long.Spec.Grants = []v1alpha1.Grant{{Role: "clouds-reader", Users: []string{strings.Repeat("ü", 60)}}}
	long.Spec.Namespace.OnDelete = v1alpha1.OnDeleteDelete
	testkit.Must(t, one.admin.Create(ctx, long))
	harmless(t, "a cloud has the longest names", one.is(long, muster.ConditionReady, metav1.ConditionTrue, ""))
	testkit.Must(t, m.agent.Kill())
	testkit.Must(t, one.admin.Delete(ctx, long))
	harmless(t, "a cloud is deleted while the agent is away", one.is(long, muster.ConditionDeleting, metav1.ConditionTrue, m.name))
	// The name is taken as long as the agent does not know.
	heir := two.cloud("heir", long.Spec.Namespace.Name)
	testkit.Must(t, two.tenant.Create(ctx, heir))
	harmless(t, "another cloud takes the namespace before the agent knows", two.is(heir, muster.ConditionReady, metav1.ConditionFalse, muster.ReasonNamespaceTaken))
	testkit.Must(t, m.agent.Restart())
	err := one.gone(long)
	// Now that nothing of the first is left, the second gets the namespace: a new one.
	err = errors.Join(err, two.is(heir, muster.ConditionReady, metav1.ConditionTrue, ""))
	for _, name := range rightsIn(t, m, heir.Spec.Namespace.Name) {
		if strings.Contains(name, muster.CloudID(long.Namespace, long.Name)) {
			err = errors.Join(err, fmt.Errorf("the %s is left of the cloud before", name))
		}
	}
	harmless(t, "rights outlive a cloud that was deleted while the agent was away", err)
	testkit.Must(t, two.tenant.Delete(ctx, heir))
	testkit.Must(t, two.gone(heir))
}
