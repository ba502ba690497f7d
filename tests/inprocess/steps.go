package inprocess

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/zclconf/go-cty/cty"
)

// Test is resource.Test of the plugin testing framework without a Terraform. Steps
// that it can't do fail the test.
func Test(t *testing.T, c resource.TestCase) {
	t.Helper()
	tf := &Terraform{Providers: map[string]func() (tfprotov6.ProviderServer, error){}, State: NewState()}
	maps.Copy(tf.Providers, c.ProtoV6ProviderFactories)
	s := &stepper{tf: tf}
	defer s.destroy(t, c)
	for i, step := range c.Steps {
		if step.SkipFunc != nil {
			if skip, err := step.SkipFunc(); err != nil || skip {
				continue
			}
		}
		if step.PreConfig != nil {
			step.PreConfig()
		}
		err := s.do(t.Context(), step)
		switch {
		case step.ExpectError != nil && err == nil:
			t.Fatalf("Step %d/%d: expected an error but got none", i+1, len(c.Steps))
		case step.ExpectError != nil:
			if !step.ExpectError.MatchString(err.Error()) {
				t.Fatalf("Step %d/%d: expected an error with pattern, no match on: %v", i+1, len(c.Steps), err)
			}
		case err != nil:
			t.Fatalf("Step %d/%d error: %v", i+1, len(c.Steps), err)
		}
	}
}

// stepper does the steps of a test case.
type stepper struct {
	tf     *Terraform
	config string // of the last step
}

func (s *stepper) destroy(t *testing.T, c resource.TestCase) {
	t.Helper()
	before := s.tf.State.Flat()
	// The test's own context ends before what is cleaned up.
	ctx := context.WithoutCancel(t.Context())
	if len(s.tf.State.Instances) > 0 {
		plan := s.tf.Plan(ctx, s.config, Options{Destroy: true})
		problems := plan.Diagnostics
		if !problems.HasErrors() {
			problems = plan.Apply(ctx).Diagnostics
		}
		if problems.HasErrors() {
			t.Errorf("Error running post-test destroy, there may be dangling resources: %s", problems.Error())
		}
	}
	if c.CheckDestroy != nil {
		if err := c.CheckDestroy(before); err != nil {
			t.Error(err)
		}
	}
}

// do does one step.
func (s *stepper) do(ctx context.Context, step resource.TestStep) error {
	if err := supported(step); err != nil {
		return err
	}
	for _, address := range step.Taint {
		if known := s.tf.State.Instances[address]; known != nil {
			tainted := *known
			tainted.Tainted = true
			s.tf.State.Instances[address] = &tainted
		}
	}
	switch {
	case step.ImportState:
		return s.importState(ctx, step)
	case step.RefreshState:
		return s.refresh(ctx, step)
	}
	s.config = step.Config
	if !step.PlanOnly {
		if err := s.apply(ctx, step); err != nil {
			return err
		}
	}
	return s.noDifference(ctx, step)
}

// supported fails a step that only Terraform can do.
func supported(step resource.TestStep) error {
	for what, set := range map[string]bool{
		"ConfigDirectory": step.ConfigDirectory != nil, "ConfigFile": step.ConfigFile != nil,
		"ConfigVariables": len(step.ConfigVariables) > 0, "Query": step.Query,
		"GenerateConfig": step.GenerateConfig, "ImportStatePersist": step.ImportStatePersist,
		"ImportStateKind with an identity": step.ImportStateKind == resource.ImportBlockWithResourceIdentity,
	} {
		if set {
			return fmt.Errorf("a step with %s needs a real Terraform: use acctest.RunTerraform", what)
		}
	}
	return nil
}

func (s *stepper) apply(ctx context.Context, step resource.TestStep) error {
	plan := s.tf.Plan(ctx, step.Config, Options{Destroy: step.Destroy})
	if plan.Diagnostics.HasErrors() {
		return fmt.Errorf("error running pre-apply plan: %w", plan.Diagnostics)
	}
	if err := s.checkPlan(ctx, plan, step.ConfigPlanChecks.PreApply); err != nil {
		return fmt.Errorf("pre-apply plan check(s) failed:\n%w", err)
	}
	before := s.tf.State.Flat()
	if problems := plan.Apply(ctx).Diagnostics; problems.HasErrors() {
		return fmt.Errorf("error running apply: %w", problems)
	}
	if step.Check != nil {
		state := s.tf.State.Flat()
		if step.Destroy {
			state = before
		}
		if err := step.Check(state); err != nil {
			return fmt.Errorf("check failed: %w", err)
		}
	}
	return s.checkState(ctx, step.ConfigStateChecks)
}

