package authorization_test

import (
	"math/rand/v2"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbac "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/authorization"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/managedcluster"
)

// The words of random requests: all that occurs in the roles, and some more.
var (
	verbs     = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "renew", "approve", "bind", "*"}
	groups    = []string{"", "cluster.open-cluster-management.io", "work.open-cluster-management.io", "addon.open-cluster-management.io", "register.open-cluster-management.io", "certificates.k8s.io", "coordination.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io", "*"}
	resources = []string{"managedclusters", "manifestworks", "managedclusteraddons", "certificatesigningrequests", "leases", "events", "secrets", "configmaps", "namespaces", "managedclustersets", "*"}
	parts     = []string{"", "status", "clientcertificates", "accept", "approval", "finalizers", "*"}
	places    = []string{"", "c1", "c2", "work", "default", "kube-public", "open-cluster-management-hub"}
	names     = []string{"", "c1", "c2", "work", "managed-cluster-lease", "x"}
)

func randomRequest(r *rand.Rand) authorizer.AttributesRecord {
	any := func(words []string) string { return words[r.IntN(len(words))] }
	return authorizer.AttributesRecord{
		User: agent("c1"), ResourceRequest: true,
		Verb: any(verbs), APIGroup: any(groups), Resource: any(resources), Subresource: any(parts), Namespace: any(places), Name: any(names),
	}
}

func agent(name string) user.Info {
	return &user.DefaultInfo{Name: cluster.CommonName(name, "a"), Groups: []string{cluster.Group(name), cluster.ManagedClustersGroup, "system:authenticated"}}
}

// rendered is what the roles and bindings say that the hub makes for a cluster,
// by Kubernetes' own evaluation.
func rendered(name string, accepted bool, a authorizer.Attributes) bool {
	outside, inside := managedcluster.Rules(name, accepted), []rbacv1.PolicyRule(nil)
	if accepted {
		inside = managedcluster.NamespaceRules()
	}
	return rbac.RulesAllow(a, outside...) || a.GetNamespace() == name && rbac.RulesAllow(a, inside...)
}

// The authorizer saves the search through the bindings of a fleet. What it
// allows must be what they say, neither more nor less.
func TestWhatAgentsMayIsWhatTheHubsRolesSay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	allowed := 0
	for range 400_000 {
		a := randomRequest(r)
		want := rendered("c1", true, a)
		got := authorization.Decide("c1", authorization.Accepted, a) == authorizer.DecisionAllow
		if got != want {
			t.Fatalf("%+v: allowed %v, the roles say %v", a, got, want)
		}
		if got {
			allowed++
		}
	}
	if allowed < 100 {
		t.Errorf("only %d of the requests were allowed ones", allowed)
	}
}

// For others than members it only takes away.
func TestOthersMayNoMoreThanTheHubsRolesSay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 400_000 {
		a := randomRequest(r)
		for _, s := range []authorization.Standing{authorization.Absent, authorization.Refused, authorization.Unaccepted, authorization.Leaving} {
			got := authorization.Decide("c1", s, a)
			if got == authorizer.DecisionAllow && (s != authorization.Leaving || !rendered("c1", false, a)) {
				t.Fatalf("%+v: allowed although the cluster %s", a, s)
			}
			if got == authorizer.DecisionNoOpinion && a.Namespace != "c1" && a.Namespace != "kube-public" && a.Name != "c1" {
				t.Fatalf("%+v: left to role bindings although the cluster %s", a, s)
			}
		}
	}
}

func TestAgentsOfClustersThatAreNoMembers(t *testing.T) {
	on := func(verb, group, resource, namespace, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{ResourceRequest: true, Verb: verb, APIGroup: group, Resource: resource, Namespace: namespace, Name: name}
	}
	const clusters, works, requests = "cluster.open-cluster-management.io", "work.open-cluster-management.io", "certificates.k8s.io"
	yes, no, none := authorizer.DecisionAllow, authorizer.DecisionDeny, authorizer.DecisionNoOpinion
	for _, x := range []struct {
		what                        string
		request                     authorizer.AttributesRecord
		unaccepted, leaving, absent authorizer.Decision
	}{
		{"reads itself", on("get", clusters, "managedclusters", "", "c1"), none, yes, no},
		{"watches itself", on("watch", clusters, "managedclusters", "", "c1"), none, yes, no},
		{"changes itself", on("update", clusters, "managedclusters", "", "c1"), no, no, no},
		{"reads another", on("get", clusters, "managedclusters", "", "c2"), no, no, no},
		{"lists its works", on("list", works, "manifestworks", "c1", ""), none, none, no},
		{"watches its works", on("watch", works, "manifestworks", "c1", ""), no, none, no},
		{"frees a work", on("patch", works, "manifestworks", "c1", "w"), none, none, no},
		{"creates a work", on("create", works, "manifestworks", "c1", ""), no, no, no},
		{"lists another's works", on("list", works, "manifestworks", "c2", ""), no, no, no},
		{"lists all works", on("list", works, "manifestworks", "", ""), no, no, no},
		{"renews its lease", on("update", "coordination.k8s.io", "leases", "c1", "managed-cluster-lease"), no, no, no},
		{"asks for a certificate", on("create", requests, "certificatesigningrequests", "", ""), no, no, no},
		{"reads requests", on("list", requests, "certificatesigningrequests", "", ""), no, no, no},
		{"tells of an event", on("create", "", "events", "c1", ""), no, none, no},
		{"reads Secrets", on("list", "", "secrets", "c1", ""), no, no, no},
		{"asks who it is", on("create", "authentication.k8s.io", "selfsubjectreviews", "", ""), none, none, none},
		{"asks what it may", on("create", "authorization.k8s.io", "selfsubjectaccessreviews", "", ""), none, none, none},
		{"asks what others may", on("create", "authorization.k8s.io", "subjectaccessreviews", "", ""), no, no, no},
		{"makes a token", on("create", "", "serviceaccounts", "c1", "x"), no, no, no},
		{"reads where the hub is", on("get", "", "configmaps", "kube-public", "cluster-info"), none, none, none},
		{"reads the API's description", authorizer.AttributesRecord{Verb: "get", Path: "/apis"}, none, none, none},
		{"reads the hub's version", authorizer.AttributesRecord{Verb: "get", Path: "/version"}, none, none, none},
		{"reads the hub's metrics", authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}, no, no, no},
	} {
		for s, want := range map[authorization.Standing]authorizer.Decision{
			authorization.Unaccepted: x.unaccepted, authorization.Leaving: x.leaving, authorization.Absent: x.absent, authorization.Refused: x.absent,
		} {
			if got := authorization.Decide("c1", s, x.request); got != want {
				t.Errorf("an agent whose cluster %s %s: got %v, want %v", s, x.what, got, want)
			}
		}
	}
}
