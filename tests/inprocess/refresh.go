package inprocess

import (
	"fmt"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// refresh reads an object. The value is null when it is gone.
func (p *planner) refresh(i *Instance, s *schema) (*Instance, bool) {
	server := p.connections[providerOf(i.Type)].server
	block := p.blockOf(i.resourceAddress())
	raw, err := ctyjson.Marshal(i.Value, s.kind)
	if err != nil {
		return nil, p.report(failed(i.Address, err))
	}
	upgraded, err := server.UpgradeResourceState(p.ctx, &tfprotov6.UpgradeResourceStateRequest{
		TypeName: i.Type, Version: i.version, RawState: &tfprotov6.RawState{JSON: raw},
	})
	if err != nil {
		return nil, p.report(failed(i.Address, err))
	}
	if !p.report(p.config.ofProvider(i.Address, block, upgraded.Diagnostics)) {
		return nil, false
	}
	now := *i
	state := upgraded.UpgradedState
	if !p.options.NoRefresh {
		read, err := server.ReadResource(p.ctx, &tfprotov6.ReadResourceRequest{
			TypeName: i.Type, CurrentState: state, Private: i.Private, CurrentIdentity: i.Identity,
		})
		if err != nil {
			return nil, p.report(failed(i.Address, err))
		}
		if !p.report(p.config.ofProvider(i.Address, block, read.Diagnostics)) {
			return nil, false
		}
		state, now.Private = read.NewState, read.Private
		if read.NewIdentity != nil {
			now.Identity = read.NewIdentity
		}
	}
	if now.Value, err = decode(state, s.kind); err != nil {
		return nil, p.report(failed(i.Address, err))
	}
	if !now.Value.IsWhollyKnown() {
		return nil, p.report(Diagnostics{{
			Summary: "Provider returned invalid result object after refresh", Address: i.Address,
			Detail: "After reading it, the object has values that are not known.",
		}})
	}
	now.version = s.version
	return &now, true
}

func (w *walk) blockOf(address string) *hclsyntax.Block {
	if r := w.config.resources[address]; r != nil {
		return r.block
	}
	return nil
}

// imported is what an import block for an address finds; nil without one.
func (p *planner) imported(address, kind string, s *schema) (*Instance, bool) {
	for _, block := range p.config.imports {
		if block.to != address {
			continue
		}
		c := p.connections[providerOf(kind)]
		req := &tfprotov6.ImportResourceStateRequest{TypeName: kind}
		expression := block.id
		if expression == nil {
			expression = block.identity
		}
		value, diagnostics := p.evaluate(address, expression, nil)
		if !p.report(diagnostics) {
			return nil, false
		}
		if block.id != nil {
			req.ID = value.AsString()
		} else {
			data, err := encode(value, c.identities[kind])
			if err != nil {
				return nil, p.report(failed(address, err))
			}
			req.Identity = &tfprotov6.ResourceIdentityData{IdentityData: data}
		}
		return p.importObject(c, req, address, s)
	}
	return nil, true
}

// importObject has the provider import one.
func (w *walk) importObject(
	c *connection, req *tfprotov6.ImportResourceStateRequest, address string, s *schema,
) (*Instance, bool) {
	resp, err := c.server.ImportResourceState(w.ctx, req)
	if err != nil {
		return nil, w.report(failed(address, err))
	}
	if !w.report(w.config.ofProvider(address, nil, resp.Diagnostics)) {
		return nil, false
	}
	if len(resp.ImportedResources) != 1 {
		return nil, w.report(failed(address, fmt.Errorf("the import gave %d resources", len(resp.ImportedResources))))
	}
	found := resp.ImportedResources[0]
	value, err := decode(found.State, s.kind)
	if err != nil {
		return nil, w.report(failed(address, err))
	}
	return &Instance{
		Address: address, Type: req.TypeName, Value: value,
		Private: found.Private, Identity: found.Identity, version: s.version,
	}, true
}
