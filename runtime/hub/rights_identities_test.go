package hub_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// identity is somebody who talks to a hub, and all that they may do.
type identity struct {
	// user is who the hub takes them for.
	user authenticationv1.UserInfo
	// config holds their credentials.
	config *rest.Config
	rights []right
	// derived is set when the rights are read from a role of Kubernetes', which has
	// more than the matrix asks for.
	derived bool
}

// places are the clusters of the matrix, which are names and namespaces in it, and
// the namespaces of two tenants.
type places struct{ own, other, denied, pending, leaving, gone, tenant, otherTenant string }

// around are the clusters that an identity is asked about: two in good standing,
// and its own.
func (p places) around(who string) []string {
	switch who {
	case "denied cluster":
		return []string{p.own, p.other, p.denied}
	case "pending cluster":
		return []string{p.own, p.other, p.pending}
	case "leaving cluster":
		return []string{p.own, p.other, p.leaving}
	case "gone cluster":
		return []string{p.own, p.other, p.gone}
	}
	return []string{p.own, p.other}
}

// fleetOfIdentities makes a cluster in each state, and everybody who has to do
// with a fleet. Tokens and certificates are real ones; who an administrator
// would make up is impersonated.
func fleetOfIdentities(t testing.TB) (places, map[string]identity) {
	t.Helper()
	w := testworld.New(t, clientFor(t, admin))
	p := places{
		clusterName(t, "own"), clusterName(t, "other"), clusterName(t, "denied"), clusterName(t, "pending"), clusterName(t, "leaving"), clusterName(t, "gone"),
		w.Namespace(), w.Namespace(),
	}
	everybody := map[string]identity{
		// Who is nobody can't ask who they are.
		"anonymous":                 {user: authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}, config: rest.AnonymousClientConfig(admin)},
		"bootstrap":                 known(t, withToken(bootstrapToken(t, cluster.BootstrapGroup)), bootstrapRights()...),
		"bootstrap service account": known(t, withToken(serviceAccountToken(t)), append(bootstrapRights(), right{"get,list,watch", requestsGroup, "clustertrustbundles", "", "*", ""})...), // the last is every service account's
		"bound bootstrap":           known(t, withToken(bootstrapToken(t, cluster.BoundBootstrapGroup(p.own))), boundRights(p.own)...),
		"cluster":                   known(t, joined(t, p.own, "a"), agentRights(p.own)...),
		"other cluster":             known(t, joined(t, p.other, "a"), agentRights(p.other)...),
		"add-on's agent":            known(t, impersonate(addOnUser(p.own), addOnGroups(p.own)...)), // what an add-on gives it, and no part of its cluster's rights
		"denied cluster":            known(t, joined(t, p.denied, "a"), right{"get,list,watch", clustersGroup, "managedclusters", "", p.denied, ""}),
		"pending cluster":           known(t, approved(t, p.pending)),
		"leaving cluster":           known(t, joined(t, p.leaving, "a"), leavingRights(p.leaving)...),
		"gone cluster":              known(t, joined(t, p.gone, "a")),
		"administrator":             known(t, admin, right{"*", "", "", "*", "*", ""}),
	}
	accept(t, p.denied, false)
	waitForCluster(t, p.denied, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionFalse, cluster.ReasonHubDenied))
	detach(t, p.leaving, true)
	detach(t, p.gone, false)

	for name, x := range tenants(t, p) {
		confine(t, x.namespace, name, x.role)
		everybody[name] = known(t, impersonate(name), x.rights...)
	}
	owner := everybody["namespace admin"]
	owner.derived = true
	everybody["namespace admin"] = owner
	for name, rules := range delegates() {
		bestow(t, name, rules...)
		everybody[name] = known(t, impersonate(name), rightsOf(rules)...)
	}
	return p, everybody
}

// addOnUser is the agent of the add-on "search" in a cluster.
func addOnUser(name string) string { return addOnGroups(name)[0] + ":agent:search" }

// addOnGroups are the groups of that agent.
func addOnGroups(name string) []string {
	return []string{"system:open-cluster-management:cluster:" + name + ":addon:search", "system:open-cluster-management:addon:search"}
}

