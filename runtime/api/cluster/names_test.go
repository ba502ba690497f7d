package cluster_test

import (
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestParseCommonName(t *testing.T) {
	for name, want := range map[string]struct {
		cluster, agent string
		ok             bool
	}{
		cluster.CommonName("paris", "a1b2c"):              {"paris", "a1b2c", true},
		"system:open-cluster-management:paris":            {},
		"system:open-cluster-management:paris:":           {},
		"system:open-cluster-management::a":               {},
		"system:open-cluster-management:paris:a:b":        {},
		"open-cluster-management:paris:a":                 {},
		"system:open-cluster-management:managed-clusters": {},
	} {
		c, a, ok := cluster.ParseCommonName(name)
		if c != want.cluster || a != want.agent || ok != want.ok {
			t.Errorf("ParseCommonName(%q) = %q, %q, %v, want %q, %q, %v", name, c, a, ok, want.cluster, want.agent, want.ok)
		}
	}
}

func TestBoundCluster(t *testing.T) {
	for group, want := range map[string]string{
		cluster.BoundBootstrapGroup("paris"): "paris",
		cluster.BootstrapGroup:               "",
		cluster.BootstrapGroup + ":":         "",
		"system:masters":                     "",
	} {
		got, ok := cluster.BoundCluster(group)
		if ok != (want != "") || ok && got != want {
			t.Errorf("BoundCluster(%q) = %q, %v, want %q", group, got, ok, want)
		}
	}
}
