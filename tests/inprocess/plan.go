package inprocess

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// Factory starts a provider.
type Factory = func() (tfprotov6.ProviderServer, error)

// Terraform is one user's: providers, and a state of its own.
type Terraform struct {
	// Providers are the factories of the providers, by their local names.
	Providers map[string]Factory
	// Variables are given from outside.
	Variables map[string]cty.Value
	// State changes with every apply.
	State *State

	mu           sync.Mutex
	descriptions map[string]*description
}

// Options are those of a plan.
type Options struct {
	Destroy, NoRefresh bool
	// Targets are the addresses of resources; all without.
	Targets []string
}

// Plan validates a configuration, reads what there is and says what an apply would do.
func (tf *Terraform) Plan(ctx context.Context, source string, options Options) *Plan {
	p := &Plan{
		Changes: map[string]*Change{}, Outputs: map[string]OutputChange{}, Destroy: options.Destroy, tf: tf,
	}
	p.prior = tf.State.clone()
	p.config, p.Diagnostics = parse(source)
	if p.Diagnostics.HasErrors() {
		return p
	}
	if problems := tf.validate(ctx, p.config); problems.HasErrors() {
		p.Diagnostics = problems
		return p
	}
	w, problems := tf.newWalk(ctx, p.config, tf.State)
	p.Diagnostics = append(p.Diagnostics, problems...)
	if problems.HasErrors() {
		return p
	}
	planner := &planner{walk: w, plan: p, options: options}
	planner.run()
	p.Diagnostics = append(p.Diagnostics, w.diagnostics...)
	return p
}

// planner is the walk that plans.
type planner struct {
	*walk
	plan    *Plan
	options Options
	mu      sync.Mutex
}

func (p *planner) run() {
	nodes := map[string]*node{}
	p.providerNodes(nodes)
	targeted := p.targeted()
	for address, r := range p.config.resources {
		do := func() bool { return p.planResource(r) }
		if p.options.Destroy || !targeted(address) {
			do = func() bool { return p.keepResource(r) }
		}
		nodes[address] = &node{needs: p.needs(r), do: do}
	}
	for address, i := range p.tf.State.Instances {
		goes := p.options.Destroy || p.config.resources[i.resourceAddress()] == nil
		if goes && !i.Data && targeted(i.resourceAddress()) {
			nodes["delete "+address] = &node{
				needs: []string{"provider." + providerOf(i.Type)},
				do:    func() bool { return p.planDeletion(i) },
			}
		}
	}
	if err := run(nodes); err != nil {
		p.report(Diagnostics{{Summary: err.Error()}})
		return
	}
	if !p.diagnostics.HasErrors() && len(p.options.Targets) == 0 {
		p.planOutputs()
	}
}

// targeted says which resources are asked for: the targets with what they depend on,
// and for a destruction with what depends on them.
func (p *planner) targeted() func(address string) bool {
	if len(p.options.Targets) == 0 {
		return func(string) bool { return true }
	}
	chosen := map[string]bool{}
	for _, target := range p.options.Targets {
		chosen[target] = true
		if r := p.config.resources[target]; r != nil && !p.options.Destroy {
			maps.Copy(chosen, p.config.before(r))
		}
	}
	if p.options.Destroy {
		for _, i := range p.tf.State.Instances {
			if slices.ContainsFunc(i.After, func(address string) bool { return chosen[address] }) {
				chosen[i.resourceAddress()] = true
			}
		}
	}
	return func(address string) bool { return chosen[address] }
}

func (p *planner) planOutputs() {
	after := map[string]OutputValue{}
	if !p.options.Destroy {
		after = p.outputs()
	}
	for _, name := range append(sortedKeys(p.tf.State.Outputs), sortedKeys(after)...) {
		before, had := p.tf.State.Outputs[name]
		now, has := after[name]
		change := OutputChange{
			Before: before.Value, After: now.Value, Sensitive: before.Sensitive || now.Sensitive, Action: Update,
		}
		switch {
		case !had && has && now.Value.IsNull(), had && has && before.Value.RawEquals(now.Value):
			change.Action = NoOp
		case !had:
			change.Action, change.Before = Create, cty.NullVal(cty.DynamicPseudoType)
		case !has:
			change.Action, change.After = Delete, cty.NullVal(cty.DynamicPseudoType)
		}
		p.plan.Outputs[name] = change
	}
}

