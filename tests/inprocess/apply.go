package inprocess

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// Applied is what an apply has done.
type Applied struct {
	Diagnostics                       Diagnostics
	Imported, Added, Changed, Removed int
}

// Apply does what a plan says, and keeps in the state how far it has come.
func (p *Plan) Apply(ctx context.Context) *Applied {
	a := &applier{plan: p, applied: &Applied{}, state: p.prior}
	p.tf.State = a.state
	w, problems := p.tf.newWalk(ctx, p.config, a.state)
	if problems.HasErrors() {
		a.applied.Diagnostics = problems
		return a.applied
	}
	a.walk = w
	if err := run(a.nodes()); err != nil {
		w.report(Diagnostics{{Summary: err.Error()}})
	}
	a.finish()
	a.applied.Diagnostics = w.diagnostics
	return a.applied
}

// applier is the walk that applies.
type applier struct {
	*walk
	plan    *Plan
	applied *Applied

	mu    sync.Mutex
	state *State
}

func (a *applier) nodes() map[string]*node {
	nodes := map[string]*node{}
	a.providerNodes(nodes)
	going := map[string][]string{} // deletions, by the address of the resource
	for address, c := range a.plan.Changes {
		if c.Action == Delete || c.Action == Replace {
			going[c.resourceAddress()] = append(going[c.resourceAddress()], "delete "+address)
		}
	}
	for address, c := range a.plan.Changes {
		if c.Action != Delete && c.Action != Replace {
			continue
		}
		n := &node{needs: []string{"provider." + providerOf(c.Type)}, do: func() bool { return a.remove(c) }}
		for _, other := range a.plan.Changes {
			goes := other.Action == Delete || other.Action == Replace
			if goes && slices.Contains(other.Instance.After, c.resourceAddress()) {
				n.needs = append(n.needs, "delete "+other.Address)
			}
		}
		nodes["delete "+address] = n
	}
	for address, r := range a.config.resources {
		if a.plan.Destroy {
			nodes[address] = &node{do: func() bool { return a.keep(r) }}
			continue
		}
		n := &node{needs: append(a.needs(r), going[address]...), do: func() bool { return a.applyResource(r) }}
		for before := range a.config.before(r) {
			n.needs = append(n.needs, going[before]...)
		}
		nodes[address] = n
	}
	return nodes
}

// finish sets the outputs.
func (a *applier) finish() {
	if a.plan.Destroy {
		if !a.diagnostics.HasErrors() {
			a.state.Outputs = map[string]OutputValue{}
			maps.DeleteFunc(a.state.Instances, func(_ string, i *Instance) bool { return i.Data })
		}
		return
	}
	for name, value := range a.outputs() {
		a.state.Outputs[name] = value
	}
	for name, change := range a.plan.Outputs {
		if change.Action == Delete {
			delete(a.state.Outputs, name)
		}
	}
}

func (a *applier) keep(r *resourceBlock) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.set(r.address, fromState(a.state, r, a.connections[r.provider()].schema(r)))
	return true
}

func (a *applier) store(i *Instance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state.Instances[i.Address] = i
}

func (a *applier) count(which *int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*which++
}

