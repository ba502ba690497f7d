package tracing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testcollector"
)

func TestReadFile(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"
	for text, problem := range map[string]string{
		head: "",
		head + "endpoint: collector:4317\nsamplingRatePerMillion: 1000\n": "",
		strings.Replace(head, "/v1", "/v1beta1", 1):                       "",
		strings.Replace(head, "/v1", "/v2", 1):                            `not TracingConfiguration of apiserver`,
		"kind: TracingConfiguration\n":                                    `has the kind "TracingConfiguration" of ""`,
		"endpoint: x\n":                                                   `has the kind "" of ""`,
		head + "endpiont: x\n":                                            `unknown field "endpiont"`,
		head + "samplingRatePerMillion: 1000001\n":                        "less than or equal to one million",
		head + "endpoint: http://collector\n":                             "unsupported scheme",
		"{":                                                               "yaml",
	} {
		path := filepath.Join(t.TempDir(), "tracing.yaml")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ReadFile(path)
		if (err != nil) != (problem != "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: got %v, want %q", text, err, problem)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestDialed(t *testing.T) {
	for endpoint, want := range map[string][2]string{
		"localhost:4317":        {"tcp", "localhost:4317"},
		"[::1]:4317":            {"tcp", "[::1]:4317"},
		"dns:collector:4317":    {"tcp", "collector:4317"},
		"dns:///collector:4317": {"tcp", "collector:4317"},
		"dns://8.8.8.8/c:4317":  {"tcp", "c:4317"},
		"unix:/run/otel.sock":   {"unix", "/run/otel.sock"},
		"unix:///run/otel.sock": {"unix", "/run/otel.sock"},
		"unix-abstract:otel":    {"unix", "@otel"},
	} {
		if network, address := dialed(endpoint); network != want[0] || address != want[1] {
			t.Errorf("%s: got %s %s, want %v", endpoint, network, address, want)
		}
	}
}

func TestFromConfig(t *testing.T) {
	c := testcollector.Start(t)
	config, err := ReadFile(testcollector.ConfigFile(t, c.Address))
	testkit.Must(t, err)
	p, err := FromConfig(config, service(func(problem string) { t.Error(problem) }))
	testkit.Must(t, err)
	_, span := p.Begin(t.Context(), Parent(traceparent), "x")
	span.End()
	p.Close()
	if got := c.Spans("x"); len(got) != 1 || got[0].Trace() != traceID {
		t.Errorf("got %v", c)
	}
}
