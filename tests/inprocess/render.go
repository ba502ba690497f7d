package inprocess

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// show is a value in one line.
func show(value cty.Value) string {
	if value == cty.NilVal {
		return "null"
	}
	value, marks := value.Unmark()
	switch {
	case len(marks) > 0:
		return "(sensitive value)"
	case !value.IsKnown():
		return "(known after apply)"
	case value.IsNull():
		return "null"
	case value.Type() == cty.String:
		return quoted(value.AsString())
	case value.Type().IsPrimitiveType():
		text, err := convert.Convert(value, cty.String)
		if err != nil {
			return err.Error()
		}
		return text.AsString()
	}
	raw, err := ctyjson.Marshal(cty.UnknownAsNull(unmark(value)), value.Type())
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func unmark(value cty.Value) cty.Value { value, _ = value.UnmarkDeep(); return value }

// quoted is a text as Terraform shows it.
func quoted(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return text
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// String is the plan as Terraform shows it, in its words, with its signs, and without
// its alignment.
func (p *Plan) String() string {
	var out strings.Builder
	if !p.Diagnostics.HasErrors() && p.Empty() && !p.imports() {
		if p.Destroy {
			out.WriteString("No changes. No objects need to be destroyed.\n")
		} else {
			out.WriteString("No changes. Your infrastructure matches the configuration.\n")
		}
		return out.String() + p.Diagnostics.String()
	}
	verb := "Terraform will perform"
	if p.Diagnostics.HasErrors() {
		verb = "Terraform planned"
	}
	if len(p.Changes) > 0 || !p.Diagnostics.HasErrors() {
		out.WriteString(verb + " the following actions:\n")
	}
	for _, address := range sortedKeys(p.Changes) {
		out.WriteString(p.Changes[address].String())
	}
	if p.Diagnostics.HasErrors() {
		out.WriteString("Planning failed. Terraform encountered an error while generating this plan.\n")
		return out.String() + p.Diagnostics.String()
	}
	out.WriteString("Plan: " + p.summary() + "\n")
	p.writeOutputs(&out)
	return out.String() + p.Diagnostics.String()
}

func (p *Plan) imports() bool {
	for _, c := range p.Changes {
		if c.Importing != nil {
			return true
		}
	}
	return false
}

func (p *Plan) summary() string {
	imported, add, change, remove := 0, 0, 0, 0
	for _, c := range p.Changes {
		if c.Importing != nil {
			imported++
		}
		switch c.Action {
		case Create:
			add++
		case Update:
			change++
		case Delete:
			remove++
		case Replace:
			add++
			remove++
		}
	}
	text := fmt.Sprintf("%d to add, %d to change, %d to destroy.", add, change, remove)
	if imported > 0 {
		text = fmt.Sprintf("%d to import, ", imported) + text
	}
	return text
}

func (p *Plan) writeOutputs(out *strings.Builder) {
	names := slices.DeleteFunc(sortedKeys(p.Outputs), func(name string) bool { return p.Outputs[name].Action == NoOp })
	if len(names) > 0 {
		out.WriteString("Changes to Outputs:\n")
	}
	for _, name := range names {
		o := p.Outputs[name]
		if o.Sensitive {
			fmt.Fprintf(out, "%s %s = (sensitive value)\n", sign(o.Before, o.After), name)
			continue
		}
		writeDifference(out, name+" = ", o.Before, o.After, nil)
	}
}

// String is what Terraform says of one object.
func (c *Change) String() string {
	what := "resource"
	if c.Data {
		what = "data"
	}
	var will string
	switch c.Action {
	case NoOp:
		if c.Importing == nil {
			return ""
		}
		return fmt.Sprintf("# %s will be imported\n", c.Address)
	case Create:
		will = "will be created"
	case Read:
		will = "will be read during apply"
	case Update:
		will = "will be updated in-place"
	case Delete:
		will = "will be destroyed"
	case Replace:
		if will = "must be replaced"; c.Tainted {
			will = "is tainted, so it must be replaced"
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# %s %s\n", c.Address, will)
	if c.Importing != nil {
		out.WriteString("# (will be imported first)\n")
	}
	signs := map[Action]string{Create: "+", Read: "<=", Update: "~", Delete: "-", Replace: "-/+"}
	fmt.Fprintf(&out, "%s %s %q %q {\n", signs[c.Action], what, c.Type, c.Name)
	before, after := c.schema.markSensitive(c.Before), c.After
	if !after.IsNull() {
		after = c.schema.markSensitive(after)
	}
	for _, name := range sortedKeys(c.schema.fields) {
		old, now := attribute(before, name), attribute(after, name)
		if same(old, now) {
			continue
		}
		separator := " = "
		if c.schema.fields[name].block {
			separator = " "
		}
		writeDifference(&out, name+separator, old, now, c.forces(name))
	}
	out.WriteString("}\n")
	return out.String()
}

// forces says after a value that it makes an update impossible.
func (c *Change) forces(name string) []string {
	for _, path := range c.Replaces {
		if step, ok := path[0].(cty.GetAttrStep); ok && step.Name == name {
			return []string{"# forces replacement"}
		}
	}
	return nil
}

func attribute(object cty.Value, name string) cty.Value {
	object, _ = object.Unmark()
	if object.IsNull() || !object.IsKnown() {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return object.GetAttr(name)
}

func same(before, after cty.Value) bool {
	before, after = unmark(before), unmark(after)
	return before.IsNull() && after.IsNull() || before.RawEquals(after)
}

func sign(before, after cty.Value) string {
	before, _ = before.Unmark()
	after, _ = after.Unmark()
	switch {
	case before.IsNull():
		return "+"
	case after.IsKnown() && after.IsNull():
		return "-"
	}
	return "~"
}

// writeDifference writes what becomes of a value, and of those inside of it.
func writeDifference(out *strings.Builder, name string, before, after cty.Value, notes []string) {
	note := ""
	if len(notes) > 0 {
		note = " " + notes[0]
	}
	hidden := before.IsMarked() || after.IsMarked()
	old, now := unmarkTop(before), unmarkTop(after)
	switch {
	case hidden:
		fmt.Fprintf(out, "%s %s(sensitive value)%s\n", sign(before, after), name, note)
	case old.IsNull() && now.IsNull():
	case !now.IsKnown() && old.IsNull(), old.IsNull() && isLeaf(now):
		fmt.Fprintf(out, "+ %s%s%s\n", name, text(now), note)
	case !now.IsKnown():
		fmt.Fprintf(out, "~ %s%s -> (known after apply)%s\n", name, text(old), note)
	case now.IsNull() && isLeaf(old):
		fmt.Fprintf(out, "- %s%s -> null%s\n", name, text(old), note)
	case isLeaf(old) && isLeaf(now) || !old.IsNull() && !now.IsNull() && isLeaf(old) != isLeaf(now):
		writeLeaves(out, name, old, now, note)
	default:
		writeInside(out, name, before, after, note)
	}
}

func unmarkTop(value cty.Value) cty.Value { value, _ = value.Unmark(); return value }

func isLeaf(value cty.Value) bool {
	return value.IsNull() || !value.IsKnown() || value.Type().IsPrimitiveType() || !value.CanIterateElements()
}

// text is a leaf; a text with several lines is shown line by line.
func text(value cty.Value) string {
	value = unmarkTop(value)
	if value.IsKnown() && !value.IsNull() && value.Type() == cty.String && strings.Contains(value.AsString(), "\n") {
		return "<<-EOT\n" + strings.TrimSuffix(value.AsString(), "\n") + "\nEOT"
	}
	return show(value)
}

// writeLeaves shows a change of a text as one of what it holds, if that is JSON.
func writeLeaves(out *strings.Builder, name string, old, now cty.Value, note string) {
	if before, after, ok := insides(old, now); ok {
		writeInside(out, name+"jsonencode(", before, after, ")"+note)
		return
	}
	fmt.Fprintf(out, "~ %s%s -> %s%s\n", name, text(old), text(now), note)
}

func insides(old, now cty.Value) (before, after cty.Value, ok bool) {
	values := []cty.Value{}
	for _, v := range []cty.Value{old, now} {
		if v.IsNull() || v.Type() != cty.String || !regexp.MustCompile(`^\s*[{\[]`).MatchString(v.AsString()) {
			return before, after, false
		}
		kind, err := ctyjson.ImpliedType([]byte(v.AsString()))
		if err != nil {
			return before, after, false
		}
		value, err := ctyjson.Unmarshal([]byte(v.AsString()), kind)
		if err != nil {
			return before, after, false
		}
		values = append(values, value)
	}
	return values[0], values[1], true
}

// writeInside writes the elements or attributes of a value.
func writeInside(out *strings.Builder, name string, before, after cty.Value, note string) {
	kind := unmarkTop(after).Type()
	if unmarkTop(after).IsNull() {
		kind = unmarkTop(before).Type()
	}
	opening, closing := "{", "}"
	keyed := kind.IsObjectType() || kind.IsMapType()
	if !keyed {
		opening, closing = "[", "]"
	}
	end := ""
	if unmarkTop(after).IsNull() {
		end = " -> null"
	}
	fmt.Fprintf(out, "%s %s%s\n", sign(before, after), name, opening)
	if keyed {
		writeEntries(out, before, after, kind.IsMapType())
	} else {
		writeElements(out, elements(before), elements(after), kind.IsSetType())
	}
	out.WriteString(closing + end + note + "\n")
}

func writeEntries(out *strings.Builder, before, after cty.Value, quote bool) {
	old, now := entries(before), entries(after)
	all := map[string]bool{}
	for _, m := range []map[string]cty.Value{old, now} {
		for key := range m {
			all[key] = true
		}
	}
	hidden := 0
	for _, key := range sortedKeys(all) {
		was, is := orNull(old, key), orNull(now, key)
		if same(was, is) {
			if !unmarkTop(is).IsNull() {
				hidden++
			}
			continue
		}
		name := key
		if quote || !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`).MatchString(key) {
			name = quoted(key)
		}
		writeDifference(out, name+" = ", was, is, nil)
	}
	if hidden > 0 {
		fmt.Fprintf(out, "# (%d unchanged attributes hidden)\n", hidden)
	}
}

func orNull(m map[string]cty.Value, key string) cty.Value {
	if v, ok := m[key]; ok {
		return v
	}
	return cty.NullVal(cty.DynamicPseudoType)
}

func entries(value cty.Value) map[string]cty.Value {
	value = unmarkTop(value)
	if value.IsNull() || !value.IsKnown() || !value.CanIterateElements() {
		return nil
	}
	return value.AsValueMap()
}

func elements(value cty.Value) []cty.Value {
	value = unmarkTop(value)
	if value.IsNull() || !value.IsKnown() || !value.CanIterateElements() {
		return nil
	}
	return value.AsValueSlice()
}

// writeElements shows elements that come and go. Objects in a list are compared with
// those at the same place.
func writeElements(out *strings.Builder, old, now []cty.Value, isSet bool) {
	objects := len(old) > 0 && entries(old[0]) != nil || len(now) > 0 && entries(now[0]) != nil
	if objects && !isSet {
		for i := range max(len(old), len(now)) {
			was, is := cty.NullVal(cty.DynamicPseudoType), cty.NullVal(cty.DynamicPseudoType)
			if i < len(old) {
				was = old[i]
			}
			if i < len(now) {
				is = now[i]
			}
			if !same(was, is) {
				writeDifference(out, "", was, is, nil)
			}
		}
		return
	}
	has := func(in []cty.Value, v cty.Value) bool {
		return slices.ContainsFunc(in, func(other cty.Value) bool { return same(other, v) })
	}
	for _, v := range old {
		if !has(now, v) {
			writeDifference(out, "", v, cty.NullVal(cty.DynamicPseudoType), nil)
		}
	}
	for _, v := range now {
		if !has(old, v) {
			writeDifference(out, "", cty.NullVal(cty.DynamicPseudoType), v, nil)
		}
	}
}

// Said is what Terraform prints of an apply.
func (a *Applied) Said(p *Plan) string {
	var out strings.Builder
	out.WriteString(a.Diagnostics.Warnings().String())
	switch {
	case a.Diagnostics.HasErrors():
	case p.Destroy:
		fmt.Fprintf(&out, "Destroy complete! Resources: %d destroyed.\n", a.Removed)
	default:
		imported := ""
		if a.Imported > 0 {
			imported = fmt.Sprintf("%d imported, ", a.Imported)
		}
		fmt.Fprintf(&out, "Apply complete! Resources: %s%d added, %d changed, %d destroyed.\n",
			imported, a.Added, a.Changed, a.Removed)
	}
	names := sortedKeys(p.tf.State.Outputs)
	if len(names) > 0 {
		out.WriteString("Outputs:\n")
	}
	for _, name := range names {
		o := p.tf.State.Outputs[name]
		if o.Sensitive {
			fmt.Fprintf(&out, "%s = <sensitive>\n", name)
		} else {
			fmt.Fprintf(&out, "%s = %s\n", name, asHCL(o.Value, true))
		}
	}
	out.WriteString(a.Diagnostics.Errors().String())
	return out.String()
}

// asHCL is a value as an output shows it: with functions that give it its type, if typed.
func asHCL(value cty.Value, typed bool) string {
	if isLeaf(value) {
		return text(value)
	}
	var parts []string
	kind := value.Type()
	if kind.IsObjectType() || kind.IsMapType() {
		m := value.AsValueMap()
		for _, key := range sortedKeys(m) {
			parts = append(parts, quoted(key)+" = "+asHCL(m[key], typed))
		}
		return "{\n" + strings.Join(parts, "\n") + "\n}"
	}
	for _, v := range value.AsValueSlice() {
		parts = append(parts, asHCL(v, typed)+",")
	}
	text := "[\n" + strings.Join(parts, "\n") + "\n]"
	switch {
	case typed && kind.IsSetType():
		return "toset(" + text + ")"
	case typed && kind.IsListType() && len(parts) > 0:
		return "tolist(" + text + ")"
	}
	return text
}
