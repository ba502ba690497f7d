package embedded

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// InvokeAction runs an action with the attributes of its `config` block, and
// returns when it has ended. progress, which may be nil, is told how it goes on.
func (p *Provider) InvokeAction(
	ctx context.Context, action string, config map[string]any, progress func(message string),
) error {
	schema, ok := p.schemas.ActionSchemas[action]
	if !ok {
		return unknown("action", action, p.schemas.ActionSchemas)
	}
	values, err := dynamic(schema.Schema.ValueType(), config)
	if err != nil {
		return fmt.Errorf("invoke %s: %w", action, err)
	}
	valid, err := p.server.ValidateActionConfig(ctx,
		&tfprotov6.ValidateActionConfigRequest{ActionType: action, Config: values})
	if err != nil {
		return fmt.Errorf("validate the configuration of %s: %w", action, err)
	}
	if err := p.report(valid.Diagnostics); err != nil {
		return err
	}
	planned, err := p.server.PlanAction(ctx, &tfprotov6.PlanActionRequest{ActionType: action, Config: values})
	if err != nil {
		return fmt.Errorf("plan %s: %w", action, err)
	}
	if err := p.report(planned.Diagnostics); err != nil {
		return err
	}
	stream, err := p.server.InvokeAction(ctx, &tfprotov6.InvokeActionRequest{ActionType: action, Config: values})
	if err != nil {
		return fmt.Errorf("invoke %s: %w", action, err)
	}
	var ended error
	for event := range stream.Events {
		switch event := event.Type.(type) {
		case tfprotov6.ProgressInvokeActionEventType:
			if progress != nil {
				progress(event.Message)
			}
		case tfprotov6.CompletedInvokeActionEventType:
			ended = p.report(event.Diagnostics)
		}
	}
	return ended
}
