package inprocess

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// Workspace is one user's configuration and state. Tests with several of them show how
// states get on with each other. It has the commands of a Terraform in a folder, and
// says what that would say, in one line.
type Workspace struct {
	T *testing.T

	tf     *Terraform
	config string
}

// NewWorkspace is an empty one.
func NewWorkspace(t *testing.T, providers map[string]func() (tfprotov6.ProviderServer, error)) *Workspace {
	t.Helper()
	return &Workspace{T: t, tf: &Terraform{Providers: maps.Clone(providers), State: NewState()}}
}

// Apply makes the configuration so.
func (w *Workspace) Apply(config string) (said string, ok bool) {
	w.T.Helper()
	w.Init(config)
	return w.apply(Options{})
}

// Plan only says what would be done.
func (w *Workspace) Plan(config string) string {
	w.T.Helper()
	w.Init(config)
	return unwrapped(w.tf.Plan(w.context(), w.config, Options{}).String())
}

// Destroy deletes all that the state has.
func (w *Workspace) Destroy() (said string, ok bool) {
	w.T.Helper()
	return w.apply(Options{Destroy: true})
}

// Init is the configuration from now on.
func (w *Workspace) Init(config string) {
	w.config = config
}

// State is all that a state file would have, for tests that look for secrets in it.
func (w *Workspace) State() string {
	w.T.Helper()
	var out strings.Builder
	for _, address := range sortedKeys(w.tf.State.Instances) {
		i := w.tf.State.Instances[address]
		value, err := json.Marshal(asJSON(i.Value))
		if err != nil {
			w.T.Fatal(err)
		}
		fmt.Fprintf(&out, "%s: %s %s\n", address, value, i.Private)
	}
	for name, o := range w.tf.State.Outputs {
		fmt.Fprintf(&out, "%s: %v\n", name, asJSON(o.Value))
	}
	return out.String()
}

// LoseState forgets all that was made.
func (w *Workspace) LoseState() { w.tf.State = NewState() }

// Setenv sets an environment variable, which the provider in this process reads.
func (w *Workspace) Setenv(name, value string) {
	w.T.Helper()
	w.T.Setenv(name, value)
}

// context outlives that of the test, which ends before what the test cleans up.
func (w *Workspace) context() context.Context { return context.WithoutCancel(w.T.Context()) }

func (w *Workspace) apply(options Options) (said string, ok bool) {
	plan := w.tf.Plan(w.context(), w.config, options)
	if plan.Diagnostics.HasErrors() {
		return unwrapped(plan.String()), false
	}
	applied := plan.Apply(w.context())
	return unwrapped(plan.String() + applied.Said(plan)), !applied.Diagnostics.HasErrors()
}

// Run is a command of Terraform: plan, apply, destroy, import, output, state list or
// show, with the flags that tests use.
func (w *Workspace) Run(args ...string) (said string, ok bool) {
	w.T.Helper()
	var options Options
	var rest []string
	asJSON := false
	for _, arg := range args[1:] {
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "-auto-approve", "-no-color", "-input", "-parallelism":
		case "-destroy":
			options.Destroy = true
		case "-json":
			asJSON = true
		case "-refresh":
			options.NoRefresh = value == "false"
		case "-target":
			options.Targets = append(options.Targets, value)
		default:
			if strings.HasPrefix(arg, "-") {
				w.T.Fatalf("terraform %s needs a real Terraform: use acctest.NewTerraform", strings.Join(args, " "))
			}
			rest = append(rest, arg)
		}
	}
	switch command := strings.Join(slices.Concat(args[:1], rest), " "); {
	case command == "plan":
		plan := w.tf.Plan(w.context(), w.config, options)
		return unwrapped(plan.String()), !plan.Diagnostics.HasErrors()
	case command == "apply":
		return w.apply(options)
	case command == "destroy":
		options.Destroy = true
		return w.apply(options)
	case command == "state list":
		return strings.Join(sortedKeys(w.tf.State.Instances), " "), true
	case strings.HasPrefix(command, "state show ") && len(rest) == 2:
		return w.stateShow(rest[1])
	case args[0] == "import" && len(rest) == 2:
		if err := w.tf.Import(w.context(), w.config, rest[0], rest[1]); err != nil {
			return unwrapped(err.Error()), false
		}
		return "Import successful!", true
	case args[0] == "output" && asJSON:
		return w.output(rest)
	case command == "show" && asJSON:
		return w.show()
	}
	w.T.Fatalf("terraform %s needs a real Terraform: use acctest.NewTerraform", strings.Join(args, " "))
	return "", false
}

// MustRun is Run, which has to succeed.
func (w *Workspace) MustRun(args ...string) (said string) {
	w.T.Helper()
	said, ok := w.Run(args...)
	if !ok {
		w.T.Fatalf("terraform %s: %s", strings.Join(args, " "), said)
	}
	return said
}

// stateShow is one object with its attributes.
func (w *Workspace) stateShow(address string) (said string, ok bool) {
	i := w.tf.State.Instances[address]
	if i == nil {
		return "No instance found for the given address!", false
	}
	var out strings.Builder
	for _, name := range sortedKeys(i.Value.Type().AttributeTypes()) {
		if v := i.Value.GetAttr(name); !v.IsNull() {
			fmt.Fprintf(&out, "%s = %s\n", name, asHCL(v, false))
		}
	}
	return unwrapped(out.String()), true
}

func (w *Workspace) output(names []string) (said string, ok bool) {
	outputs := map[string]any{}
	for name, o := range w.tf.State.Outputs {
		outputs[name] = map[string]any{"sensitive": o.Sensitive, "type": o.Value.Type(), "value": asJSON(o.Value)}
	}
	if len(names) == 1 {
		one, found := w.tf.State.Outputs[names[0]]
		if !found {
			return "Error: Output " + names[0] + " not found", false
		}
		raw, err := json.Marshal(asJSON(one.Value))
		if err != nil {
			return err.Error(), false
		}
		return string(raw), true
	}
	return w.json(outputs)
}

func (w *Workspace) show() (said string, ok bool) {
	config, problems := parse(w.config)
	if problems.HasErrors() {
		return problems.Error(), false
	}
	walk, problems := w.tf.newWalk(w.context(), config, w.tf.State)
	if problems.HasErrors() {
		return problems.Error(), false
	}
	return w.json(w.tf.JSON(walk))
}

func (w *Workspace) json(value any) (said string, ok bool) {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err.Error(), false
	}
	return unwrapped(string(raw)), true
}

// unwrapped is a text in one line.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }
