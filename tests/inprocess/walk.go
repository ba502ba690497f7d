package inprocess

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/muster-fleet/terraform-provider-muster/tests/inprocess/builtin"
)

// parallelism is how many objects are worked on at once, as by Terraform.
const parallelism = 10

// node is one thing to do once those that it needs are done.
type node struct {
	needs []string
	do    func() (ok bool)
}

// run does all nodes in their order. What needs one that has failed is left out.
func run(nodes map[string]*node) error {
	if err := findCycle(nodes); err != nil {
		return err
	}
	type outcome struct {
		done chan struct{}
		ok   bool
	}
	outcomes := map[string]*outcome{}
	for name := range nodes {
		outcomes[name] = &outcome{done: make(chan struct{})}
	}
	slots := make(chan struct{}, parallelism)
	var all sync.WaitGroup
	for name, n := range nodes {
		all.Go(func() {
			mine := outcomes[name]
			defer close(mine.done)
			for _, need := range n.needs {
				if other := outcomes[need]; other != nil {
					<-other.done
					if !other.ok {
						return
					}
				}
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			mine.ok = n.do()
		})
	}
	all.Wait()
	return nil
}

func findCycle(nodes map[string]*node) error {
	state := map[string]int{}
	var visit func(name string, path []string) error
	visit = func(name string, path []string) error {
		if nodes[name] == nil || state[name] == 2 {
			return nil
		}
		path = append(path, name)
		if state[name] == 1 {
			return fmt.Errorf("Cycle: %s", strings.Join(path, ", "))
		}
		state[name] = 1
		for _, need := range nodes[name].needs {
			if err := visit(need, path); err != nil {
				return err
			}
		}
		state[name] = 2
		return nil
	}
	for _, name := range sortedKeys(nodes) {
		if err := visit(name, nil); err != nil {
			return err
		}
	}
	return nil
}

// walk is one pass over a configuration: to validate, to plan or to apply.
type walk struct {
	ctx    context.Context
	tf     *Terraform
	config *configuration
	// unknown makes all that resources give unknown: for validation.
	unknown bool

	mu          sync.Mutex
	connections map[string]*connection
	functions   map[string]function.Function
	values      map[string]cty.Value // of resources, by their addresses
	diagnostics Diagnostics
}

// newWalk starts the providers that a configuration and a state need.
func (tf *Terraform) newWalk(ctx context.Context, config *configuration, state *State) (*walk, Diagnostics) {
	w := &walk{
		ctx: ctx, tf: tf, config: config,
		connections: map[string]*connection{}, values: map[string]cty.Value{}, functions: functions(),
	}
	needed := map[string]bool{}
	for name := range config.providers {
		needed[name] = true
	}
	for _, r := range config.resources {
		needed[r.provider()] = true
	}
	for _, i := range state.Instances {
		needed[providerOf(i.Type)] = true
	}
	for name := range tf.Providers {
		if strings.Contains(strings.Join(config.lines, "\n"), "provider::"+name+"::") {
			needed[name] = true
		}
	}
	for name := range needed {
		start := tf.Providers[name]
		if name == "terraform" {
			start = builtin.NewServer
		}
		if start == nil {
			return w, Diagnostics{{
				Summary: "Failed to query available provider packages", Detail: "There is no provider " + name + ".",
			}}
		}
		c, err := tf.connect(ctx, name, start)
		if err != nil {
			return w, failed("", err)
		}
		w.connections[name] = c
		maps.Copy(w.functions, c.providerFunctions(ctx))
	}
	return w, nil
}

// report keeps diagnostics and says whether there was no error.
func (w *walk) report(diagnostics Diagnostics) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diagnostics = append(w.diagnostics, diagnostics...)
	return !diagnostics.HasErrors()
}

func (w *walk) set(address string, value cty.Value) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.values[address] = value
}

// names are what expressions may use besides resources: each, count and self.
type names map[string]cty.Value

// scope has the values that expressions name.
func (w *walk) scope(address string, traversals []hcl.Traversal, own names) (*hcl.EvalContext, Diagnostics) {
	objects := map[string]map[string]cty.Value{}
	sources := map[string]map[string]cty.Value{}
	put := func(in map[string]map[string]cty.Value, kind, name string, value cty.Value) {
		if in[kind] == nil {
			in[kind] = map[string]cty.Value{}
		}
		in[kind][name] = value
	}
	var diagnostics Diagnostics
	for _, traversal := range traversals {
		root := traversal.RootName()
		if _, ok := own[root]; ok {
			continue
		}
		if root == "var" || root == "local" || root == "path" || root == "terraform" {
			name := ""
			if len(traversal) > 1 {
				if step, ok := traversal[1].(hcl.TraverseAttr); ok {
					name = step.Name
				}
			}
			value, more := w.named(address, root, name, traversal.SourceRange())
			diagnostics = append(diagnostics, more...)
			put(objects, root, name, value)
			continue
		}
		target := addressOf(traversal)
		if w.config.resources[target] == nil {
			diagnostics = append(diagnostics, w.config.errorAt(traversal.SourceRange(), address,
				"Reference to undeclared resource", fmt.Sprintf("A resource %q has not been declared in the root module.", target)))
			continue
		}
		w.mu.Lock()
		value, ok := w.values[target]
		w.mu.Unlock()
		if !ok {
			value = cty.DynamicVal
		}
		words := strings.Split(target, ".")
		if words[0] == "data" {
			put(sources, words[1], words[2], value)
		} else {
			put(objects, words[0], words[1], value)
		}
	}
	scope := &hcl.EvalContext{Variables: map[string]cty.Value{}, Functions: w.functions}
	for kind, named := range objects {
		scope.Variables[kind] = cty.ObjectVal(named)
	}
	if len(sources) > 0 {
		data := map[string]cty.Value{}
		for kind, named := range sources {
			data[kind] = cty.ObjectVal(named)
		}
		scope.Variables["data"] = cty.ObjectVal(data)
	}
	maps.Copy(scope.Variables, own)
	return scope, diagnostics
}

