package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"go.opentelemetry.io/otel/trace"

	"github.com/muster-fleet/terraform-provider-muster/internal/tracing"
)

// Traced is a provider that makes a span of each operation on a resource: create, read,
// update and delete. What is done within goes into spans of its own, and the hub gets the
// span with each request. Nil makes none.
func Traced(server Server, traces *tracing.Provider) Server {
	if traces == nil {
		return server
	}
	return &traced{server, traces}
}

type traced struct {
	Server
	traces *tracing.Provider
}

// ReadResource implements tfprotov6.ResourceServer.
func (t *traced) ReadResource(
	ctx context.Context, req *tfprotov6.ReadResourceRequest,
) (*tfprotov6.ReadResourceResponse, error) {
	ctx, span := t.begin(ctx, "read", req.TypeName)
	resp, err := t.Server.ReadResource(ctx, req)
	if resp == nil {
		end(span, nil, err)
		return nil, err
	}
	end(span, resp.Diagnostics, err)
	return resp, err
}

// ApplyResourceChange implements tfprotov6.ResourceServer.
func (t *traced) ApplyResourceChange(
	ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	verb := "update"
	switch {
	case isNull(req.PriorState):
		verb = "create"
	case isNull(req.PlannedState):
		verb = "delete"
	}
	ctx, span := t.begin(ctx, verb, req.TypeName)
	resp, err := t.Server.ApplyResourceChange(ctx, req)
	if resp == nil {
		end(span, nil, err)
		return nil, err
	}
	end(span, resp.Diagnostics, err)
	return resp, err
}

func (t *traced) begin(ctx context.Context, verb, kind string) (context.Context, trace.Span) {
	return t.traces.Begin(ctx, t.traces.Parent, verb+" "+kind, tracing.ResourceTypeKey.String(kind))
}

// end ends the span of an operation. Of an error it has the summary.
func end(span trace.Span, said []*tfprotov6.Diagnostic, err error) {
	problem := "the provider could not answer"
	for _, d := range said {
		if d.Severity == tfprotov6.DiagnosticSeverityError && err == nil {
			problem, err = d.Summary, errors.New(d.Summary)
		}
	}
	tracing.End(span, err, problem)
}

func isNull(value *tfprotov6.DynamicValue) bool {
	if value == nil {
		return true
	}
	null, err := value.IsNull()
	return err == nil && null
}
