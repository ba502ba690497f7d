package provider

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testcollector"
	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
)

// answers is a Server that answers each change in the same way.
type answers struct {
	Server
	said []*tfprotov6.Diagnostic
	err  error
}

func (a answers) ApplyResourceChange(
	context.Context, *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &tfprotov6.ApplyResourceChangeResponse{Diagnostics: a.said}, nil
}

// A span says what is done, and whether that has failed: with an error's summary, and
// nothing else of it.
func TestSpanOfAnOperation(t *testing.T) {
	kind := tftypes.Object{AttributeTypes: map[string]tftypes.Type{}}
	value := func(of any) *tfprotov6.DynamicValue {
		v, err := tfprotov6.NewDynamicValue(kind, tftypes.NewValue(kind, of))
		testkit.Must(t, err)
		return &v
	}
	there, null := value(map[string]tftypes.Value{}), value(nil)
	warning := &tfprotov6.Diagnostic{Severity: tfprotov6.DiagnosticSeverityWarning, Summary: "Late"}
	failure := &tfprotov6.Diagnostic{
		Severity: tfprotov6.DiagnosticSeverityError, Summary: "Cannot create x", Detail: "secret",
	}
	for _, test := range []struct {
		prior, planned *tfprotov6.DynamicValue
		answers        answers
		name, problem  string
	}{
		{null, there, answers{}, "create muster_x", ""},
		{there, there, answers{}, "update muster_x", ""},
		{there, null, answers{}, "delete muster_x", ""},
		{nil, there, answers{said: []*tfprotov6.Diagnostic{warning}}, "create muster_x", ""},
		{null, there, answers{said: []*tfprotov6.Diagnostic{warning, failure}}, "create muster_x", "Cannot create x"},
		{null, there, answers{err: errors.New("secret")}, "create muster_x", "the provider could not answer"},
	} {
		c := testcollector.Start(t)
		traces, err := tracing.FromEnvironment(func(name string) string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.Address}[name]
		}, tracing.Service{Name: "test", Warn: func(problem string) { t.Error(problem) }})
		testkit.Must(t, err)
		_, err = Traced(test.answers, traces).ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{
			TypeName: "muster_x", PriorState: test.prior, PlannedState: test.planned,
		})
		if !errors.Is(err, test.answers.err) {
			t.Errorf("got the error %v", err)
		}
		traces.Close()
		spans := c.Spans(test.name)
		if len(spans) != 1 || len(c.Spans("")) != 1 {
			t.Fatalf("want %s, got\n%v", test.name, c)
		}
		s := spans[0].Status
		if s.GetMessage() != test.problem || (s.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != (test.problem != "") {
			t.Errorf("%s: got the status %v, want %q", test.name, s, test.problem)
		}
	}
}

// Without traces there is nothing in between.
func TestTracedWithoutTraces(t *testing.T) {
	server := Server(&answers{})
	if got := Traced(server, nil); got != server {
		t.Errorf("got %T", got)
	}
}
