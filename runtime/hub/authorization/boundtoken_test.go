package authorization

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// What a bootstrap token that is bound to the cluster paris allows.
func TestBoundBootstrapToken(t *testing.T) {
	const clusters, requests = "cluster.open-cluster-management.io", "certificates.k8s.io"
	is := func(name string) string { return cluster.NameLabel + "=" + name }
	for name, x := range map[string]struct {
		verb, group, resource, part, namespace, object, selector string
		want                                                     bool
	}{
		"makes a cluster":                 {"create", clusters, "managedclusters", "", "", "", "", true},
		"reads its own":                   {"get", clusters, "managedclusters", "", "", "paris", "", true},
		"lists its own":                   {"list", clusters, "managedclusters", "", "", "paris", "", true},
		"watches its own":                 {"watch", clusters, "managedclusters", "", "", "paris", "", true},
		"reads another":                   {"get", clusters, "managedclusters", "", "", "rome", "", false},
		"lists all":                       {"list", clusters, "managedclusters", "", "", "", "", false},
		"changes its own":                 {"update", clusters, "managedclusters", "", "", "paris", "", false},
		"reports a status":                {"patch", clusters, "managedclusters", "status", "", "paris", "", false},
		"joins the default set":           {"create", clusters, "managedclustersets", "join", "", "default", "", true},
		"joins another set":               {"create", clusters, "managedclustersets", "join", "", "blue", "", false},
		"asks for a certificate":          {"create", requests, "certificatesigningrequests", "", "", "", "", true},
		"lists its requests":              {"list", requests, "certificatesigningrequests", "", "", "", is("paris"), true},
		"watches its requests":            {"watch", requests, "certificatesigningrequests", "", "", "", is("paris"), true},
		"lists its requests and others'":  {"list", requests, "certificatesigningrequests", "", "", "", cluster.NameLabel + " in (paris,rome)", false},
		"lists others' requests":          {"list", requests, "certificatesigningrequests", "", "", "", is("rome"), false},
		"lists all but its requests":      {"list", requests, "certificatesigningrequests", "", "", "", cluster.NameLabel + "!=paris", false},
		"lists by another label":          {"list", requests, "certificatesigningrequests", "", "", "", "name=paris", false},
		"lists all requests":              {"list", requests, "certificatesigningrequests", "", "", "", "", false},
		"reads a request by name":         {"get", requests, "certificatesigningrequests", "", "", "x", is("paris"), false},
		"approves":                        {"update", requests, "certificatesigningrequests", "approval", "", "x", "", false},
		"reads where the hub is":          {"get", "", "configmaps", "", "kube-public", "cluster-info", "", true},
		"reads other config maps":         {"get", "", "configmaps", "", "kube-system", "x", "", false},
		"lists what is public":            {"list", "", "configmaps", "", "kube-public", "", "", false},
		"reads secrets that sound public": {"get", "", "secrets", "", "kube-public", "x", "", false},
	} {
		a := authorizer.AttributesRecord{
			User:            &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{cluster.BoundBootstrapGroup("paris")}},
			ResourceRequest: true, Verb: x.verb, APIGroup: x.group, Resource: x.resource, Subresource: x.part, Namespace: x.namespace, Name: x.object,
		}
		selector, err := labels.Parse(x.selector)
		if err != nil {
			t.Fatal(err)
		}
		a.LabelSelectorRequirements, _ = selector.Requirements()
		decision, _, err := authorize(context.Background(), a)
		if err != nil || (decision == authorizer.DecisionAllow) != x.want || decision == authorizer.DecisionDeny {
			t.Errorf("%s: %v (%v), want allowed %v", name, decision, err, x.want)
		}
		a.User = &user.DefaultInfo{Name: "alice"}
		if decision, _, _ := authorize(context.Background(), a); decision != authorizer.DecisionNoOpinion {
			t.Errorf("%s: there is an opinion about other users: %v", name, decision)
		}
	}
}
