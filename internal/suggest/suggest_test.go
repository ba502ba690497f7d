package suggest

import (
	"slices"
	"testing"
)

func TestName(t *testing.T) {
	fields := []string{"replicas", "ports", "livenessProbe", "spec", "status", "name"}
	for given, want := range map[string]string{
		"replica":       "replicas",
		"prots":         "ports", // two letters swapped
		"livenessprobe": "livenessProbe",
		"spek":          "spec",
		"statsu":        "status",
		"port":          "ports",
		"labels":        "",
		"x":             "",
		"":              "",
	} {
		if got := Name(given, fields); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	clusters := []string{"paris", "paris-2", "eu-west-prod", "eu-west-test", "berlin", "berlin"}
	for given, want := range map[string][]string{
		"pariss":       {"paris", "paris-2"},
		"eu-west":      {"eu-west-prod", "eu-west-test"},
		"Berlin":       {"berlin"},
		"eu-west-prd":  {"eu-west-prod"},
		"eu-wset-test": {"eu-west-test"},
		"madrid":       nil,
		"":             nil,
	} {
		if got := Names(given, clusters); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
	if got := Names("a", []string{"ad", "ac", "ab", "aa"}); !slices.Equal(got, []string{"aa", "ab", "ac"}) {
		t.Errorf("of many: %q", got)
	}
}
