package inprocess

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// configuration is a parsed one.
type configuration struct {
	lines     []string
	resources map[string]*resourceBlock // managed ones and data sources, by address
	outputs   map[string]*output
	variables map[string]*variable
	locals    map[string]hclsyntax.Expression
	providers map[string]*hclsyntax.Block
	imports   []*importing
}

// resourceBlock is a block of a managed resource or a data source.
type resourceBlock struct {
	address    string
	kind, name string
	data       bool
	block      *hclsyntax.Block
	body       *hclsyntax.Body // without what is for Terraform
	count      hclsyntax.Expression
	forEach    hclsyntax.Expression
	dependsOn  []string
	conditions []*condition
	ignore     []string
	ignoreAll  bool
	triggers   []hclsyntax.Expression
}

type condition struct {
	after           bool // of a postcondition
	demand, message hclsyntax.Expression
	at              hcl.Range
}

type output struct {
	name      string
	value     hclsyntax.Expression
	sensitive bool
	body      *hclsyntax.Body
}

type variable struct {
	fallback cty.Value
	secret   bool
}

type importing struct {
	to       string
	id       hclsyntax.Expression
	identity hclsyntax.Expression
	at       hcl.Range
}

// provider is the local name of the provider of a resource: the first word of its type.
func (r *resourceBlock) provider() string { return providerOf(r.kind) }

func providerOf(kind string) string {
	name, _, _ := strings.Cut(kind, "_")
	return name
}

// fileName is where a configuration is said to be.
const fileName = "main.tf"

func parse(source string) (*configuration, Diagnostics) {
	file, problems := hclsyntax.ParseConfig([]byte(source), fileName, hcl.InitialPos)
	c := &configuration{
		lines: strings.Split(source, "\n"), resources: map[string]*resourceBlock{}, outputs: map[string]*output{},
		variables: map[string]*variable{}, locals: map[string]hclsyntax.Expression{},
		providers: map[string]*hclsyntax.Block{},
	}
	if problems.HasErrors() {
		return c, c.hclDiagnostics("", problems)
	}
	var diagnostics Diagnostics
	for _, block := range file.Body.(*hclsyntax.Body).Blocks {
		diagnostics = append(diagnostics, c.add(block)...)
	}
	return c, diagnostics
}

func (c *configuration) add(block *hclsyntax.Block) Diagnostics {
	switch block.Type {
	case "terraform":
		return nil
	case "resource", "data":
		return c.addResource(block)
	case "output":
		out := &output{name: block.Labels[0], body: block.Body, value: block.Body.Attributes["value"].Expr}
		if a := block.Body.Attributes["sensitive"]; a != nil {
			v, _ := a.Expr.Value(nil)
			out.sensitive = v.True()
		}
		c.outputs[out.name] = out
	case "locals":
		for name, a := range block.Body.Attributes {
			c.locals[name] = a.Expr
		}
	case "variable":
		return c.addVariable(block)
	case "provider":
		c.providers[block.Labels[0]] = block
	case "import":
		to := block.Body.Attributes["to"].Expr
		i := &importing{to: strings.TrimSpace(c.text(to.Range())), at: block.DefRange()}
		if a := block.Body.Attributes["id"]; a != nil {
			i.id = a.Expr
		}
		if a := block.Body.Attributes["identity"]; a != nil {
			i.identity = a.Expr
		}
		c.imports = append(c.imports, i)
	default:
		return Diagnostics{c.errorAt(block.DefRange(), "", "Unsupported block",
			fmt.Sprintf("A %s block needs a real Terraform: use acctest.NewTerraform or acctest.RunTerraform.", block.Type))}
	}
	return nil
}

func (c *configuration) addVariable(block *hclsyntax.Block) Diagnostics {
	v := &variable{fallback: cty.NilVal}
	if a := block.Body.Attributes["default"]; a != nil {
		value, problems := a.Expr.Value(&hcl.EvalContext{Functions: functions()})
		if problems.HasErrors() {
			return c.hclDiagnostics("", problems)
		}
		v.fallback = value
	}
	if a := block.Body.Attributes["sensitive"]; a != nil {
		value, _ := a.Expr.Value(nil)
		v.secret = value.True()
	}
	c.variables[block.Labels[0]] = v
	return nil
}

func (c *configuration) addResource(block *hclsyntax.Block) Diagnostics {
	r := &resourceBlock{kind: block.Labels[0], name: block.Labels[1], data: block.Type == "data", block: block}
	r.address = r.kind + "." + r.name
	if r.data {
		r.address = "data." + r.address
	}
	r.body = &hclsyntax.Body{
		Attributes: hclsyntax.Attributes{}, SrcRange: block.Body.SrcRange, EndRange: block.Body.EndRange,
	}
	for name, a := range block.Body.Attributes {
		switch name {
		case "count":
			r.count = a.Expr
		case "for_each":
			r.forEach = a.Expr
		case "depends_on":
			for _, traversal := range a.Expr.Variables() {
				r.dependsOn = append(r.dependsOn, addressOf(traversal))
			}
		case "provider":
		default:
			r.body.Attributes[name] = a
		}
	}
	for _, inner := range block.Body.Blocks {
		if inner.Type != "lifecycle" {
			r.body.Blocks = append(r.body.Blocks, inner)
			continue
		}
		if diagnostics := c.addLifecycle(r, inner.Body); diagnostics.HasErrors() {
			return diagnostics
		}
	}
	if c.resources[r.address] != nil {
		return Diagnostics{c.errorAt(block.DefRange(), "", "Duplicate resource configuration",
			r.address+" is declared twice.")}
	}
	c.resources[r.address] = r
	return nil
}

