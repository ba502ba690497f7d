package cluster_test

import (
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestCheckClientID(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "store-17.example_com:8": true, "4F0C": true, strings.Repeat("a", 253): true,
		"": false, "-a": false, "a.": false, "a b": false, "a,b": false, "a/b": false, "ä": false, "a\n": false, strings.Repeat("a", 254): false,
	} {
		if err := cluster.CheckClientID(id); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := cluster.CheckClientIDs(make([]string, cluster.MaxTokenClientIDs+1)); err == nil || !strings.Contains(err.Error(), "several tokens") {
		t.Errorf("too many: %v", err)
	}
}

func TestCheckAllowedLabels(t *testing.T) {
	for key, part := range map[string]string{
		"env": "", "example.com/team": "", "env-*": "", "example.com/*": "", "*": "", "e*": "",
		"a b":                             "is not a key of a label",
		"*a":                              "is not a key of a label",
		"a*b*":                            "is not the beginning",
		"-*":                              "is not the beginning",
		"open-cluster-management.io/*":    "may not choose",
		"x.open-cluster-management.io/a*": "may not choose",
		"cluster.open-cluster-management.io/clusterset": "may not choose",
		"muster-fleet.io/bootstrap-token":               "may not choose",
		"kubernetes.io/metadata.name":                   "may not choose",
		"X.K8S.io/a":                                    "is not a key of a label",
	} {
		err := cluster.CheckAllowedLabels([]string{"fine", key})
		if (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", key, err, part)
		}
	}
}

func TestChosen(t *testing.T) {
	scope := cluster.TokenScope{Labels: map[string]string{"env": "prod", "same": "x"}, AllowedLabels: []string{"site", "team.example.com/*", "multicluster.x-k8s.io*"}}
	taken, dropped := scope.Chosen(map[string]string{
		"site": "17", "team.example.com/a": "b", "team.example.org/a": "b", "sites": "1", "env": "dev", "same": "x",
		"multicluster.x-k8s.io/clusterset": "y", "open-cluster-management.io/a": "z",
	})
	if len(taken) != 2 || taken["site"] != "17" || taken["team.example.com/a"] != "b" {
		t.Errorf("taken are %v", taken)
	}
	if got, want := strings.Join(dropped, " "), "env multicluster.x-k8s.io/clusterset open-cluster-management.io/a sites team.example.org/a"; got != want {
		t.Errorf("dropped are %s, want %s", got, want)
	}
}

func TestTokenScopeOfClientIDs(t *testing.T) {
	s, err := cluster.ParseTokenScope(map[string]string{
		cluster.TokenClientIDsAnnotation: "b, a,,b", cluster.TokenAllowedLabelsAnnotation: " env , x-*",
	})
	if err != nil || strings.Join(s.ClientIDs, " ") != "a b" || strings.Join(s.AllowedLabels, " ") != "env x-*" {
		t.Errorf("%+v, %v", s, err)
	}
	if got := s.Annotations(); got[cluster.TokenClientIDsAnnotation] != "a,b" || got[cluster.TokenAllowedLabelsAnnotation] != "env,x-*" {
		t.Errorf("annotations %v", got)
	}
	for annotation, text := range map[string]string{cluster.TokenClientIDsAnnotation: "a b", cluster.TokenAllowedLabelsAnnotation: "a b"} {
		if _, err := cluster.ParseTokenScope(map[string]string{annotation: text}); err == nil || !strings.Contains(err.Error(), annotation) {
			t.Errorf("%s: %v", annotation, err)
		}
	}
}

func TestIsBootstrap(t *testing.T) {
	for name, x := range map[string]struct {
		user   string
		groups []string
		want   bool
	}{
		"a token":             {"system:bootstrap:abcdef", nil, true},
		"no token":            {"system:bootstrap:", nil, false},
		"the service account": {cluster.BootstrapUser, nil, true},
		"one of the group":    {"alice", []string{cluster.BootstrapGroup}, true},
		"another group":       {"alice", []string{cluster.BootstrapGroup + "x"}, false},
		"an administrator":    {"root", []string{"system:masters"}, false},
	} {
		if got := cluster.IsBootstrap(x.user, x.groups); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
