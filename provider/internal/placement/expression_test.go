package placement

import (
	"strings"
	"testing"
)

func TestAnExpressionThatSelectsNoClusterIsFound(t *testing.T) {
	for text, want := range map[string]string{
		`managedCluster.status.version.kubernetes == "v1"`:                               "",
		`managedCluster.status.version.kubernets == "v1"`:                                "managedCluster.status.version has no field kubernets: did you mean kubernetes?",
		`managedCluster.spek.hubAcceptsClient`:                                           "managedCluster has no field spek: did you mean spec?",
		`managedCluster.metadata.nothing == ""`:                                          "it has annotations",
		`has(managedCluster.status.later) && managedCluster.status.later.x == 1`:         "",
		`managedCluster.metadata.name`:                                                   `always of the type string, and only true selects a cluster: compare it with something, as in managedCluster.metadata.name == "…"`,
		`managedCluster.metadata.labels["env"]`:                                          "always of the type string",
		`managedCluster.metadata.labels.env == "prod"`:                                   "",
		`"env" in managedCluster.metadata.labels`:                                        "",
		`managedCluster.spec.hubAcceptsClient`:                                           "",
		`managedCluster.spec.leaseDurationSeconds`:                                       "always of the type int",
		`managedCluster.spec.taints`:                                                     "always of the type list",
		`managedCluster.metadata.creationTimestamp < "2026"`:                             "",
		`managedCluster.metadata.creationTimestamp`:                                      "always of the type string",
		`managedCluster.status.clusterClaims.exists(c, c.name == "a" && c.value == "b")`: "",
		`managedCluster.status.clusterClaims.filter(c, c.name == "a")[0].value == "b"`:   "",
		`managedCluster.scores("cost").exists(s, s.name == "hourly" && s.value > 3)`:     "",
		`quantity(managedCluster.status.capacity["cpu"]).isGreaterThan(quantity("4"))`:   "",
		`managedCluster.status.allocatable.memory != ""`:                                 "",
		`managedCluster.metadata.annotations["a"].parseJSON().on`:                        "",
		`1 + 1`:                              "always of the type int",
		`"a" + managedCluster.metadata.name`: "always of the type string",
		`["a"]`:                              "always of the type list",
		`true`:                               "",
		`managedCluster.metadata.name == "a" ? true : false`:                                   "",
		`["a"].exists(managedCluster, managedCluster.other == "x")`:                            "",
		`managedCluster.metadata.?labels["a"].orValue("") == "b"`:                              "",
		`size(managedCluster.spec.taints)`:                                                     "always of the type int",
		`managedCluster.status.conditions.exists(c, c.type == "Joined" && c.status == "True")`: "",
		`1 + `: "", // has been refused already
	} {
		got := expressionProblem(text)
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