// keepResource gives what the state has of a resource.
func (p *planner) keepResource(r *resourceBlock) bool {
	s := p.connections[r.provider()].schema(r)
	p.set(r.address, fromState(p.tf.State, r, s))
	return true
}

func fromState(state *State, r *resourceBlock, s *schema) cty.Value {
	instances, values := []expanded{}, map[string]cty.Value{}
	for _, i := range state.of(r.address) {
		instances = append(instances, expanded{address: i.Address, key: i.Key})
		values[i.Address] = s.markSensitive(i.Value)
	}
	if len(instances) == 0 && r.count == nil && r.forEach == nil {
		return cty.DynamicVal
	}
	return gather(r, instances, values)
}

// planResource plans all instances of a resource, also those that go.
func (p *planner) planResource(r *resourceBlock) bool {
	s := p.connections[r.provider()].schema(r)
	instances, diagnostics := p.expand(r)
	if !p.report(diagnostics) {
		return false
	}
	ok, values := true, map[string]cty.Value{}
	wanted := map[string]bool{}
	var all sync.WaitGroup
	for _, e := range instances {
		wanted[e.address] = true
		all.Go(func() {
			plan := p.planInstance
			if r.data {
				plan = p.planData
			}
			value, done := plan(r, s, e)
			p.mu.Lock()
			defer p.mu.Unlock()
			ok = ok && done
			values[e.address] = value
		})
	}
	for _, i := range p.tf.State.of(r.address) {
		if !wanted[i.Address] && !i.Data {
			all.Go(func() {
				done := p.planDeletion(i)
				p.mu.Lock()
				defer p.mu.Unlock()
				ok = ok && done
			})
		}
	}
	all.Wait()
	if ok {
		p.set(r.address, gather(r, instances, values))
	}
	return ok
}

func (p *planner) add(c *Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plan.Changes[c.Address] = c
	if c.Before.IsNull() {
		delete(p.plan.prior.Instances, c.Address)
		return
	}
	refreshed := *c.Instance
	refreshed.Value, refreshed.Private = c.Before, c.private
	p.plan.prior.Instances[c.Address] = &refreshed
}

// planDeletion plans that an object goes.
func (p *planner) planDeletion(i *Instance) bool {
	s := p.connections[providerOf(i.Type)].resource(i.Type)
	now, ok := p.refresh(i, s)
	if !ok {
		return false
	}
	change := &Change{
		Instance: now, Action: Delete, Before: now.Value, After: cty.NullVal(s.kind),
		schema: s, private: now.Private, drifted: i.Value,
	}
	if now.Value.IsNull() {
		change.Action = NoOp
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.plan.prior.Instances, i.Address)
		return true
	}
	planned, ok := p.ask(&question{
		address: i.Address, kind: i.Type, schema: s, prior: now.Value, proposed: cty.NullVal(s.kind),
		config: cty.NullVal(s.kind), private: now.Private, identity: now.Identity,
	})
	if ok {
		change.private = planned.private
		p.add(change)
	}
	return ok
}

// planInstance plans one object, and returns what others see of it.
func (p *planner) planInstance(r *resourceBlock, s *schema, e expanded) (cty.Value, bool) {
	if !p.check(r, e.address, false, e.own) {
		return cty.NilVal, false
	}
	config, diagnostics := p.body(e.address, r.body, s, e.own)
	if !p.report(diagnostics) {
		return cty.NilVal, false
	}
	if plainConfig, _ := config.UnmarkDeep(); !p.validateConfig(r, e.address, s, plainConfig) {
		return cty.NilVal, false
	}
	change := &Change{
		Instance: &Instance{Address: e.address, Type: r.kind, Name: r.name, Key: e.key, version: s.version},
		Before:   cty.NullVal(s.kind), schema: s, drifted: cty.NullVal(s.kind),
	}
	if !p.before(change, s) {
		return cty.NilVal, false
	}
	change.Instance.After = sortedKeys(p.config.before(r))
	if !p.decide(change, r, config) {
		return cty.NilVal, false
	}
	p.add(change)
	value := s.markSensitive(change.After)
	own := maps.Clone(e.own)
	if own == nil {
		own = names{}
	}
	own["self"] = value
	ok := p.check(r, e.address, true, own)
	return value, ok
}

