package cluster_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestTokenScopeIsReadFromAnnotations(t *testing.T) {
	for name, x := range map[string]struct {
		annotations map[string]string
		want        cluster.TokenScope
		err         string // a part of it
	}{
		"none":         {nil, cluster.TokenScope{}, ""},
		"labels":       {map[string]string{cluster.TokenClusterLabelsAnnotation: "env=prod,example.org/zone=a"}, cluster.TokenScope{Labels: map[string]string{"env": "prod", "example.org/zone": "a"}}, ""},
		"limit":        {map[string]string{cluster.TokenMaxClustersAnnotation: "3"}, cluster.TokenScope{MaxClusters: 3}, ""},
		"uses":         {map[string]string{cluster.TokenUsedByAnnotation: "rome, paris,"}, cluster.TokenScope{UsedBy: []string{"paris", "rome"}}, ""},
		"no labels":    {map[string]string{cluster.TokenClusterLabelsAnnotation: "env"}, cluster.TokenScope{}, cluster.TokenClusterLabelsAnnotation},
		"no number":    {map[string]string{cluster.TokenMaxClustersAnnotation: "many"}, cluster.TokenScope{}, `"many"`},
		"no use":       {map[string]string{cluster.TokenMaxClustersAnnotation: "0"}, cluster.TokenScope{}, "from 1 to 1000"},
		"beyond count": {map[string]string{cluster.TokenMaxClustersAnnotation: "1001"}, cluster.TokenScope{}, "from 1 to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := cluster.ParseTokenScope(x.annotations)
			if x.err != "" {
				if err == nil || !strings.Contains(err.Error(), x.err) {
					t.Fatalf("error %v, want one with %s", err, x.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(got.Labels, x.want.Labels) || got.MaxClusters != x.want.MaxClusters || !slices.Equal(got.UsedBy, x.want.UsedBy) {
				t.Errorf("got %+v, want %+v", got, x.want)
			}
		})
	}
}

func TestTokenScopeSurvivesItsAnnotations(t *testing.T) {
	want := cluster.TokenScope{Labels: map[string]string{"env": "prod", "a": ""}, MaxClusters: 7}
	got, err := cluster.ParseTokenScope(want.Annotations())
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Labels, want.Labels) || got.MaxClusters != 7 {
		t.Errorf("got %+v", got)
	}
	if n := len(cluster.TokenScope{}.Annotations()); n != 0 {
		t.Errorf("a token without a scope has %d annotations", n)
	}
}

func TestTokenCountsEachClusterOnce(t *testing.T) {
	s := cluster.TokenScope{MaxClusters: 2}
	for _, x := range []struct {
		cluster     string
		changed, ok bool
	}{
		{"rome", true, true},
		{"rome", false, true},
		{"paris", true, true},
		{"oslo", false, false},
		{"paris", false, true},
	} {
		if changed, ok := s.Use(x.cluster); changed != x.changed || ok != x.ok {
			t.Errorf("%s: changed %v, ok %v, want %v, %v", x.cluster, changed, ok, x.changed, x.ok)
		}
	}
	if !slices.Equal(s.UsedBy, []string{"paris", "rome"}) {
		t.Errorf("used by %q", s.UsedBy)
	}
}

func TestTokenWithoutLimitStopsCountingButNotWorking(t *testing.T) {
	var s cluster.TokenScope
	for i := range cluster.MaxTokenClusters {
		s.Use(fmt.Sprintf("cluster-%04d", i))
	}
	if changed, ok := s.Use("one-more"); changed || !ok || len(s.UsedBy) != cluster.MaxTokenClusters {
		t.Errorf("changed %v, ok %v, %d noted", changed, ok, len(s.UsedBy))
	}
}

func TestTokenUser(t *testing.T) {
	if id, ok := cluster.TokenOfUser(cluster.TokenUser("abcdef")); !ok || id != "abcdef" {
		t.Errorf("got %q, %v", id, ok)
	}
	for _, name := range []string{"", "system:bootstrap:", "system:admin", "abcdef"} {
		if _, ok := cluster.TokenOfUser(name); ok {
			t.Errorf("%q counts as a token", name)
		}
	}
}
