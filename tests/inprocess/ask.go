package inprocess

import (
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/zclconf/go-cty/cty"
)

// question is what a provider is asked about one object.
type question struct {
	address, kind           string
	schema                  *schema
	prior, proposed, config cty.Value
	private                 []byte
	identity                *tfprotov6.ResourceIdentityData
}

// answer is a provider's plan.
type answer struct {
	planned  cty.Value
	replaces []cty.Path
	private  []byte
	identity *tfprotov6.ResourceIdentityData
}

// ask has the provider plan, and checks its answer.
func (w *walk) ask(q *question) (answer, bool) {
	c := w.connections[providerOf(q.kind)]
	req := &tfprotov6.PlanResourceChangeRequest{TypeName: q.kind, PriorPrivate: q.private, PriorIdentity: q.identity}
	var err error
	for value, into := range map[*cty.Value]**tfprotov6.DynamicValue{
		&q.prior: &req.PriorState, &q.proposed: &req.ProposedNewState, &q.config: &req.Config,
	} {
		if *into, err = encode(*value, q.schema.kind); err != nil {
			return answer{}, w.report(failed(q.address, err))
		}
	}
	resp, err := c.server.PlanResourceChange(w.ctx, req)
	if err != nil {
		return answer{}, w.report(failed(q.address, err))
	}
	if !w.report(w.config.ofProvider(q.address, w.blockOf(withoutKey(q.address)), resp.Diagnostics)) {
		return answer{}, false
	}
	a := answer{private: resp.PlannedPrivate, identity: resp.PlannedIdentity}
	if a.planned, err = decode(resp.PlannedState, q.schema.kind); err != nil {
		return answer{}, w.report(failed(q.address, err))
	}
	for _, path := range resp.RequiresReplace {
		a.replaces = append(a.replaces, ctyPath(path))
	}
	config, _ := q.config.UnmarkDeep()
	if config.IsNull() {
		return a, true
	}
	if wrong := q.schema.checkPlanned(q.prior, config, a.planned); len(wrong) > 0 {
		return answer{}, w.report(Diagnostics{{
			Summary: "Provider produced invalid plan", Address: q.address,
			Detail: "The provider planned an invalid value: " + strings.Join(wrong, "; ") + ".",
		}})
	}
	return a, true
}

func withoutKey(address string) string {
	address, _, _ = strings.Cut(address, "[")
	return address
}