func (s *stepper) checkPlan(ctx context.Context, plan *Plan, checks []plancheck.PlanCheck) error {
	if len(checks) == 0 {
		return nil
	}
	w, problems := s.tf.newWalk(ctx, plan.config, plan.prior)
	if problems.HasErrors() {
		return problems
	}
	exported := plan.JSON(w)
	var wrong []error
	for _, check := range checks {
		resp := plancheck.CheckPlanResponse{}
		check.CheckPlan(ctx, plancheck.CheckPlanRequest{Plan: exported}, &resp)
		wrong = append(wrong, resp.Error)
	}
	return errors.Join(wrong...)
}

func (s *stepper) checkState(ctx context.Context, checks []statecheck.StateCheck) error {
	if len(checks) == 0 {
		return nil
	}
	config, _ := parse(s.config)
	w, problems := s.tf.newWalk(ctx, config, s.tf.State)
	if problems.HasErrors() {
		return problems
	}
	exported := s.tf.JSON(w)
	var wrong []error
	for _, check := range checks {
		resp := statecheck.CheckStateResponse{}
		check.CheckState(ctx, statecheck.CheckStateRequest{State: exported}, &resp)
		wrong = append(wrong, resp.Error)
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("post-apply refresh state check(s) failed:\n%w", err)
	}
	return nil
}

// noDifference plans again: without reading what there is, and with it.
func (s *stepper) noDifference(ctx context.Context, step resource.TestStep) error {
	empty := true
	for _, round := range []struct {
		what    string
		options Options
		checks  []plancheck.PlanCheck
	}{
		{"non-refresh", Options{Destroy: step.Destroy, NoRefresh: true}, step.ConfigPlanChecks.PostApplyPreRefresh},
		{"refresh", Options{Destroy: step.Destroy}, step.ConfigPlanChecks.PostApplyPostRefresh},
	} {
		plan := s.tf.Plan(ctx, step.Config, round.options)
		if plan.Diagnostics.HasErrors() {
			return fmt.Errorf("error running %s plan: %w", round.what, plan.Diagnostics)
		}
		if err := s.checkPlan(ctx, plan, round.checks); err != nil {
			return fmt.Errorf("post-apply plan check(s) failed:\n%w", err)
		}
		empty = plan.Empty()
		if !empty && !step.ExpectNonEmptyPlan {
			return fmt.Errorf("after applying this test step, the %s plan was not empty.\n%s", round.what, plan)
		}
	}
	if empty && step.ExpectNonEmptyPlan {
		return errors.New("expected a non-empty plan, but got an empty refresh plan")
	}
	return nil
}

// refresh reads what there is into the state, and plans.
func (s *stepper) refresh(ctx context.Context, step resource.TestStep) error {
	plan := s.tf.Plan(ctx, s.config, Options{})
	if plan.Diagnostics.HasErrors() {
		return fmt.Errorf("error running refresh: %w", plan.Diagnostics)
	}
	s.tf.State = plan.prior
	if step.Check != nil {
		if err := step.Check(s.tf.State.Flat()); err != nil {
			return err
		}
	}
	plan = s.tf.Plan(ctx, s.config, Options{})
	if plan.Diagnostics.HasErrors() {
		return plan.Diagnostics
	}
	if err := s.checkPlan(ctx, plan, step.RefreshPlanChecks.PostRefresh); err != nil {
		return err
	}
	if plan.Empty() == step.ExpectNonEmptyPlan {
		return fmt.Errorf("after refreshing state during this test step, a followup plan was %v empty.\n%s",
			plan.Empty(), plan)
	}
	return nil
}

// importState imports an object and compares it with that of the state.
func (s *stepper) importState(ctx context.Context, step resource.TestStep) error {
	id := step.ImportStateId
	var err error
	flat := s.tf.State.Flat()
	switch {
	case step.ImportStateIdFunc != nil:
		id, err = step.ImportStateIdFunc(flat)
	case id == "":
		if known := flat.RootModule().Resources[step.ResourceName]; known != nil {
			id = known.Primary.ID
		}
	}
	if err != nil {
		return err
	}
	id = step.ImportStateIdPrefix + id
	config := step.Config
	if config == "" {
		config = s.config
	}
	block := fmt.Sprintf("\nimport {\n  to = %s\n  id = %q\n}\n", step.ResourceName, id)
	if step.ImportStateKind == resource.ImportBlockWithID {
		return s.importBlock(ctx, step, config+block)
	}
	return s.importCommand(ctx, step, config, id, flat)
}

