package inprocess

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// asJSON is a value as encoding/json would decode it. What is not known is left out.
func asJSON(value cty.Value) any {
	value = unmarkTop(value)
	if value == cty.NilVal || value.IsNull() || !value.IsKnown() {
		return nil
	}
	switch kind := value.Type(); {
	case kind == cty.String:
		return value.AsString()
	case kind == cty.Bool:
		return value.True()
	case kind == cty.Number:
		text, err := convert.Convert(value, cty.String)
		if err != nil {
			return nil
		}
		return json.Number(text.AsString())
	case kind.IsObjectType() || kind.IsMapType():
		out := map[string]any{}
		for key, v := range value.AsValueMap() {
			if unmarkTop(v).IsKnown() {
				out[key] = asJSON(v)
			}
		}
		return out
	}
	out := []any{}
	for _, v := range value.AsValueSlice() {
		out = append(out, asJSON(v))
	}
	return out
}

// places are true where a value is as matches says, in the shape of the value.
func places(value cty.Value, matches func(cty.Value) bool) any {
	if matches(value) {
		return true
	}
	inner := unmarkTop(value)
	if isLeaf(inner) {
		return false
	}
	if kind := inner.Type(); kind.IsObjectType() || kind.IsMapType() {
		out := map[string]any{}
		for key, v := range inner.AsValueMap() {
			if found := places(v, matches); found != false {
				out[key] = found
			}
		}
		return out
	}
	out := []any{}
	for _, v := range inner.AsValueSlice() {
		out = append(out, places(v, matches))
	}
	return out
}

func isUnknown(value cty.Value) bool { return !unmarkTop(value).IsKnown() }

func isSensitive(value cty.Value) bool { return value.IsMarked() }

func (w *walk) identityOf(i *Instance) map[string]any {
	if i.Identity == nil || i.Identity.IdentityData == nil {
		return nil
	}
	value, err := decode(i.Identity.IdentityData, w.connections[providerOf(i.Type)].identities[i.Type])
	if err != nil {
		return nil
	}
	identity, _ := asJSON(value).(map[string]any)
	return identity
}

// values are the objects of a state as Terraform exports them.
func (w *walk) exported(instances map[string]*Instance, outputs map[string]OutputValue) *tfjson.StateValues {
	root := &tfjson.StateModule{}
	for _, address := range sortedKeys(instances) {
		i := instances[address]
		s := w.connections[providerOf(i.Type)].resource(i.Type)
		mode := tfjson.ManagedResourceMode
		if i.Data {
			s, mode = w.connections[providerOf(i.Type)].data(i.Type), tfjson.DataResourceMode
		}
		attributes, _ := asJSON(i.Value).(map[string]any)
		hidden, err := json.Marshal(places(s.markSensitive(i.Value), isSensitive))
		if err != nil {
			hidden = []byte("{}")
		}
		root.Resources = append(root.Resources, &tfjson.StateResource{
			Address: address, Mode: mode, Type: i.Type, Name: i.Name, Index: asJSON(i.Key),
			ProviderName: "registry.terraform.io/hashicorp/" + providerOf(i.Type), SchemaVersion: uint64(i.version),
			AttributeValues: attributes, SensitiveValues: hidden, DependsOn: i.After, Tainted: i.Tainted,
			IdentityValues: w.identityOf(i),
		})
	}
	values := &tfjson.StateValues{RootModule: root, Outputs: map[string]*tfjson.StateOutput{}}
	for name, o := range outputs {
		values.Outputs[name] = &tfjson.StateOutput{Value: asJSON(o.Value), Type: o.Value.Type(), Sensitive: o.Sensitive}
	}
	return values
}

// JSON is the state as terraform show -json has it, for state checks.
func (tf *Terraform) JSON(w *walk) *tfjson.State {
	return &tfjson.State{
		FormatVersion: "1.0", TerraformVersion: "1.14.0", Values: w.exported(tf.State.Instances, tf.State.Outputs),
	}
}

