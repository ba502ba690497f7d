package authorization

import (
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// fleet is an authorizer that knows some clusters, each with its namespace.
type fleet struct {
	*Agents
	clusters, namespaces feed
}

func newFleet(t testing.TB) *fleet {
	t.Helper()
	g := NewAgents()
	f := &fleet{Agents: g, clusters: g.clusterFeed(), namespaces: g.namespaceFeed()}
	for _, x := range []feed{f.clusters, f.namespaces, g.endpointsFeed()} {
		if err := x.Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fleet) cluster(t testing.TB, name string, change func(*clusterv1.ManagedCluster)) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}
	if change != nil {
		change(mc)
	}
	if err := f.clusters.Update(mc); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) namespace(t testing.TB, name, of string, until time.Time) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{cluster.NameLabel: of}, Annotations: map[string]string{}}}
	if !until.IsZero() {
		ns.Annotations[cluster.VoidedAnnotation] = until.Format(time.RFC3339)
	}
	if err := f.namespaces.Update(ns); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) decides(t testing.TB, who user.Info, a authorizer.AttributesRecord) authorizer.Decision {
	t.Helper()
	a.User, a.ResourceRequest = who, true
	decision, _, err := f.authorize(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return decision
}

func denied(mc *clusterv1.ManagedCluster) { mc.Spec.HubAcceptsClient = ptr.To(false) }

func deleted(mc *clusterv1.ManagedCluster) { mc.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }

func taken(mc *clusterv1.ManagedCluster) {
	mc.Annotations = map[string]string{cluster.AgentAnnotation: "b", cluster.AgentSinceAnnotation: noon.Format(time.RFC3339) + "," + noon.Format(time.RFC3339)}
}

// at is a user whose credential was issued at a time.
func at(issue time.Time, name string, groups ...string) *user.DefaultInfo {
	extra := map[string][]string{extension.IssuedAtKey: {strconv.FormatInt(issue.Unix(), 10)}}
	return &user.DefaultInfo{Name: name, Groups: groups, Extra: extra}
}

// The standing of a cluster decides for everybody who belongs to it.
func TestStandingDecidesForAll(t *testing.T) {
	secrets := authorizer.AttributesRecord{Verb: "get", Resource: "secrets", Namespace: "c1", Name: "s"}
	elsewhere := authorizer.AttributesRecord{Verb: "get", Resource: "secrets", Namespace: "shop", Name: "s"}
	public := authorizer.AttributesRecord{Verb: "get", Resource: "configmaps", Namespace: "kube-public", Name: "x"}
	members := map[string]user.Info{
		"an add-on's agent":         at(noon, cluster.ClusterAddOnGroup("c1", "x")+":agent:x", cluster.ClusterAddOnGroup("c1", "x"), cluster.AddOnGroup("x")),
		"an add-on's agent by user": at(noon, cluster.ClusterAddOnGroup("c1", "x")+":agent:x"),
		"an impersonated one":       &user.DefaultInfo{Name: "x", Groups: []string{cluster.ClusterAddOnGroup("c1", "x")}},
		"a service account":         at(noon, "system:serviceaccount:c1:x-agent", "system:serviceaccounts", "system:serviceaccounts:c1"),
		"an agent without a group":  at(noon, cluster.CommonName("c1", "a")),
		"a member of two":           at(noon, "x", cluster.ClusterAddOnGroup("c0", "x"), cluster.ClusterAddOnGroup("c1", "x")),
	}
	none, no := authorizer.DecisionNoOpinion, authorizer.DecisionDeny
	for state, x := range map[string]struct {
		change          func(*clusterv1.ManagedCluster)
		inside, outside authorizer.Decision
		absent          bool
	}{
		"accepted":           {nil, none, none, false},
		"denied":             {denied, no, no, false},
		"leaving":            {deleted, none, no, false},
		"denied and deleted": {func(mc *clusterv1.ManagedCluster) { denied(mc); deleted(mc) }, no, no, false},
		"gone":               {nil, no, no, true},
	} {
		f := newFleet(t)
		f.cluster(t, "c0", nil)
		f.cluster(t, "c1", nil)
		f.namespace(t, "c1", "c1", time.Time{})
		if f.cluster(t, "c1", x.change); x.absent {
			if err := f.clusters.Delete(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}); err != nil {
				t.Fatal(err)
			}
		}
		for who, u := range members {
			if who == "a member of two" && x.outside == none {
				continue
			}
			if got := f.decides(t, u, secrets); got != x.inside {
				t.Errorf("%s of a cluster that is %s: %v in its namespace, want %v", who, state, got, x.inside)
			}
			if got := f.decides(t, u, elsewhere); got != x.outside {
				t.Errorf("%s of a cluster that is %s: %v elsewhere, want %v", who, state, got, x.outside)
			}
			if got := f.decides(t, u, public); got != none {
				t.Errorf("%s of a cluster that is %s: %v for what is public", who, state, got)
			}
		}
	}
}

