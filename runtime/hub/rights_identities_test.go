package hub_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// identity is somebody who talks to a hub, and all that they may do.
type identity struct {
	// user is who the hub takes them for.
	user authenticationv1.UserInfo
	// config holds their credentials.
	config *rest.Config
	rights []right
}

// places are the clusters of the matrix, which are names and namespaces in it.
type places struct{ own, other, denied, pending string }

// fleetOfIdentities makes a cluster in each state, and everybody who has to do
// with a fleet. Tokens and certificates are real ones; who an administrator
// would make up is impersonated.
func fleetOfIdentities(t testing.TB) (places, map[string]identity) {
	t.Helper()
	p := places{clusterName(t, "own"), clusterName(t, "other"), clusterName(t, "denied"), clusterName(t, "pending")}
	everybody := map[string]identity{
		// Who is nobody can't ask who they are.
		"anonymous":                 {user: authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}, config: rest.AnonymousClientConfig(admin)},
		"bootstrap":                 known(t, withToken(bootstrapToken(t, cluster.BootstrapGroup)), bootstrapRights()...),
		"bootstrap service account": known(t, withToken(serviceAccountToken(t)), append(bootstrapRights(), right{"get,list,watch", requestsGroup, "clustertrustbundles", "", "*", ""})...), // the last is every service account's
		"bound bootstrap":           known(t, withToken(bootstrapToken(t, cluster.BoundBootstrapGroup(p.own))), boundRights(p.own)...),
		"cluster":                   known(t, joined(t, p.own, "a"), agentRights(p.own)...),
		"other cluster":             known(t, joined(t, p.other, "a"), agentRights(p.other)...),
		"denied cluster":            known(t, joined(t, p.denied, "a"), right{"get,list,watch", clustersGroup, "managedclusters", "", p.denied, ""}),
		"pending cluster":           known(t, approved(t, p.pending)),
	}
	accept(t, p.denied, false)
	waitForCluster(t, p.denied, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionFalse, cluster.ReasonHubDenied))

	for name, rules := range delegates() {
		bestow(t, name, rules...)
		everybody[name] = known(t, impersonate(name), rightsOf(rules)...)
	}
	return p, everybody
}

// known asks the hub whom it takes the holder of some credentials for.
func known(t testing.TB, config *rest.Config, rights ...right) identity {
	t.Helper()
	review, err := clientsetFor(t, config).AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	return identity{review.Status.UserInfo, config, rights}
}

// approved announces a cluster and returns the certificate that an
// administrator has approved, without having accepted the cluster.
func approved(t testing.TB, name string) *rest.Config {
	t.Helper()
	ctx := context.Background()
	bootstrap := clientFor(t, withToken(bootstrapToken(t, cluster.BootstrapGroup)))
	must(t, bootstrap.Create(ctx, newCluster(name)))
	r, key := certificateRequest(t, name, "a")
	must(t, bootstrap.Create(ctx, r))
	must(t, approve(ctx, clientsetFor(t, admin), r))
	return withCertificate(certificate(t, r.Name), key)
}

func bootstrapRights() []right {
	return []right{
		{"get", "", "configmaps", "*", "*", ""},
		{"create,get,list,watch", requestsGroup, "certificatesigningrequests", "", "*", ""},
		{"create,get,list,watch", clustersGroup, "managedclusters", "", "*", ""},
		{"create", clustersGroup, "managedclustersets/join", "", "*", ""},
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
	}
}

// agentRights are those of an accepted cluster's agents.
func agentRights(name string) []right {
	return []right{
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
	}
}

// delegates are whom an administrator gives a part of the work to.
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
