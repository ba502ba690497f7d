package inprocess

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

// toy is a provider with one resource, toy_thing, and one data source of its name. Its
// functions may be replaced to make mistakes.
type toy struct {
	tfprotov6.ProviderServer // for the methods that are not needed

	plan  func(prior, proposed, config map[string]cty.Value) map[string]cty.Value
	apply func(prior, planned map[string]cty.Value) map[string]cty.Value
	read  func(state map[string]cty.Value) map[string]cty.Value
	warn  string
	// did is what was asked for, in its order. What does not depend on each other is asked
	// for at the same time.
	mu  sync.Mutex
	did *[]string
}

func thing() *tfprotov6.Schema {
	return &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{
		Attributes: []*tfprotov6.SchemaAttribute{
			{Name: "name", Type: tftypes.String, Required: true},
			{Name: "size", Type: tftypes.Number, Optional: true, Computed: true},
			{Name: "seen", Type: tftypes.String, Computed: true},
			{Name: "secret", Type: tftypes.String, Optional: true, Sensitive: true},
			{Name: "once", Type: tftypes.String, Optional: true, WriteOnly: true},
			{Name: "tags", Type: tftypes.Map{ElementType: tftypes.String}, Optional: true},
			{Name: "parts", Optional: true, NestedType: &tfprotov6.SchemaObject{
				Nesting: tfprotov6.SchemaObjectNestingModeList,
				Attributes: []*tfprotov6.SchemaAttribute{
					{Name: "key", Type: tftypes.String, Required: true},
					{Name: "id", Type: tftypes.String, Computed: true},
				},
			}},
		},
		BlockTypes: []*tfprotov6.SchemaNestedBlock{{
			TypeName: "timeouts", Nesting: tfprotov6.SchemaNestedBlockNestingModeSingle, Block: &tfprotov6.SchemaBlock{
				Attributes: []*tfprotov6.SchemaAttribute{{Name: "create", Type: tftypes.String, Optional: true}},
			},
		}},
	}}
}

func thingSchema() *schema { return newSchema(thing()) }

func (t *toy) factory() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){"toy": func() (tfprotov6.ProviderServer, error) { return t, nil }}
}

func (*toy) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{
		ResourceSchemas:   map[string]*tfprotov6.Schema{"toy_thing": thing()},
		DataSourceSchemas: map[string]*tfprotov6.Schema{"toy_thing": thing()},
	}, nil
}

func (*toy) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (t *toy) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (*toy) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

func (*toy) UpgradeResourceState(_ context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &tfprotov6.DynamicValue{JSON: req.RawState.JSON}}, nil
}

func (t *toy) ReadResource(_ context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	state := attributesOf(req.CurrentState)
	if t.read != nil {
		state = t.read(state)
	}
	return &tfprotov6.ReadResourceResponse{NewState: dynamicOf(state), Private: req.Private}, nil
}

func (t *toy) ReadDataSource(_ context.Context, req *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	state := attributesOf(req.Config)
	t.note("read " + state["name"].AsString())
	state["seen"], state["size"] = cty.StringVal("read"), cty.NumberIntVal(1)
	return &tfprotov6.ReadDataSourceResponse{State: dynamicOf(state)}, nil
}

func (t *toy) PlanResourceChange(_ context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	prior, proposed := attributesOf(req.PriorState), attributesOf(req.ProposedNewState)
	resp := &tfprotov6.PlanResourceChangeResponse{PlannedState: req.ProposedNewState}
	if t.warn != "" {
		resp.Diagnostics = []*tfprotov6.Diagnostic{{
			Severity: tfprotov6.DiagnosticSeverityWarning, Summary: t.warn, Attribute: tftypes.NewAttributePath().WithAttributeName("name"),
		}}
	}
	if proposed == nil {
		return resp, nil
	}
	if prior == nil {
		for name, kind := range map[string]cty.Type{"seen": cty.String, "size": cty.Number} {
			if proposed[name].IsNull() {
				proposed[name] = cty.UnknownVal(kind)
			}
		}
	} else if !prior["name"].RawEquals(proposed["name"]) {
		resp.RequiresReplace = []*tftypes.AttributePath{tftypes.NewAttributePath().WithAttributeName("name")}
	}
	if t.plan != nil {
		proposed = t.plan(prior, proposed, attributesOf(req.Config))
	}
	resp.PlannedState = dynamicOf(proposed)
	return resp, nil
}

func (t *toy) ApplyResourceChange(_ context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	prior, planned := attributesOf(req.PriorState), attributesOf(req.PlannedState)
	if planned == nil {
		t.note("delete " + prior["name"].AsString())
		return &tfprotov6.ApplyResourceChangeResponse{NewState: req.PlannedState}, nil
	}
	t.note("write " + planned["name"].AsString())
	if !planned["seen"].IsKnown() {
		planned["seen"] = cty.StringVal("made")
	}
	if !planned["size"].IsKnown() {
		planned["size"] = cty.NumberIntVal(3)
	}
	if t.apply != nil {
		planned = t.apply(prior, planned)
	}
	return &tfprotov6.ApplyResourceChangeResponse{NewState: dynamicOf(planned)}, nil
}

func (t *toy) note(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.did != nil {
		*t.did = append(*t.did, what)
	}
}

func attributesOf(in *tfprotov6.DynamicValue) map[string]cty.Value {
	value, err := decode(in, thingSchema().kind)
	if err != nil {
		panic(err)
	}
	if value.IsNull() {
		return nil
	}
	return value.AsValueMap()
}

func dynamicOf(attributes map[string]cty.Value) *tfprotov6.DynamicValue {
	kind := thingSchema().kind
	value := cty.NullVal(kind)
	if attributes != nil {
		value = cty.ObjectVal(attributes)
	}
	out, err := encode(value, kind)
	if err != nil {
		panic(err)
	}
	return out
}
