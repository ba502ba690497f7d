package provider_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testcollector"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testhub"
	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
	"github.com/muster-fleet/terraform-provider-muster/provider"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/tests/inprocess"
)

// tracedWorkspace is one for a hub, whose provider sends spans as the variables ask for it.
// The function ends the provider's process, as far as that matters here.
func tracedWorkspace(t *testing.T, at *testhub.Process, variables map[string]string) (*acctest.Workspace, func()) {
	t.Helper()
	traces, err := tracing.FromEnvironment(func(name string) string { return variables[name] },
		tracing.Service{Name: "provider", Warn: func(problem string) { t.Log(problem) }})
	testkit.Must(t, err)
	t.Setenv("MUSTER_KUBECONFIG", at.Kubeconfig)
	return inprocess.NewWorkspace(t, map[string]func() (tfprotov6.ProviderServer, error){
		"muster": func() (tfprotov6.ProviderServer, error) {
			server, err := provider.NewServer("test")
			return provider.Traced(server, traces), err
		},
	}), traces.Close
}

// Each operation is a span, those of the hub's requests are within, and a work has on it
// which one has written it.
func TestAccTraces(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	const (
		ci = "4bf92f3577b34da6a3ce929d0e0e4736"
		n  = "traced"
	)
	collector := testcollector.Start(t)
	hub := acctest.OwnHub(t, "--tracing-config-file", testcollector.ConfigFile(t, collector.Address))
	o := acctest.OutsiderOf(t, hub)
	w, end := tracedWorkspace(t, hub, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + collector.Address,
		"TRACEPARENT":                 "00-" + ci + "-00f067aa0ba902b7-01",
	})
	config := acctest.WorkConfig(n, acctest.AsYAML)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	written := &workv1.ManifestWork{}
	o.Get(written, n, "web")
	if said := w.Plan(config); !strings.Contains(said, "No changes") {
		t.Error(acctest.Excerpt(said))
	}
	if state := w.State(); strings.Contains(state, "traceparent") || strings.Contains(state, ci) {
		t.Errorf("the state has the trace: %s", state)
	}

	// Who lost the state gets the work back, with or without traces.
	w.LoseState()
	other, _ := tracedWorkspace(t, hub, nil)
	if said, ok := other.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	again := &workv1.ManifestWork{}
	o.Get(again, n, "web")
	if text, there := again.Annotations[work.TraceparentAnnotation]; there || again.Generation != written.Generation {
		t.Errorf("a write without a trace leaves %q, generation %d", text, again.Generation)
	}
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	if said, ok := w.Destroy(); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	end()

	for _, verb := range []string{"create", "read", "delete"} {
		spans := collector.Spans(verb + " muster_manifest_work")
		if len(spans) == 0 {
			t.Fatalf("there is no span of %s:\n%v", verb, collector)
		}
		s := spans[0]
		failed := s.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET
		if s.Trace() != ci || s.Parent() != "00f067aa0ba902b7" || failed {
			t.Errorf("got %v", s)
		}
		for key, want := range map[string]string{
			"terraform.resource.type": "muster_manifest_work", "k8s.object.kind": "ManifestWork",
			"k8s.namespace.name": n, "k8s.object.name": "web",
		} {
			if got := s.Attribute(key); got != want {
				t.Errorf("%s: %s is %q, want %q", verb, key, got, want)
			}
		}
	}
	created := collector.Spans("create muster_manifest_work")[0]
	if got := written.Annotations[work.TraceparentAnnotation]; got != "00-"+ci+"-"+created.ID()+"-01" {
		t.Errorf("the work has %q, want the span %s", got, created.ID())
	}
	testkit.Eventually(t, func() error { // the hub sends its spans every few seconds
		for _, s := range collector.Spans("") {
			if s.Service == "apiserver" && s.Trace() == ci && s.Parent() == created.ID() &&
				strings.HasPrefix(s.Name, "PATCH ") && strings.HasSuffix(s.Name, "/manifestworks/{:name}") {
				return nil
			}
		}
		return fmt.Errorf("the hub's span of the creation is missing:\n%v", collector)
	})
}

// A collector that never answers keeps no operation waiting, and fails none.
func TestAccASilentCollectorChangesNothing(t *testing.T) {
	if os.Getenv("TF_ACC") == "" {
		t.Skip("acceptance tests run with TF_ACC=1")
	}
	w, end := tracedWorkspace(t, acctest.Acc.Hub, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + testcollector.Silent(t),
	})
	if said, ok := w.Apply(acctest.WorkConfig("untraced", acctest.AsYAML)); !ok {
		t.Error(acctest.Excerpt(said))
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	end()
}