// JSON is the plan as terraform show -json has it, for plan checks.
func (p *Plan) JSON(w *walk) *tfjson.Plan {
	out := &tfjson.Plan{
		FormatVersion: "1.2", TerraformVersion: "1.14.0", OutputChanges: map[string]*tfjson.Change{},
		PriorState: &tfjson.State{FormatVersion: "1.0", Values: w.exported(p.prior.Instances, nil)},
	}
	planned := map[string]*Instance{}
	for address, i := range p.prior.Instances {
		if i.Data {
			planned[address] = i
		}
	}
	for _, address := range sortedKeys(p.Changes) {
		c := p.Changes[address]
		if !c.After.IsNull() {
			after := *c.Instance
			after.Value = c.After
			planned[address] = &after
		}
		out.ResourceChanges = append(out.ResourceChanges, c.json(w))
		if c.drifted != cty.NilVal && !c.drifted.IsNull() && !c.drifted.RawEquals(c.Before) {
			drift := *c
			drift.Action, drift.After, drift.Before = Update, c.Before, c.drifted
			out.ResourceDrift = append(out.ResourceDrift, drift.json(w))
		}
	}
	for name, o := range p.Outputs {
		out.OutputChanges[name] = o.json()
	}
	out.PlannedValues = w.exported(planned, nil)
	return out
}

func (c *Change) json(w *walk) *tfjson.ResourceChange {
	change := &tfjson.ResourceChange{
		Address: c.Address, Mode: tfjson.ManagedResourceMode, Type: c.Type, Name: c.Name, Index: asJSON(c.Key),
		ProviderName: "registry.terraform.io/hashicorp/" + providerOf(c.Type),
	}
	if c.Data {
		change.Mode = tfjson.DataResourceMode
	}
	before, after := c.schema.markSensitive(c.Before), c.After
	if !after.IsNull() {
		after = c.schema.markSensitive(after)
	}
	change.Change = changeOf(c.Action, before, after)
	if c.Importing != nil {
		change.Change.Importing = &tfjson.Importing{ID: *c.Importing}
	}
	change.Change.BeforeIdentity = w.identityOf(c.Instance)
	return change
}

func (o OutputChange) json() *tfjson.Change {
	change := changeOf(o.Action, o.Before, o.After)
	if o.Sensitive {
		change.BeforeSensitive, change.AfterSensitive = true, true
	}
	return change
}

func changeOf(action Action, before, after cty.Value) *tfjson.Change {
	if before == cty.NilVal {
		before = cty.NullVal(cty.DynamicPseudoType)
	}
	if after == cty.NilVal {
		after = cty.NullVal(cty.DynamicPseudoType)
	}
	actions := tfjson.Actions{tfjson.Action(action)}
	if action == Replace {
		actions = tfjson.Actions{tfjson.ActionDelete, tfjson.ActionCreate}
	}
	return &tfjson.Change{
		Actions: actions, Before: asJSON(before), After: asJSON(after), AfterUnknown: places(after, isUnknown),
		BeforeSensitive: places(before, isSensitive), AfterSensitive: places(after, isSensitive),
	}
}

// Flat is the state as checks of terraform.State read it, with a text per attribute.
func (s *State) Flat() *terraform.State {
	module := &terraform.ModuleState{
		Path: []string{"root"}, Resources: map[string]*terraform.ResourceState{},
		Outputs: map[string]*terraform.OutputState{},
	}
	for _, i := range s.Instances {
		attributes := map[string]string{}
		for name, v := range i.Value.AsValueMap() {
			flatten(attributes, name, v)
		}
		address := strings.NewReplacer(`["`, ".", `"]`, "", "[", ".", "]", "").Replace(i.Address)
		module.Resources[address] = &terraform.ResourceState{
			Type: i.Type, Provider: providerOf(i.Type), Dependencies: i.After,
			Primary: &terraform.InstanceState{ID: attributes["id"], Attributes: attributes, Tainted: i.Tainted},
		}
	}
	for name, o := range s.Outputs {
		module.Outputs[name] = &terraform.OutputState{Value: asJSON(o.Value), Sensitive: o.Sensitive, Type: "string"}
	}
	return &terraform.State{Version: 3, Modules: []*terraform.ModuleState{module}}
}

func flatten(into map[string]string, name string, value cty.Value) {
	switch v := asJSON(value).(type) {
	case nil:
	case map[string]any:
		if !value.Type().IsObjectType() {
			into[name+".%"] = strconv.Itoa(len(v))
		}
		for key, inner := range value.AsValueMap() {
			flatten(into, name+"."+key, inner)
		}
	case []any:
		into[name+".#"] = strconv.Itoa(len(v))
		for i, inner := range value.AsValueSlice() {
			flatten(into, name+"."+strconv.Itoa(i), inner)
		}
	default:
		into[name] = fmt.Sprint(v)
	}
}