func (c *configuration) addLifecycle(r *resourceBlock, body *hclsyntax.Body) Diagnostics {
	for name, a := range body.Attributes {
		switch name {
		case "ignore_changes":
			if c.text(a.Expr.Range()) == "all" {
				r.ignoreAll = true
				continue
			}
			expressions, problems := hcl.ExprList(a.Expr)
			if problems.HasErrors() {
				return c.hclDiagnostics(r.address, problems)
			}
			for _, e := range expressions {
				r.ignore = append(r.ignore, c.text(e.Range()))
			}
		case "replace_triggered_by":
			expressions, problems := hcl.ExprList(a.Expr)
			if problems.HasErrors() {
				return c.hclDiagnostics(r.address, problems)
			}
			for _, e := range expressions {
				r.triggers = append(r.triggers, e.(hclsyntax.Expression))
			}
		default:
			return Diagnostics{c.errorAt(a.NameRange, r.address, "Unsupported argument",
				name+" needs a real Terraform: use acctest.NewTerraform or acctest.RunTerraform.")}
		}
	}
	for _, block := range body.Blocks {
		r.conditions = append(r.conditions, &condition{
			after: block.Type == "postcondition", demand: block.Body.Attributes["condition"].Expr,
			message: block.Body.Attributes["error_message"].Expr, at: block.Body.Attributes["condition"].Expr.Range(),
		})
	}
	return nil
}

// text is what a range of the source says.
func (c *configuration) text(at hcl.Range) string {
	source := strings.Join(c.lines, "\n")
	return source[at.Start.Byte:at.End.Byte]
}

// addressOf is the address of the resource or data source that an expression names;
// empty if it names none.
func addressOf(traversal hcl.Traversal) string {
	var words []string
	for _, step := range traversal {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			words = append(words, step.Name)
			continue
		case hcl.TraverseAttr:
			words = append(words, step.Name)
			continue
		}
		break
	}
	switch {
	case len(words) == 0:
		return ""
	case words[0] == "data":
		if len(words) < 3 {
			return ""
		}
		return strings.Join(words[:3], ".")
	case len(words) < 2:
		return ""
	}
	switch words[0] {
	case "var", "local", "each", "count", "self", "path", "terraform":
		return ""
	}
	return words[0] + "." + words[1]
}

// needs are the addresses of the resources that expressions read, also by way of
// local values.
func (c *configuration) needs(traversals []hcl.Traversal, found map[string]bool) {
	for _, traversal := range traversals {
		if address := addressOf(traversal); address != "" {
			found[address] = true
			continue
		}
		if traversal.RootName() != "local" || len(traversal) < 2 {
			continue
		}
		name, ok := traversal[1].(hcl.TraverseAttr)
		if ok && c.locals[name.Name] != nil && !found["local."+name.Name] {
			found["local."+name.Name] = true
			c.needs(c.locals[name.Name].Variables(), found)
		}
	}
}

// needsOf are the resources that have to be ready before one.
func (c *configuration) needsOf(r *resourceBlock) []string {
	found := map[string]bool{}
	c.needs(variablesOf(r.body), found)
	for _, e := range append([]hclsyntax.Expression{r.count, r.forEach}, r.triggers...) {
		if e != nil {
			c.needs(e.Variables(), found)
		}
	}
	for _, condition := range r.conditions {
		c.needs(condition.demand.Variables(), found)
		c.needs(condition.message.Variables(), found)
	}
	for _, address := range r.dependsOn {
		found[address] = true
	}
	delete(found, r.address)
	return c.declared(found)
}

func (c *configuration) needsOfProvider(name string) []string {
	found := map[string]bool{}
	if block := c.providers[name]; block != nil {
		c.needs(variablesOf(block.Body), found)
	}
	return c.declared(found)
}

func (c *configuration) declared(found map[string]bool) []string {
	var addresses []string
	for address := range found {
		if c.resources[address] != nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// before are the managed resources that a resource depends on, at any distance.
func (c *configuration) before(r *resourceBlock) map[string]bool {
	found, seen := map[string]bool{}, map[string]bool{}
	var follow func(addresses []string)
	follow = func(addresses []string) {
		for _, address := range addresses {
			if seen[address] {
				continue
			}
			seen[address] = true
			if !c.resources[address].data {
				found[address] = true
			}
			follow(c.needsOf(c.resources[address]))
		}
	}
	follow(c.needsOf(r))
	follow(c.needsOfProvider(r.provider()))
	return found
}

// variablesOf are those of all expressions of a body.
func variablesOf(body *hclsyntax.Body) []hcl.Traversal {
	var found []hcl.Traversal
	for _, a := range body.Attributes {
		found = append(found, a.Expr.Variables()...)
	}
	for _, block := range body.Blocks {
		found = append(found, variablesOf(block.Body)...)
	}
	return found
}
