// Package check tests the alert rules in the folder above: that Prometheus takes them, that
// each fires when it is to, and not before, and that it is explained. It is a module of its
// own, as Prometheus brings some hundred others.
package check

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const (
	rulesFile = "../alerts.yaml"
	guideFile = "../../../docs/guides/alerts.md"
	listFile  = "../../../docs/metrics.md"
	dashboard = "../dashboard.json"
)

// Series every minute of two hours; the expressions are evaluated at the end.
var cases = map[string]struct{ fires, silent string }{
	"MusterHubDown": {"other 1x120", `muster_fleet_clusters{state="available"} 0x120`},
	"MusterClustersUnknown": {
		`muster_fleet_clusters{state="unknown"} 1x120`,
		`muster_fleet_clusters{state="available"} 9x120`,
	},
	"MusterManyClustersUnknown": {clusters("6x120"), clusters("4x120")},
	"MusterClustersUnavailable": {
		`muster_fleet_clusters{state="unavailable"} 1x120`,
		`muster_fleet_clusters{state="unavailable"} 0x120`,
	},
	"MusterWorksFail": {
		`muster_fleet_works{state="failed"} 1x120`,
		`muster_fleet_works{state="applied"} 1x120`,
	},
	"MusterWorksPending": {works("20x120"), works("1x120")},
	"MusterRolloutsDegraded": {
		`muster_fleet_rollouts{state="degraded"} 1x120`,
		`muster_fleet_rollouts{state="progressing"} 1x120`,
	},
	"MusterAddOnsUnavailable": {
		`muster_fleet_addons{state="unavailable"} 1x120`,
		`muster_fleet_addons{state="unknown"} 1x120`,
	},
	"MusterDeletionsStuck": {
		`muster_fleet_addons{state="deleting"} 1x120`,
		`muster_fleet_works{state="applied"} 1x120`,
	},
	"MusterStoreFills": {store("6x120"), store("4x120")},
	"MusterBudgetsUsedUp": {
		`muster_budget_refusals_total{owner="cluster"} 0+10x120`,
		`muster_budget_refusals_total{owner="cluster"} 900x120`,
	},
	"MusterHubBusy": {
		`muster_requests_waiting{pool="agents"} 30x120`,
		`muster_requests_waiting{pool="agents"} 10x120`,
	},
	"MusterBackupsFail": {
		"muster_backup_failures_total 0+1x120",
		"muster_backup_last_success_timestamp_seconds 0x120",
	},
	"MusterCertificateExpires": {
		`muster_certificate_expiry_timestamp_seconds{certificate="ca"} 1000000x120`,
		`muster_certificate_expiry_timestamp_seconds{certificate="ca"} 9000000x120`,
	},
	"MusterPlacementsMisconfigured": {
		`muster_fleet_placements{state="misconfigured"} 1x120`, `muster_fleet_placements{state="unsatisfied"} 1x120`,
	},
	"MusterCertificateRequestsWait": {
		`muster_fleet_certificate_requests{state="pending"} 1x120`,
		`muster_fleet_certificate_requests{state="approved"} 1x120`,
	},
}

func clusters(unknown string) string {
	return `muster_fleet_clusters{state="available"} 20x120` + "\n" +
		`muster_fleet_clusters{state="unknown"} ` + unknown
}

func works(pending string) string {
	return `muster_fleet_works{state="applied"} 100x120` + "\n" + `muster_fleet_works{state="pending"} ` + pending
}

func store(used string) string {
	return `muster_store_bytes{what="quota"} 10x120` + "\n" + `muster_store_bytes{what="in_use"} ` + used
}

func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}), nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var all []rulefmt.Rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAlerts(t *testing.T) {
	guide := read(t, guideFile)
	tested := 0
	for _, r := range rules(t) {
		c, ok := cases[r.Alert]
		if !ok {
			t.Errorf("%s has no case", r.Alert)
			continue
		}
		tested++
		for series, want := range map[string]bool{c.fires: true, c.silent: false} {
			if got := fires(t, r.Expr, series); got != want {
				t.Errorf("%s with\n%s\nfires: %v, want %v", r.Alert, series, got, want)
			}
		}
		if !strings.Contains(guide, "\n## "+r.Alert+"\n") {
			t.Errorf("%s is not explained in %s", r.Alert, guideFile)
		}
		if url := r.Annotations["runbook_url"]; !strings.HasSuffix(url, "/guides/alerts#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s leads to %q", r.Alert, url)
		}
		if r.Annotations["summary"] == "" || !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
			t.Errorf(
				"%s has the summary %q and the severity %q",
				r.Alert,
				r.Annotations["summary"],
				r.Labels["severity"],
			)
		}
	}
	if tested != len(cases) {
		t.Errorf("%d of %d cases are of alerts that are there", tested, len(cases))
	}
}

// fires reports whether an expression has a value once series of two hours have come in.
func fires(t *testing.T, expression, series string) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n  "+strings.ReplaceAll(series, "\n", "\n  "))
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	query, err := engine.NewInstantQuery(t.Context(), storage, nil, expression, time.Unix(0, 0).Add(2*time.Hour))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	defer query.Close()
	result := query.Exec(t.Context())
	if result.Err != nil {
		t.Fatalf("%s: %v", expression, result.Err)
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatal(err)
	}
	return len(vector) > 0
}

// What rules and dashboard ask for is in the list of metrics, which a test of the hub compares
// with what a hub reports.
func TestMetricsAreListed(t *testing.T) {
	list := read(t, listFile)
	names := regexp.MustCompile(`\bmuster_[a-z_]+`)
	asked := append(names.FindAllString(read(t, rulesFile), -1), names.FindAllString(read(t, dashboard), -1)...)
	if len(asked) < 20 {
		t.Fatalf("only %d metrics are asked for", len(asked))
	}
	for _, name := range asked {
		if !strings.Contains(list, "`"+name+"`") {
			t.Errorf("%s is not in %s", name, listFile)
		}
	}
}

// The queries of the dashboard are queries.
func TestDashboard(t *testing.T) {
	found := regexp.MustCompile(`"expr": "((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(read(t, dashboard), -1)
	if len(found) < 8 {
		t.Fatalf("the dashboard has %d queries", len(found))
	}
	for _, f := range found {
		expression := strings.NewReplacer(`\"`, `"`, "$__rate_interval", "5m").Replace(f[1])
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(expression); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
	}
}
