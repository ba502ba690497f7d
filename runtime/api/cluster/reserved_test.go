package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// wellKnown are the names on a hub that no cluster's may coincide with, each
// with its kind before it.
func wellKnown() []string {
	const orphan = "system:open-cluster-management:cluster:paris:addon:search"
	return []string{
		"clusterrole " + cluster.WorkRole, "clusterrole " + cluster.RegistrationRole, "clusterrole " + cluster.BootstrapRole,
		"clusterrole cluster-admin", "clusterrole admin", "clusterrole edit", "clusterrole view",
		"clusterrolebinding " + cluster.BootstrapRole + ":agent-registration", "clusterrolebinding " + cluster.BootstrapRole + ":managedcluster",
		"clusterrolebinding cluster-admin",
		"group " + cluster.ManagedClustersGroup, "group " + cluster.BootstrapGroup, "group system:masters", "group system:authenticated",
		"group system:unauthenticated", "group system:serviceaccounts", "group system:serviceaccounts:" + cluster.Namespace, "group system:bootstrappers",
		"group " + orphan, "group system:open-cluster-management:addon:search",
		"user " + orphan + ":agent:search", "user system:anonymous", "user system:apiserver",
		"user system:serviceaccount:" + cluster.Namespace + ":" + cluster.BootstrapServiceAccount, "user " + cluster.TokenUser("abcdef"),
		"namespace default", "namespace kube-system", "namespace kube-public", "namespace kube-node-lease",
		"namespace " + cluster.Namespace, "namespace " + cluster.HubNamespace, "namespace " + cluster.AgentNamespace, "namespace " + addon.DefaultInstallNamespace,
		"rolebinding kube-public/muster:public-info",
	}
}

// namesOf are all names that follow from a cluster's.
func namesOf(name string) []string {
	return []string{
		"namespace " + name,
		"clusterrole " + cluster.RoleName(name), "clusterrolebinding " + cluster.RoleName(name),
		"rolebinding " + name + "/" + cluster.RegistrationBindingName(name), "rolebinding " + name + "/" + cluster.WorkBindingName(name),
		"group " + cluster.Group(name), "group " + cluster.GroupWithoutPrefix(name), "group " + cluster.BoundBootstrapGroup(name),
		"user " + cluster.CommonName(name, "a"),
	}
}

func TestReservedNamesCoverAllWellKnownOnes(t *testing.T) {
	for _, known := range wellKnown() {
		kind, name, _ := strings.Cut(known, " ")
		// Which clusters would have an object of this name?
		for _, prefix := range []string{"", "system:open-cluster-management:", "open-cluster-management:", "open-cluster-management:managedcluster:", cluster.BootstrapGroup + ":"} {
			of, ok := strings.CutPrefix(name, prefix)
			if ok && len(validation.IsDNS1123Label(of)) == 0 && slices.Contains(namesOf(of), known) && !cluster.IsReserved(of) {
				t.Errorf("a cluster can be called %q, and would have the %s %s", of, kind, name)
			}
		}
	}
}

func TestReservedName(t *testing.T) {
	for _, name := range []string{
		"work", "registration", "managed-clusters", "default", "kube-system", "kube-public", "kube-node-lease",
		"open-cluster-management", "open-cluster-management-hub", "open-cluster-management-agent", "open-cluster-management-agent-addon",
		"open-cluster-management-global-set",
	} {
		err := cluster.ReservedName(name)
		if err == nil {
			t.Errorf("a cluster can be called %q", name)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), `"`+name+`"`) || !strings.Contains(err.Error(), "choose another name") {
			t.Errorf("%q is refused by %q", name, err)
		}
		_, advice, _ := strings.Cut(err.Error(), "such as ")
		if advice = strings.Trim(advice, `"`); cluster.IsReserved(advice) || len(validation.IsDNS1123Label(advice)) > 0 {
			t.Errorf("%q is advised for %q, and cannot be used either", advice, name)
		}
	}
	for _, name := range []string{"paris", "work1", "works", "registration-a", "managed-cluster", "defaults", "kube", "kube-prod", "local-cluster", "global", "bootstrap", "cluster", "addon", "open-cluster"} {
		if err := cluster.ReservedName(name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
}

// Whatever a cluster is called: nothing of it is the hub's or another cluster's.
func FuzzNamesOfClustersAreDisjoint(f *testing.F) {
	names := []string{"paris", "work", "registration", "managed-clusters", "paris-work", "a", "cluster", "addon", "agent", "default", "kube-system", "bootstrap", "open-cluster-management-hub", strings.Repeat("x", 63)}
	for _, a := range names {
		for _, b := range names {
			f.Add(a, b)
		}
	}
	known := wellKnown()
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, name := range []string{a, b} {
			if len(validation.IsDNS1123Label(name)) > 0 || cluster.IsReserved(name) {
				return
			}
			for _, n := range namesOf(name) {
				if slices.Contains(known, n) {
					t.Errorf("the cluster %q would have the %s", name, n)
				}
			}
			if got := cluster.AgentClusters([]string{cluster.Group(name), cluster.ManagedClustersGroup}); !slices.Equal(got, []string{name}) {
				t.Errorf("an agent of %q counts as one of %q", name, got)
			}
		}
		if a == b {
			return
		}
		for _, n := range namesOf(a) {
			if slices.Contains(namesOf(b), n) {
				t.Errorf("the clusters %q and %q would share the %s", a, b, n)
			}
		}
	})
}
