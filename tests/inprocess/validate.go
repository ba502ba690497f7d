package inprocess

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// validate is Terraform's: nothing is known of what resources give.
func (tf *Terraform) validate(ctx context.Context, config *configuration) Diagnostics {
	w, problems := tf.newWalk(ctx, config, NewState())
	if problems.HasErrors() {
		return problems
	}
	w.unknown = true
	nodes := map[string]*node{}
	w.providerNodes(nodes)
	for address, r := range config.resources {
		nodes[address] = &node{needs: w.needs(r), do: func() bool { return w.validateResource(r) }}
	}
	if err := run(nodes); err != nil {
		return Diagnostics{{Summary: err.Error()}}
	}
	return w.diagnostics
}

func (w *walk) validateResource(r *resourceBlock) bool {
	s := w.connections[r.provider()].schema(r)
	if s == nil {
		what := "resource type"
		if r.data {
			what = "data source"
		}
		return w.report(Diagnostics{w.config.errorAt(r.block.DefRange(), r.address, "Invalid "+what,
			fmt.Sprintf("The provider %s does not support %s %q.", r.provider(), what, r.kind))})
	}
	own := names{}
	value := cty.UnknownVal(s.kind)
	switch {
	case r.count != nil:
		own["count"] = cty.ObjectVal(map[string]cty.Value{"index": cty.UnknownVal(cty.Number)})
		value = cty.DynamicVal
	case r.forEach != nil:
		own["each"] = cty.ObjectVal(map[string]cty.Value{"key": cty.UnknownVal(cty.String), "value": cty.DynamicVal})
		value = cty.DynamicVal
	}
	config, diagnostics := w.body(r.address, r.body, s, own)
	if w.report(diagnostics) {
		w.validateConfig(r, r.address, s, config)
	}
	w.set(r.address, value)
	return true // What depends on it may have mistakes, too.
}

// validateConfig asks the provider.
func (w *walk) validateConfig(r *resourceBlock, address string, s *schema, value cty.Value) bool {
	config, err := encode(value, s.kind)
	if err != nil {
		return w.report(failed(address, err))
	}
	server := w.connections[r.provider()].server
	var problems []*tfprotov6.Diagnostic
	if r.data {
		req := &tfprotov6.ValidateDataResourceConfigRequest{TypeName: r.kind, Config: config}
		resp, err := server.ValidateDataResourceConfig(w.ctx, req)
		if err != nil {
			return w.report(failed(address, err))
		}
		problems = resp.Diagnostics
	} else {
		resp, err := server.ValidateResourceConfig(w.ctx, &tfprotov6.ValidateResourceConfigRequest{
			TypeName: r.kind, Config: config,
			ClientCapabilities: &tfprotov6.ValidateResourceConfigClientCapabilities{WriteOnlyAttributesAllowed: true},
		})
		if err != nil {
			return w.report(failed(address, err))
		}
		problems = resp.Diagnostics
	}
	return w.report(w.config.ofProvider(address, r.block, problems))
}