// Names that only look like a cluster's say nothing.
func TestWhoOnlyLooksLikeAMember(t *testing.T) {
	f := newFleet(t)
	f.cluster(t, "shop", denied) // somebody has registered a cluster by the name of a tenant's namespace
	f.namespace(t, "shop", "other", time.Time{})
	secrets := authorizer.AttributesRecord{Verb: "get", Resource: "secrets", Namespace: "shop", Name: "s"}
	for who, u := range map[string]user.Info{
		"a tenant's service account":          at(noon, "system:serviceaccount:shop:x", "system:serviceaccounts:shop"),
		"the hub's":                           at(noon, "system:serviceaccount:open-cluster-management-hub:x", "system:serviceaccounts:open-cluster-management-hub"),
		"a group of an identity provider":     at(noon, "alice", "open-cluster-management:admins"),
		"an administrator":                    at(noon, "root", user.SystemPrivilegedGroup, cluster.Group("shop")),
		"an add-on's agents, of all clusters": at(noon, "x", cluster.AddOnGroup("x")),
	} {
		if got := f.decides(t, u, secrets); got != authorizer.DecisionNoOpinion {
			t.Errorf("%s: %v", who, got)
		}
	}
	f.namespace(t, "shop", "shop", time.Time{}) // handed over
	if got := f.decides(t, at(noon, "system:serviceaccount:shop:x"), secrets); got != authorizer.DecisionDeny {
		t.Errorf("a service account of a cluster that was never accepted: %v", got)
	}
	if err := f.namespaces.Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	if got := f.decides(t, at(noon, "system:serviceaccount:shop:x"), secrets); got != authorizer.DecisionNoOpinion {
		t.Errorf("a service account where the namespace of a cluster was: %v", got)
	}
}

// After a take-over, what the former agent has got for the add-ons is void.
func TestTakeOverVoidsCredentials(t *testing.T) {
	secrets := authorizer.AttributesRecord{Verb: "get", Resource: "secrets", Namespace: "c1", Name: "s"}
	group, token := cluster.ClusterAddOnGroup("c1", "x"), "system:serviceaccount:c1:x-agent"
	never := &user.DefaultInfo{Name: token, Extra: map[string][]string{extension.IssuedAtKey: {extension.NeverExpires}}}
	before, within, after := noon.Add(-time.Hour), noon.Add(time.Second), noon.Add(2*time.Second)
	none, no := authorizer.DecisionNoOpinion, authorizer.DecisionDeny
	for who, x := range map[string]struct {
		user          user.Info
		taken, voided authorizer.Decision
	}{
		"a certificate from before":            {at(before, "x", group), no, no},
		"a certificate of the same moment":     {at(within, "x", group), no, none},
		"a certificate of the new agent":       {at(after, "x", group), none, none},
		"a certificate with both names":        {at(before, group+":agent:x", group), no, no},
		"an impersonated user":                 {&user.DefaultInfo{Name: "x", Groups: []string{group}}, none, none},
		"a token from before":                  {at(before, token), no, no},
		"a token of the new agent":             {at(after, token), none, none},
		"a token that never expires":           {never, no, no},
		"the former agent":                     {at(after, cluster.CommonName("c1", "a"), cluster.Group("c1")), no, none},
		"the new agent":                        {at(before, cluster.CommonName("c1", "b"), cluster.Group("c1")), none, no},
		"the new agent, renewed":               {at(after, cluster.CommonName("c1", "b"), cluster.Group("c1")), none, none},
		"a nameless agent from before":         {at(before, "x", cluster.Group("c1")), no, no},
		"another cluster's agent in the group": {at(before, cluster.CommonName("c0", "b"), cluster.Group("c1")), no, no},
		"another cluster's add-on":             {at(before, "x", cluster.ClusterAddOnGroup("c0", "x")), none, none},
	} {
		f := newFleet(t)
		f.cluster(t, "c0", nil)
		f.cluster(t, "c1", taken)
		f.namespace(t, "c1", "c1", time.Time{})
		if got := f.decides(t, x.user, secrets); got != x.taken {
			t.Errorf("%s, after a take-over: %v, want %v", who, got, x.taken)
		}
		// The annotation is taken away to go back.
		f.cluster(t, "c1", nil)
		if got := f.decides(t, x.user, secrets); got != none && x.user != never {
			t.Errorf("%s, with any agent: %v", who, got)
		}
		// The next cluster of the name of a denied one.
		f.namespace(t, "c1", "c1", noon)
		if got := f.decides(t, x.user, secrets); got != x.voided {
			t.Errorf("%s, of an earlier cluster: %v, want %v", who, got, x.voided)
		}
	}
}