// detach deletes a cluster. One that is held has a work that nobody frees of its
// finalizer before the test ends.
func detach(t testing.TB, name string, held bool) {
	t.Helper()
	ctx, c := context.Background(), clientFor(t, admin)
	if held {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "held", Finalizers: []string{"example.org/held"}}}
		w.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}`)}}}
		testkit.Must(t, c.Create(ctx, w))
		t.Cleanup(func() {
			_ = c.Patch(ctx, w, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		})
	}
	testkit.Must(t, c.Delete(ctx, newCluster(name)))
	testkit.Eventually(t, func() error {
		err := c.Get(ctx, client.ObjectKeyFromObject(newCluster(name)), newCluster(name))
		if held {
			work := &workv1.ManifestWork{}
			if err := c.Get(ctx, types.NamespacedName{Namespace: name, Name: "held"}, work); err != nil || work.DeletionTimestamp.IsZero() {
				return fmt.Errorf("the work of %s is not being deleted (%v)", name, err)
			}
			registration := &rbacv1.RoleBinding{}
			if err := c.Get(ctx, types.NamespacedName{Namespace: name, Name: cluster.RegistrationBindingName(name)}, registration); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the agent of %s still has its rights (%v)", name, err)
			}
			return err
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the cluster %s is still there (%v)", name, err)
		}
		return nil
	})
}

// giveEverything binds a role with all rights to the agents of clusters that are
// not members, and adds what they get out of it: what they need to clean up.
func giveEverything(t testing.TB, p places, everybody map[string]identity) {
	t.Helper()
	all := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}
	open := right{"get", "", "configmaps", "kube-public", "*", ""}
	itself := func(name string) right {
		return right{"get,list,watch", clustersGroup, "managedclusters", "", name, ""}
	}
	finishing := func(name string) []right {
		return []right{open, {"get,list,patch,update", worksGroup, "manifestworks", name, "*", ""}, {"patch,update", worksGroup, "manifestworks/status", name, "*", ""}}
	}
	for who, x := range map[string]struct {
		cluster string
		rights  []right
	}{
		"denied cluster":  {p.denied, finishing(p.denied)},
		"pending cluster": {p.pending, append(finishing(p.pending), itself(p.pending))},
		"leaving cluster": {p.leaving, []right{open}},
		"gone cluster":    {p.gone, []right{open}},
	} {
		bestowGroup(t, cluster.Group(x.cluster), all)
		i := everybody[who]
		i.rights = append(i.rights, x.rights...)
		everybody[who] = i
	}
}

// bestowGroup is what somebody does who binds a role to the agents of a cluster
// by hand.
func bestowGroup(t testing.TB, group string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx, c := context.Background(), clientFor(t, admin)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "by-hand:" + group}, Rules: rules}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rolesGroup, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rolesGroup, Kind: rbacv1.GroupKind, Name: group}},
	}
	for _, o := range []client.Object{role, binding} {
		testkit.Must(t, c.Create(ctx, o))
		t.Cleanup(func() { _ = c.Delete(ctx, o) })
	}
}

// known asks the hub for the user that some credentials belong to.
func known(t testing.TB, config *rest.Config, rights ...right) identity {
	t.Helper()
	review, err := clientsetFor(t, config).AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	testkit.Must(t, err)
	return identity{user: review.Status.UserInfo, config: config, rights: rights}
}

// approved announces a cluster and returns the certificate that an
// administrator has approved, without having accepted the cluster.
func approved(t testing.TB, name string) *rest.Config {
	t.Helper()
	ctx := context.Background()
	bootstrap := clientFor(t, withToken(bootstrapToken(t, cluster.BootstrapGroup)))
	testkit.Must(t, bootstrap.Create(ctx, newCluster(name)))
	r, key := certificateRequest(t, name, "a")
	testkit.Must(t, bootstrap.Create(ctx, r))
	testkit.Must(t, approve(ctx, clientsetFor(t, admin), r))
	return withCertificate(certificate(t, r.Name), key)
}

func bootstrapRights() []right {
	return []right{
		{"get", "", "configmaps", "kube-public", "*", ""},
		{"get", "", "configmaps", "open-cluster-management-hub", "ca-bundle-configmap", ""},
		{"create,get,list,watch", requestsGroup, "certificatesigningrequests", "", "*", ""},
		{"create,get,list,watch", clustersGroup, "managedclusters", "", "*", ""},
		{"create", clustersGroup, "managedclustersets/join", "", "*", ""},
		{"create,get", musterGroup, "clusterregistrations", "", "*", ""},
	}
}

func boundRights(name string) []right {
	return []right{
		{"get", "", "configmaps", "kube-public", "*", ""},
		// What may be created is admission's to decide: a name is not known yet.
		{"create", requestsGroup, "certificatesigningrequests", "", "*", ""},
		{"list,watch", requestsGroup, "certificatesigningrequests", "", "*", name},
		{"create", clustersGroup, "managedclusters", "", "*", ""},
		{"get,list,watch", clustersGroup, "managedclusters", "", name, ""},
		{"create", clustersGroup, "managedclustersets/join", "", "default", ""},
		{"create,get", musterGroup, "clusterregistrations", "", "*", ""},
	}
}

// leavingRights are those of the agents of a cluster that is being deleted and
// has works left: to clean up behind them.
func leavingRights(name string) []right {
	return []right{
		{"get,list,watch", clustersGroup, "managedclusters", "", name, ""},
		{"create,patch,update", "", "events", name, "*", ""},
		{"create,patch,update", eventsGroup, "events", name, "*", ""},
		{"get,list,patch,update,watch", worksGroup, "manifestworks", name, "*", ""},
		{"patch,update", worksGroup, "manifestworks/status", name, "*", ""},
	}
}

// agentRights are those of an accepted cluster's agents.
func agentRights(name string) []right {
	return []right{
		{"get,list,watch", "", "configmaps", "kube-public", "muster-hub-endpoints", ""},
		{"create,get,list,watch", requestsGroup, "certificatesigningrequests", "", "*", ""},
		{"renew", registerGroup, "managedclusters/clientcertificates", "", "*", ""},
		{"get,list,update,watch", clustersGroup, "managedclusters", "", name, ""},
		{"patch,update", clustersGroup, "managedclusters/status", "", name, ""},
		{"get,list,update,watch", leasesGroup, "leases", name, "*", ""},
		{"get,list,watch", addOnsGroup, "managedclusteraddons", name, "*", ""},
		{"patch,update", addOnsGroup, "managedclusteraddons/status", name, "*", ""},
		{"create,patch,update", "", "events", name, "*", ""},
		{"create,patch,update", eventsGroup, "events", name, "*", ""},
		{"get,list,patch,update,watch", worksGroup, "manifestworks", name, "*", ""},
		{"patch,update", worksGroup, "manifestworks/status", name, "*", ""},
		{"get,list,watch,tunnel", musterGroup, "clustercredentials", name, "*", ""},
		{"patch,update", musterGroup, "clustercredentials/status", name, "*", ""},
		{"get,list,watch", musterGroup, "workpreviews", name, "*", ""},
		{"patch,update", musterGroup, "workpreviews/status", name, "*", ""},
	}
}

// delegates are the users that an administrator gives a part of the work to.
func delegates() map[string][]rbacv1.PolicyRule {
	clusters := func(resource, verbs string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{clustersGroup}, Resources: []string{resource}, ResourceNames: names, Verbs: strings.Split(verbs, ",")}
	}
	return map[string][]rbacv1.PolicyRule{
		"set-admin": {
			clusters("managedclustersets", "get,list,watch,update", "blue"),
			clusters("managedclustersets/join", "create", "blue"), clusters("managedclustersets/bind", "create", "blue"),
			clusters("managedclusters", "get,list,watch,update"), clusters("managedclustersetbindings", "create"),
		},
		"accept-only": {
			{APIGroups: []string{registerGroup}, Resources: []string{"managedclusters/accept"}, Verbs: []string{"update"}},
			clusters("managedclusters", "get,patch"),
		},
		"join-only": {clusters("managedclustersets/join", "create", "default", "blue"), clusters("managedclusters", "get,patch")},
		"role-granter": {
			{APIGroups: []string{musterGroup}, Resources: []string{"accessroles"}, ResourceNames: []string{"blue"}, Verbs: []string{"bind", "grant-cluster-scope"}},
		},
		"bind-only": {clusters("managedclustersets/bind", "create", "blue"), clusters("managedclustersetbindings", "create")},
	}
}

// rightsOf are the rights that cluster-wide rules give, everywhere.
func rightsOf(rules []rbacv1.PolicyRule) []right {
	var rights []right
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, name := range names {
			rights = append(rights, right{strings.Join(r.Verbs, ","), r.APIGroups[0], r.Resources[0], "*", name, ""})
		}
	}
	return slices.Clip(rights)
}