// before finds out what there is: what the state has, or what is imported.
func (p *planner) before(change *Change, s *schema) bool {
	known := p.tf.State.Instances[change.Address]
	if known == nil {
		imported, ok := p.imported(change.Address, change.Type, s)
		if !ok || imported == nil {
			return ok
		}
		imported.Name, imported.Key = change.Name, change.Key
		known = imported
		change.Importing = new(string)
	}
	now, ok := p.refresh(known, s)
	if !ok {
		return false
	}
	if change.Importing != nil && now.Value.IsNull() {
		return p.report(Diagnostics{{
			Summary: "Cannot import non-existent remote object", Address: change.Address,
			Detail: "While attempting to import an existing object, the provider detected that no object " +
				"exists with the given id.",
		}})
	}
	if change.drifted = known.Value; change.Importing != nil {
		change.drifted = now.Value
	}
	if now.Value.IsNull() {
		return true
	}
	key := change.Key
	change.Instance = now
	change.Key = key
	change.Before, change.private = now.Value, now.Private
	return true
}

// decide asks the provider for a plan, and sees what it comes to.
func (p *planner) decide(change *Change, r *resourceBlock, config cty.Value) bool {
	s := change.schema
	config = ignoring(r, config, change.Before)
	unmarked, marks := config.UnmarkDeepWithPaths()
	prior := change.Before
	if change.Tainted {
		prior = cty.NullVal(s.kind)
	}
	q := &question{
		address: change.Address, kind: change.Type, schema: s, prior: prior, config: unmarked,
		proposed: s.propose(prior, unmarked), private: change.private, identity: change.Identity,
	}
	if change.Tainted {
		q.private, q.identity = nil, nil
	}
	planned, ok := p.ask(q)
	if !ok {
		return false
	}
	for _, path := range planned.replaces {
		if !prior.IsNull() && differ(path, prior, planned.planned) {
			change.Replaces = append(change.Replaces, path)
		}
	}
	replaced := change.Tainted || len(change.Replaces) > 0 || !prior.IsNull() && p.triggered(r)
	if replaced && !prior.IsNull() {
		q.prior, q.private, q.identity = cty.NullVal(s.kind), nil, nil
		q.proposed = s.propose(q.prior, unmarked)
		if planned, ok = p.ask(q); !ok {
			return false
		}
	}
	switch {
	case replaced:
		change.Action = Replace
	case prior.IsNull():
		change.Action = Create
	case planned.planned.RawEquals(prior):
		change.Action = NoOp
	default:
		change.Action = Update
	}
	change.After = planned.planned.MarkWithPaths(withinPlan(marks, planned.planned))
	return true
}

// withinPlan are the marks of a configuration that a plan has the values for.
func withinPlan(marks []cty.PathValueMarks, planned cty.Value) []cty.PathValueMarks {
	var found []cty.PathValueMarks
	for _, m := range marks {
		for len(m.Path) > 0 {
			if v, err := m.Path.Apply(planned); err == nil && !v.IsNull() {
				found = append(found, m)
				break
			}
			m.Path = m.Path[:len(m.Path)-1]
		}
	}
	return found
}

// triggered reports whether something that replace_triggered_by names changes.
func (p *planner) triggered(r *resourceBlock) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, trigger := range r.triggers {
		for _, traversal := range trigger.Variables() {
			for _, c := range p.plan.Changes {
				if c.resourceAddress() == addressOf(traversal) && c.Action != NoOp {
					return true
				}
			}
		}
	}
	return false
}

func differ(path cty.Path, prior, planned cty.Value) bool {
	before, err := path.Apply(prior)
	if err != nil {
		return true
	}
	after, err := path.Apply(planned)
	return err != nil || !before.RawEquals(after)
}

// ignoring is a configuration with what ignore_changes names as it is.
func ignoring(r *resourceBlock, config, prior cty.Value) cty.Value {
	if prior.IsNull() || !r.ignoreAll && len(r.ignore) == 0 {
		return config
	}
	if r.ignoreAll {
		return prior
	}
	values := config.AsValueMap()
	for _, name := range r.ignore {
		if _, ok := values[name]; ok {
			values[name] = prior.GetAttr(name)
		}
	}
	return cty.ObjectVal(values)
}