// A change of standing, of the agent or of the namespace ends the watches of all.
func TestWatchesOfMembersEnd(t *testing.T) {
	who := at(noon.Add(-time.Hour), "system:serviceaccount:c1:x-agent")
	for name, change := range map[string]func(*fleet){
		"denied":        func(f *fleet) { f.cluster(t, "c1", denied) },
		"taken over":    func(f *fleet) { f.cluster(t, "c1", taken) },
		"deleted":       func(f *fleet) { f.cluster(t, "c1", func(mc *clusterv1.ManagedCluster) { denied(mc); deleted(mc) }) },
		"gone":          func(f *fleet) { _ = f.clusters.Replace(nil, "") },
		"another's now": func(f *fleet) { f.namespace(t, "c1", "c1", noon) },
	} {
		f := newFleet(t)
		f.cluster(t, "c1", nil)
		f.namespace(t, "c1", "c1", time.Time{})
		ended := false
		a := authorizer.AttributesRecord{User: who, ResourceRequest: true, Verb: "watch", Resource: "configmaps", Namespace: "c1"}
		f.watches["c1"] = map[*openWatch]struct{}{{attributes: a, end: func() { ended = true }}: {}}
		f.cluster(t, "c1", func(mc *clusterv1.ManagedCluster) { mc.Annotations = map[string]string{"x": "y"} })
		if ended {
			t.Fatalf("%s: a watch ends for no reason", name)
		}
		if change(f); !ended {
			t.Errorf("%s: the watch goes on", name)
		}
	}
}

// Agents read where the hub is each time that they have opened the watch of their
// ManagedCluster, so a change of that ends those watches, and no others.
func TestWatchesOfClustersEndWhenTheHubMoves(t *testing.T) {
	f := newFleet(t)
	f.cluster(t, "c1", nil)
	var ended []string
	open := map[*openWatch]struct{}{}
	for _, a := range []authorizer.AttributesRecord{
		{APIGroup: cluster.GroupName, Resource: "managedclusters", Name: "c1"},
		{APIGroup: "work.open-cluster-management.io", Resource: "manifestworks", Namespace: "c1"},
	} {
		open[&openWatch{attributes: a, end: func() { ended = append(ended, a.Resource) }}] = struct{}{}
	}
	f.watches["c1"] = open
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: hubinfo.EndpointsName}}
	for i, x := range []struct {
		urls string
		want []string
	}{
		{"https://a", []string{"managedclusters"}}, {"https://a", nil}, {"https://b", []string{"managedclusters"}},
	} {
		ended = nil
		config = config.DeepCopy()
		config.Labels, config.Data = map[string]string{"step": strconv.Itoa(i)}, map[string]string{"urls": x.urls}
		if err := f.endpointsFeed().Update(config); err != nil || !slices.Equal(ended, x.want) {
			t.Errorf("%d: the watches of %v ended, want %v (%v)", i, ended, x.want, err)
		}
	}
	ended = nil
	if err := f.endpointsFeed().Delete(config); err != nil || len(ended) > 0 {
		t.Errorf("after the deletion the watches of %v ended (%v)", ended, err)
	}
}
