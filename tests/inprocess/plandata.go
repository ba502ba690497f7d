package inprocess

import (
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// planData reads a data source, or plans that the apply does.
func (p *planner) planData(r *resourceBlock, s *schema, e expanded) (cty.Value, bool) {
	if !p.check(r, e.address, false, e.own) {
		return cty.NilVal, false
	}
	config, diagnostics := p.body(e.address, r.body, s, e.own)
	if !p.report(diagnostics) {
		return cty.NilVal, false
	}
	unmarked, _ := config.UnmarkDeep()
	if !p.validateConfig(r, e.address, s, unmarked) {
		return cty.NilVal, false
	}
	change := &Change{
		Instance: &Instance{Address: e.address, Type: r.kind, Name: r.name, Key: e.key, Data: true},
		Action:   Read, Before: cty.NullVal(s.kind), schema: s,
		After: unknownData(s, unmarked), drifted: cty.NullVal(s.kind),
	}
	if !unmarked.IsWhollyKnown() || p.waitsFor(r) {
		p.add(change)
		return s.markSensitive(change.After), true
	}
	value, ok := p.readData(r, e.address, s, unmarked)
	if !ok {
		return cty.NilVal, false
	}
	p.mu.Lock()
	read := *change.Instance
	read.Value = value
	p.plan.prior.Instances[e.address] = &read
	p.mu.Unlock()
	value = s.markSensitive(value)
	own := maps.Clone(e.own)
	if own == nil {
		own = names{}
	}
	own["self"] = value
	ok = p.check(r, e.address, true, own)
	return value, ok
}

// waitsFor reports whether something that depends_on or an argument names changes
// first. What arguments name by way of a local value does not count.
func (p *planner) waitsFor(r *resourceBlock) bool {
	first := map[string]bool{}
	named := slices.Clone(r.dependsOn)
	for _, traversal := range variablesOf(r.body) {
		named = append(named, addressOf(traversal))
	}
	for _, address := range named {
		first[address] = true
		if other := p.config.resources[address]; other != nil {
			maps.Copy(first, p.config.before(other))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.plan.Changes {
		if first[c.resourceAddress()] && c.Action != NoOp {
			return true
		}
	}
	return false
}

// unknownData is what is known of a data source that is read later.
func unknownData(s *schema, config cty.Value) cty.Value {
	values := config.AsValueMap()
	for name, f := range s.fields {
		if f.computed && values[name].IsNull() {
			values[name] = cty.UnknownVal(f.kind)
		}
	}
	return cty.ObjectVal(values)
}

func (w *walk) readData(r *resourceBlock, address string, s *schema, config cty.Value) (cty.Value, bool) {
	encoded, err := encode(config, s.kind)
	if err != nil {
		return cty.NilVal, w.report(failed(address, err))
	}
	server := w.connections[r.provider()].server
	resp, err := server.ReadDataSource(w.ctx, &tfprotov6.ReadDataSourceRequest{TypeName: r.kind, Config: encoded})
	if err != nil {
		return cty.NilVal, w.report(failed(address, err))
	}
	if !w.report(w.config.ofProvider(address, r.block, resp.Diagnostics)) {
		return cty.NilVal, false
	}
	value, err := decode(resp.State, s.kind)
	if err != nil {
		return cty.NilVal, w.report(failed(address, err))
	}
	if value.IsNull() || !value.IsWhollyKnown() {
		return cty.NilVal, w.report(Diagnostics{{
			Summary: "Provider produced invalid object", Address: address,
			Detail: "What the data source has read is null, or has values that are not known.",
		}})
	}
	return value, true
}