// named is a variable, a local value, or something about Terraform itself.
func (w *walk) named(address, root, name string, at hcl.Range) (cty.Value, Diagnostics) {
	switch root {
	case "path":
		return cty.StringVal("."), nil
	case "terraform":
		return cty.StringVal("default"), nil
	case "local":
		if expression := w.config.locals[name]; expression != nil {
			return w.evaluate(address, expression, nil)
		}
	case "var":
		v := w.config.variables[name]
		if v == nil {
			break
		}
		value := v.fallback
		if given, ok := w.tf.Variables[name]; ok {
			value = given
		}
		if value == cty.NilVal {
			return cty.DynamicVal, Diagnostics{{Summary: "No value for required variable", Detail: name}}
		}
		if v.secret {
			value = value.Mark(sensitive)
		}
		return value, nil
	}
	return cty.DynamicVal, Diagnostics{w.config.errorAt(at, address, "Reference to undeclared value", root+"."+name)}
}

func (w *walk) evaluate(address string, expression hclsyntax.Expression, own names) (cty.Value, Diagnostics) {
	scope, diagnostics := w.scope(address, expression.Variables(), own)
	if diagnostics.HasErrors() {
		return cty.DynamicVal, diagnostics
	}
	value, problems := expression.Value(scope)
	return value, w.config.hclDiagnostics(address, problems)
}

// body decodes one with a schema.
func (w *walk) body(address string, body *hclsyntax.Body, s *schema, own names) (cty.Value, Diagnostics) {
	scope, diagnostics := w.scope(address, variablesOf(body), own)
	if diagnostics.HasErrors() {
		return cty.DynamicVal, diagnostics
	}
	value, problems := hcldec.Decode(body, s.spec, scope)
	diagnostics = append(diagnostics, w.config.hclDiagnostics(address, problems)...)
	if diagnostics.HasErrors() {
		return cty.DynamicVal, diagnostics
	}
	converted, err := convert.Convert(value, s.kind)
	if err != nil {
		return value, append(diagnostics,
			w.config.errorAt(body.SrcRange, address, "Incorrect attribute value type", err.Error()))
	}
	return converted, diagnostics
}

// expanded is one instance of a block.
type expanded struct {
	address string
	key     cty.Value
	own     names
}

// expand evaluates count or for_each.
func (w *walk) expand(r *resourceBlock) ([]expanded, Diagnostics) {
	switch {
	case r.count != nil:
		value, diagnostics := w.evaluate(r.address, r.count, nil)
		value, _ = value.Unmark()
		value, err := convert.Convert(value, cty.Number)
		if diagnostics.HasErrors() {
			return nil, diagnostics
		}
		if err != nil || !value.IsKnown() || value.IsNull() {
			return nil, w.invalid(r, r.count, "count")
		}
		count, _ := value.AsBigFloat().Int64()
		var found []expanded
		for i := range count {
			key := cty.NumberIntVal(i)
			own := names{"count": cty.ObjectVal(map[string]cty.Value{"index": key})}
			found = append(found, expanded{address: r.address + keyText(key), key: key, own: own})
		}
		return found, nil
	case r.forEach != nil:
		value, diagnostics := w.evaluate(r.address, r.forEach, nil)
		if diagnostics.HasErrors() {
			return nil, diagnostics
		}
		value, _ = value.Unmark()
		kind := value.Type()
		if !value.IsKnown() || value.IsNull() || !kind.IsMapType() && !kind.IsObjectType() && !kind.IsSetType() {
			return nil, w.invalid(r, r.forEach, "for_each")
		}
		var found []expanded
		for it := value.ElementIterator(); it.Next(); {
			key, element := it.Element()
			own := names{"each": cty.ObjectVal(map[string]cty.Value{"key": key, "value": element})}
			found = append(found, expanded{address: r.address + keyText(key), key: key, own: own})
		}
		return found, nil
	}
	return []expanded{{address: r.address, key: cty.NilVal}}, nil
}