// importBlock plans with an import block, as if the state did not have the object.
func (s *stepper) importBlock(ctx context.Context, step resource.TestStep, config string) error {
	alone := &Terraform{Providers: s.tf.Providers, Variables: s.tf.Variables, State: s.tf.State.clone()}
	delete(alone.State.Instances, step.ResourceName)
	plan := alone.Plan(ctx, config, Options{})
	if plan.Diagnostics.HasErrors() {
		return fmt.Errorf("generating plan with import config: %w", plan.Diagnostics)
	}
	change := plan.Changes[step.ResourceName]
	switch {
	case change == nil || change.Importing == nil:
		return fmt.Errorf("importing resource %s: expected an import operation, got %s", step.ResourceName, plan)
	case !step.ExpectNonEmptyPlan && change.Action != NoOp:
		return fmt.Errorf("importing resource %s: expected a no-op import operation, got %q action with plan %s",
			step.ResourceName, change.Action, plan)
	}
	return s.checkPlan(ctx, plan, step.ImportPlanChecks.PreApply)
}

// importCommand is terraform import into an empty state.
func (s *stepper) importCommand(
	ctx context.Context, step resource.TestStep, config, id string, before *terraform.State,
) error {
	alone := &Terraform{Providers: s.tf.Providers, Variables: s.tf.Variables, State: NewState()}
	if err := alone.Import(ctx, config, step.ResourceName, id); err != nil {
		return err
	}
	after := alone.State.Flat()
	if step.ImportStateCheck != nil {
		var all []*terraform.InstanceState
		for _, r := range after.RootModule().Resources {
			all = append(all, r.Primary)
		}
		if err := step.ImportStateCheck(all); err != nil {
			return err
		}
	}
	if !step.ImportStateVerify {
		return nil
	}
	return verify(step, before.RootModule().Resources, after.RootModule().Resources)
}

// Import is terraform import: it adds an object to the state.
func (tf *Terraform) Import(ctx context.Context, source, address, id string) error {
	config, problems := parse(source)
	if problems.HasErrors() {
		return problems
	}
	w, problems := tf.newWalk(ctx, config, tf.State)
	if problems.HasErrors() {
		return problems
	}
	r := config.resources[withoutKey(address)]
	if r == nil {
		return fmt.Errorf("resource address %q does not exist in the configuration", address)
	}
	p := &planner{walk: w, plan: &Plan{Changes: map[string]*Change{}, prior: tf.State, config: config, tf: tf}}
	if !w.configure(r.provider()) {
		return w.diagnostics
	}
	s := w.connections[r.provider()].resource(r.kind)
	request := &tfprotov6.ImportResourceStateRequest{TypeName: r.kind, ID: id}
	found, ok := p.importObject(w.connections[r.provider()], request, address, s)
	if !ok {
		return w.diagnostics
	}
	found.Name = r.name
	now, ok := p.refresh(found, s)
	if !ok {
		return w.diagnostics
	}
	if now.Value.IsNull() {
		return Diagnostics{{Summary: "Cannot import non-existent remote object", Address: address, Detail: id}}
	}
	now.Key = cty.NilVal
	tf.State = tf.State.clone()
	tf.State.Instances[address] = now
	return nil
}

// verify compares what was imported with what the state had.
func verify(step resource.TestStep, old, now map[string]*terraform.ResourceState) error {
	name := step.ImportStateVerifyIdentifierAttribute
	if name == "" {
		name = "id"
	}
	for _, r := range now {
		id, ok := r.Primary.Attributes[name]
		if !ok {
			return fmt.Errorf("importStateVerify: the imported resource has no attribute %q", name)
		}
		var before *terraform.ResourceState
		for address, candidate := range old {
			if candidate.Type == r.Type && candidate.Primary.Attributes[name] == id && !strings.HasPrefix(address, "data.") {
				before = candidate
			}
		}
		if before == nil {
			return fmt.Errorf("failed state verification, resource with ID %s not found", id)
		}
		was, is := comparable(step, before), comparable(step, r)
		if !reflect.DeepEqual(was, is) {
			for key, value := range was {
				if is[key] == value {
					delete(was, key)
					delete(is, key)
				}
			}
			return fmt.Errorf("importStateVerify attributes not equivalent.\nbefore %v\nimported %v", was, is)
		}
	}
	return nil
}

// comparable are the attributes that have to be the same.
func comparable(step resource.TestStep, r *terraform.ResourceState) map[string]string {
	attributes := maps.Clone(r.Primary.Attributes)
	maps.DeleteFunc(attributes, func(key, value string) bool {
		empty := value == "0" && (strings.HasSuffix(key, ".#") || strings.HasSuffix(key, ".%"))
		timeouts := key == "timeouts" || strings.HasPrefix(key, "timeouts.")
		return empty || timeouts || slices.ContainsFunc(step.ImportStateVerifyIgnore, func(ignored string) bool {
			return strings.HasPrefix(key, ignored)
		})
	})
	return attributes
}
