package cluster_test

import (
	"slices"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestBelongsTo(t *testing.T) {
	agent, member, account := cluster.Agent, cluster.Member, cluster.Account
	of := func(name string, part cluster.Part) cluster.Belonging {
		return cluster.Belonging{Cluster: name, Part: part}
	}
	plain := func(name string, part cluster.Part) cluster.Belonging {
		return cluster.Belonging{Cluster: name, Part: part, Plain: true}
	}
	for name, x := range map[string]struct {
		user   string
		groups []string
		want   []cluster.Belonging
	}{
		"an agent":                         {cluster.CommonName("paris", "a"), []string{cluster.Group("paris"), cluster.ManagedClustersGroup, "system:authenticated"}, []cluster.Belonging{of("paris", agent)}},
		"an agent without the prefix":      {"", []string{cluster.GroupWithoutPrefix("paris")}, []cluster.Belonging{plain("paris", agent)}},
		"an agent by both groups":          {"", []string{cluster.GroupWithoutPrefix("paris"), cluster.Group("paris")}, []cluster.Belonging{of("paris", agent)}},
		"an agent by its name alone":       {cluster.CommonName("paris", "a"), nil, []cluster.Belonging{of("paris", member)}},
		"an agent of two":                  {"", []string{cluster.Group("paris"), cluster.Group("rome")}, []cluster.Belonging{of("paris", agent), of("rome", agent)}},
		"an agent with another's name":     {cluster.CommonName("rome", "a"), []string{cluster.Group("paris")}, []cluster.Belonging{of("paris", agent), of("rome", member)}},
		"of all and of none":               {"", []string{cluster.ManagedClustersGroup}, nil},
		"an add-on's agent":                {registration.User("paris", "search", "x"), registration.Groups("paris", "search"), []cluster.Belonging{of("paris", member)}},
		"an add-on's agent by its user":    {registration.User("paris", "search", "x"), nil, []cluster.Belonging{of("paris", member)}},
		"an add-on's agent by its group":   {"somebody", []string{registration.ClusterAddOnGroup("paris", "search")}, []cluster.Belonging{of("paris", member)}},
		"an add-on's without the prefix":   {"", []string{"open-cluster-management:cluster:paris:addon:search"}, []cluster.Belonging{plain("paris", member)}},
		"an add-on in no cluster":          {"", []string{registration.AddOnGroup("search")}, nil},
		"an add-on's agents in two":        {"", []string{registration.ClusterAddOnGroup("paris", "a"), registration.ClusterAddOnGroup("rome", "a")}, []cluster.Belonging{of("paris", member), of("rome", member)}},
		"what an add-on calls its parts":   {registration.User("paris", "search", "x:y"), nil, []cluster.Belonging{of("paris", member)}},
		"a service account":                {"system:serviceaccount:paris:search-agent", []string{"system:serviceaccounts", "system:serviceaccounts:paris"}, []cluster.Belonging{of("paris", account)}},
		"service accounts of a namespace":  {"", []string{"system:serviceaccounts:paris"}, []cluster.Belonging{of("paris", account)}},
		"an account with an agent's group": {"system:serviceaccount:shop:x", []string{cluster.Group("paris")}, []cluster.Belonging{of("paris", agent), of("shop", account)}},
		"a bootstrap token":                {"system:bootstrap:abcdef", []string{cluster.BoundBootstrapGroup("paris"), cluster.BootstrapGroup}, nil},
		"an administrator":                 {"root", []string{"system:masters"}, nil},
		"somebody":                         {"alice", []string{"paris", "cluster:paris:addon:x"}, nil},
		"a cluster called cluster":         {cluster.CommonName("cluster", "a"), []string{cluster.Group("cluster")}, []cluster.Belonging{of("cluster", agent)}},
		"a cluster called addon":           {cluster.CommonName("addon", "a"), []string{cluster.Group("addon")}, []cluster.Belonging{of("addon", agent)}},
		"a reserved cluster's":             {"", []string{cluster.Group("work")}, []cluster.Belonging{of("work", agent)}},
		"nothing behind the prefix":        {"system:open-cluster-management:", []string{"system:open-cluster-management:", "open-cluster-management:", "system:serviceaccounts:"}, nil},
		"a user by the name of a group":    {cluster.Group("paris"), nil, nil},
	} {
		if got := cluster.BelongsTo(x.user, x.groups); !slices.Equal(got, x.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, x.want)
		}
	}
}

func TestAgentClusters(t *testing.T) {
	groups := append(registration.Groups("paris", "search"), cluster.Group("rome"), cluster.GroupWithoutPrefix("oslo"), "system:serviceaccounts:bonn")
	if got := cluster.AgentClusters(groups); !slices.Equal(got, []string{"rome", "oslo"}) {
		t.Errorf("got %q", got)
	}
}