func (w *walk) invalid(r *resourceBlock, at hclsyntax.Expression, what string) Diagnostics {
	return Diagnostics{w.config.errorAt(at.Range(), r.address, "Invalid "+what+" argument",
		fmt.Sprintf("The %q value depends on resource attributes that cannot be determined until apply.", what))}
}

// gather is the value of a resource of its instances.
func gather(r *resourceBlock, instances []expanded, values map[string]cty.Value) cty.Value {
	switch {
	case r.count != nil:
		elements := []cty.Value{}
		for _, i := range instances {
			elements = append(elements, values[i.address])
		}
		return cty.TupleVal(elements)
	case r.forEach != nil:
		entries := map[string]cty.Value{}
		for _, i := range instances {
			entries[i.key.AsString()] = values[i.address]
		}
		return cty.ObjectVal(entries)
	}
	return values[r.address]
}

// configure validates and configures a provider.
func (w *walk) configure(name string) bool {
	c := w.connections[name]
	if c.provider == nil {
		return true
	}
	block := w.config.providers[name]
	value := emptyOf(c.provider)
	if block != nil {
		var diagnostics Diagnostics
		value, diagnostics = w.body("", block.Body, c.provider, nil)
		if !w.report(withAddress(diagnostics, "provider["+name+"]")) {
			return false
		}
	}
	config, err := encode(value, c.provider.kind)
	if err != nil {
		return w.report(failed("", err))
	}
	address := fmt.Sprintf(`provider["registry.terraform.io/hashicorp/%s"]`, name)
	valid, err := c.server.ValidateProviderConfig(w.ctx, &tfprotov6.ValidateProviderConfigRequest{Config: config})
	if err != nil {
		return w.report(failed("", err))
	}
	if w.unknown {
		return w.report(w.config.ofProvider(address, block, valid.Diagnostics))
	}
	if problems := w.config.ofProvider(address, block, valid.Diagnostics); problems.HasErrors() {
		return w.report(problems)
	}
	req := &tfprotov6.ConfigureProviderRequest{Config: config, TerraformVersion: "1.14.0"}
	configured, err := c.server.ConfigureProvider(w.ctx, req)
	if err != nil {
		return w.report(failed("", err))
	}
	return w.report(w.config.ofProvider(address, block, configured.Diagnostics))
}

func withAddress(in Diagnostics, address string) Diagnostics {
	for i := range in {
		in[i].Address = address
	}
	return in
}

// emptyOf is a configuration that sets nothing.
func emptyOf(s *schema) cty.Value {
	value, _ := hcldec.Decode(hcl.EmptyBody(), s.spec, nil)
	converted, err := convert.Convert(value, s.kind)
	if err != nil {
		return value
	}
	return converted
}

// providerNodes are the nodes that configure the providers.
func (w *walk) providerNodes(nodes map[string]*node) {
	for name := range w.connections {
		nodes["provider."+name] = &node{
			needs: w.config.needsOfProvider(name), do: func() bool { return w.configure(name) },
		}
	}
}

// needs are the nodes before that of a resource.
func (w *walk) needs(r *resourceBlock) []string {
	return append(w.config.needsOf(r), "provider."+r.provider())
}

// check evaluates pre- or postconditions.
func (w *walk) check(r *resourceBlock, address string, after bool, own names) bool {
	ok := true
	for _, c := range r.conditions {
		if c.after != after {
			continue
		}
		value, diagnostics := w.evaluate(address, c.demand, own)
		if !w.report(diagnostics) {
			ok = false
			continue
		}
		value, _ = value.Unmark()
		if !value.IsKnown() || value.True() {
			continue
		}
		message, _ := w.evaluate(address, c.message, own)
		message, _ = message.Unmark()
		text := ""
		if message.Type() == cty.String && message.IsKnown() && !message.IsNull() {
			text = message.AsString()
		}
		summary := "Resource precondition failed"
		if after {
			summary = "Resource postcondition failed"
		}
		ok = w.report(Diagnostics{w.config.errorAt(c.at, address, summary, text)}) && ok
	}
	return ok
}

// outputs evaluates them, as far as what they need is there.
func (w *walk) outputs() map[string]OutputValue {
	found := map[string]OutputValue{}
	for name, o := range w.config.outputs {
		needed := map[string]bool{}
		w.config.needs(o.value.Variables(), needed)
		missing := slices.ContainsFunc(w.config.declared(needed), func(address string) bool {
			_, ok := w.values[address]
			return !ok
		})
		if missing {
			continue
		}
		value, diagnostics := w.evaluate("", o.value, nil)
		if !w.report(diagnostics) {
			continue
		}
		value, paths := value.UnmarkDeepWithPaths()
		if len(paths) > 0 && !o.sensitive {
			w.report(Diagnostics{w.config.errorAt(o.value.Range(), "", "Output refers to sensitive values",
				"To reduce the risk of accidentally exporting sensitive data, mark the output as sensitive: "+name)})
			continue
		}
		found[name] = OutputValue{Value: value, Sensitive: o.sensitive}
	}
	return found
}