func (a *applier) applyResource(r *resourceBlock) bool {
	s := a.connections[r.provider()].schema(r)
	instances, diagnostics := a.expand(r)
	if !a.report(diagnostics) {
		return false
	}
	ok, values := true, map[string]cty.Value{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, e := range instances {
		all.Go(func() {
			value, done := a.applyInstance(r, s, e)
			mu.Lock()
			defer mu.Unlock()
			ok = ok && done
			values[e.address] = value
		})
	}
	all.Wait()
	if ok {
		a.set(r.address, gather(r, instances, values))
	}
	return ok
}

func (a *applier) applyInstance(r *resourceBlock, s *schema, e expanded) (cty.Value, bool) {
	if !a.check(r, e.address, false, e.own) {
		return cty.NilVal, false
	}
	change := a.plan.Changes[e.address]
	done := true
	switch {
	case change == nil: // It was read while planning, or is not among the targets.
	case change.Action == NoOp:
		if change.Importing != nil {
			a.count(&a.applied.Imported)
		}
		a.mu.Lock()
		if now := a.state.Instances[e.address]; now != nil {
			now.After = change.Instance.After
		}
		a.mu.Unlock()
	case change.Action == Read:
		done = a.read(r, s, e, change)
	default:
		done = a.write(r, s, e, change)
	}
	a.mu.Lock()
	now := a.state.Instances[e.address]
	a.mu.Unlock()
	if !done || now == nil {
		return cty.DynamicVal, done
	}
	value := s.markSensitive(now.Value)
	own := maps.Clone(e.own)
	if own == nil {
		own = names{}
	}
	own["self"] = value
	ok := a.check(r, e.address, true, own)
	return value, ok
}

func (a *applier) read(r *resourceBlock, s *schema, e expanded, change *Change) bool {
	config, diagnostics := a.body(e.address, r.body, s, e.own)
	if !a.report(diagnostics) {
		return false
	}
	unmarked, _ := config.UnmarkDeep()
	value, ok := a.readData(r, e.address, s, unmarked)
	if ok {
		read := *change.Instance
		read.Value = value
		a.store(&read)
	}
	return ok
}

// write creates or updates an object.
func (a *applier) write(r *resourceBlock, s *schema, e expanded, change *Change) bool {
	config, diagnostics := a.body(e.address, r.body, s, e.own)
	if !a.report(diagnostics) {
		return false
	}
	config, _ = ignoring(r, config, change.Before).UnmarkDeep()
	prior, private, identity := change.Before, change.private, change.Identity
	if change.Action != Update {
		prior, private, identity = cty.NullVal(s.kind), nil, nil
	}
	final, ok := a.ask(&question{
		address: e.address, kind: r.kind, schema: s, prior: prior, config: config,
		proposed: s.propose(prior, config), private: private, identity: identity,
	})
	if !ok {
		return false
	}
	planned, _ := change.After.UnmarkDeep()
	if wrong := compatible(planned, final.planned, ""); len(wrong) > 0 {
		return a.report(Diagnostics{{
			Summary: "Provider produced inconsistent final plan", Address: e.address,
			Detail: "When expanding the plan, the provider changed it: " + strings.Join(wrong, "; ") + ".",
		}})
	}
	if change.Importing != nil {
		a.count(&a.applied.Imported)
	}
	if final.planned.RawEquals(prior) {
		return true // What was not known turned out to be what it was.
	}
	made := &Instance{
		Address: e.address, Type: r.kind, Name: r.name, Key: e.key, After: change.Instance.After, version: s.version,
	}
	return a.applyChange(made, change, prior, config, final)
}

// applyChange has the provider create or update an object, and checks what it made.
func (a *applier) applyChange(made *Instance, change *Change, prior, config cty.Value, final answer) bool {
	s := change.schema
	resp, err := a.call(made.Type, s, prior, final.planned, config, final)
	if err != nil {
		return a.report(failed(made.Address, err))
	}
	ok := a.report(a.config.ofProvider(made.Address, a.blockOf(made.resourceAddress()), resp.Diagnostics))
	value, err := decode(resp.NewState, s.kind)
	if err != nil {
		return a.report(failed(made.Address, err))
	}
	if made.Value = value; !value.IsWhollyKnown() {
		ok = a.report(Diagnostics{{
			Summary: "Provider returned invalid result object after apply", Address: made.Address,
			Detail: "After the apply operation, the provider still indicated an unknown value for " + unknownIn(value) + ".",
		}})
		made.Value = cty.UnknownAsNull(value)
	} else if wrong := compatible(final.planned, value, ""); ok && len(wrong) > 0 {
		ok = a.report(Diagnostics{{
			Summary: "Provider produced inconsistent result after apply", Address: made.Address,
			Detail: "When applying changes, the provider produced an unexpected new value: " +
				strings.Join(wrong, "; ") + ".",
		}})
	}
	made.Private, made.Identity = resp.Private, resp.NewIdentity
	if made.Identity == nil {
		made.Identity = change.Identity
	}
	switch {
	case value.IsNull():
		a.mu.Lock()
		delete(a.state.Instances, made.Address)
		a.mu.Unlock()
	default:
		made.Tainted = !ok && prior.IsNull()
		a.store(made)
	}
	if ok && change.Action == Update {
		a.count(&a.applied.Changed)
	} else if ok {
		a.count(&a.applied.Added)
	}
	return ok
}

func (a *applier) call(
	kind string, s *schema, prior, planned, config cty.Value, final answer,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	req := &tfprotov6.ApplyResourceChangeRequest{
		TypeName: kind, PlannedPrivate: final.private, PlannedIdentity: final.identity,
	}
	var err error
	if req.PriorState, err = encode(prior, s.kind); err != nil {
		return nil, err
	}
	if req.PlannedState, err = encode(planned, s.kind); err != nil {
		return nil, err
	}
	if req.Config, err = encode(config, s.kind); err != nil {
		return nil, err
	}
	return a.connections[providerOf(kind)].server.ApplyResourceChange(a.ctx, req)
}

// remove deletes an object.
func (a *applier) remove(c *Change) bool {
	s, gone := c.schema, cty.NullVal(c.schema.kind)
	resp, err := a.call(c.Type, s, c.Before, gone, gone, answer{private: c.private, identity: c.Identity})
	if err != nil {
		return a.report(failed(c.Address, err))
	}
	ok := a.report(a.config.ofProvider(c.Address, a.blockOf(c.resourceAddress()), resp.Diagnostics))
	value, err := decode(resp.NewState, s.kind)
	if err != nil {
		return a.report(failed(c.Address, err))
	}
	if !value.IsNull() {
		if ok {
			ok = a.report(Diagnostics{{
				Summary: "Provider returned invalid result object after apply", Address: c.Address,
				Detail: "After deleting the object, the provider still returned one.",
			}})
		}
		left := *c.Instance
		left.Value, left.Private = value, resp.Private
		a.store(&left)
		return ok
	}
	a.mu.Lock()
	delete(a.state.Instances, c.Address)
	a.applied.Removed++
	a.mu.Unlock()
	return ok
}

// unknownIn names the values that are not known.
func unknownIn(value cty.Value) string {
	var found []string
	_ = cty.Walk(value, func(path cty.Path, v cty.Value) (bool, error) {
		if !v.IsKnown() {
			found = append(found, pathText(path))
		}
		return v.IsKnown(), nil
	})
	return strings.Join(found, ", ")
}

func pathText(path cty.Path) string {
	var out strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			out.WriteString("." + step.Name)
		case cty.IndexStep:
			fmt.Fprintf(&out, "[%s]", show(step.Key))
		}
	}
	return strings.TrimPrefix(out.String(), ".")
}
