package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/procfs"
)

// phase is a step in the life of the objects.
type phase struct {
	name string
	// text is the value of the configuration's variable.
	text string
	args []string
}

func phases() []phase {
	return []phase{
		{name: "create", text: "one", args: []string{"apply", "-auto-approve"}},
		{name: "plan, no change", text: "one", args: []string{"plan", "-detailed-exitcode"}}, // a change is exit code 2
		{name: "update of all", text: "two", args: []string{"apply", "-auto-approve"}},
		{name: "destroy", text: "two", args: []string{"destroy", "-auto-approve"}},
	}
}

// result is what was measured of a workload, by phase.
type result struct {
	workload
	muster, noop [][]spent // phases, rounds
	requests     []requests
	// state is the size of the states in bytes.
	state, noopState int64
}

// measure has both providers go through the phases, in turns and with another one
// first in each round. Requests are counted in a round of their own: the proxy
// costs time.
func (w workload) measure(ctx context.Context, tf *terraform, p *proxy, rounds int) (result, error) {
	r := result{workload: w, muster: make([][]spent, len(phases())), noop: make([][]spent, len(phases()))}
	if err := r.count(ctx, tf, p); err != nil {
		return r, err
	}
	for round := range rounds {
		if err := r.time(ctx, tf, round%2 == 0); err != nil {
			return r, err
		}
	}
	return r, nil
}

// count runs the phases through the proxy.
func (r *result) count(ctx context.Context, tf *terraform, p *proxy) error {
	ws, err := tf.workspace(r.config("muster"), p.env()...)
	if err != nil {
		return err
	}
	for _, phase := range phases() {
		p.reset()
		if _, err := ws.run(ctx, phase.text, phase.args...); err != nil {
			return fmt.Errorf("%s of %s: %w", phase.name, r.what, err)
		}
		r.requests = append(r.requests, p.counted())
	}
	return nil
}

// time runs the phases with both providers.
func (r *result) time(ctx context.Context, tf *terraform, musterFirst bool) error {
	type runner struct {
		ws    *workspace
		times [][]spent
		state *int64
	}
	var runners []runner
	for _, provider := range []struct {
		name  string
		times [][]spent
		state *int64
	}{{"muster", r.muster, &r.state}, {"noop", r.noop, &r.noopState}} {
		ws, err := tf.workspace(r.config(provider.name))
		if err != nil {
			return err
		}
		runners = append(runners, runner{ws, provider.times, provider.state})
	}
	if !musterFirst {
		slices.Reverse(runners)
	}
	for i, phase := range phases() {
		for _, runner := range runners {
			took, err := runner.ws.run(ctx, phase.text, phase.args...)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", phase.name, r.what, err)
			}
			runner.times[i] = append(runner.times[i], took)
			if phase.name == "create" {
				if *runner.state, err = runner.ws.stateSize(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// median is the middle of what f says of the values.
func median[T any](values []T, f func(T) time.Duration) float64 {
	var sorted []time.Duration
	for _, value := range values {
		sorted = append(sorted, f(value))
	}
	slices.Sort(sorted)
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle].Seconds()
	}
	return (sorted[middle-1] + sorted[middle]).Seconds() / 2
}

func wall(s spent) time.Duration { return s.wall }
func cpu(s spent) time.Duration  { return s.cpu }
func hub(s spent) time.Duration  { return s.hub }

// print writes the tables of a workload.
func (r result) print(out io.Writer) {
	say(out, "\n%d %s: seconds, CPU seconds of Terraform and the provider together, and of the hub meanwhile, which shares the machine\n", r.objects, r.what)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	say(t, "phase\tmuster\tno-op\tratio\tCPU muster\tCPU no-op\tratio\tCPU hub\t\n")
	for i, phase := range phases() {
		m, n := median(r.muster[i], wall), median(r.noop[i], wall)
		mc, nc := median(r.muster[i], cpu), median(r.noop[i], cpu)
		say(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", phase.name, m, n, m/n, mc, nc, mc/nc, median(r.muster[i], hub))
	}
	_ = t.Flush()
	say(out, "requests for each object\n")
	t = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	say(t, "phase\tget\tlist\twatch\tdry run\twrite\tKB answered\tconnections in all\t\n")
	for i, phase := range phases() {
		q := r.requests[i]
		each := func(count int) float64 { return float64(count) / float64(r.objects) }
		say(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t\n", phase.name,
			each(q.gets), each(q.lists), each(q.watches), each(q.dryRuns), each(q.writes), float64(q.answered)/1024/float64(r.objects), q.connections)
	}
	_ = t.Flush()
	say(out, "state: %d bytes for each object, %d with the no-op provider\n", r.state/int64(r.objects), r.noopState/int64(r.objects))
}

// say prints to the standard output; nobody reads it if that fails.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// terraform runs Terraform with the two providers.
type terraform struct {
	program, version, dir string
	env                   []string
	hub                   int // the process
}

// newTerraform has Terraform take the providers from where they were built. Links
// give them the names that it expects.
func newTerraform(ctx context.Context, o options, dir, kubeconfig string) (*terraform, error) {
	program, err := exec.LookPath(o.terraform)
	if err != nil {
		return nil, fmt.Errorf("find Terraform: %w: name it with TF=…", err)
	}
	overrides := "provider_installation {\n  dev_overrides {\n"
	for name, provider := range map[string]string{"muster": o.provider, "noop": o.noop} {
		at := filepath.Join(dir, "provider-"+name)
		if err := os.Mkdir(at, 0o700); err != nil {
			return nil, err
		}
		if err := os.Symlink(provider, filepath.Join(at, "terraform-provider-"+name)); err != nil {
			return nil, err
		}
		overrides += fmt.Sprintf("    \"muster-fleet/%s\" = %q\n", name, at)
	}
	config := filepath.Join(dir, "terraform.rc")
	if err := os.WriteFile(config, []byte(overrides+"  }\n}\n"), 0o600); err != nil {
		return nil, err
	}
	t := &terraform{program: program, dir: dir}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") && !strings.HasPrefix(variable, "MUSTER_") && !strings.HasPrefix(variable, "KUBECONFIG=") {
			t.env = append(t.env, variable)
		}
	}
	t.env = append(t.env, "TF_CLI_CONFIG_FILE="+config, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1", "MUSTER_KUBECONFIG="+kubeconfig)
	version, err := exec.CommandContext(ctx, program, "version").Output() //nolint:gosec // the user's own Terraform
	if err != nil {
		return nil, fmt.Errorf("ask Terraform for its version: %w", err)
	}
	t.version, _, _ = strings.Cut(string(version), "\n")
	return t, nil
}

// workspace is a folder with a configuration and its state.
type workspace struct {
	*terraform
	dir string
	env []string
}

// workspace makes a folder for a configuration. env is added to the environment.
func (t *terraform) workspace(config string, env ...string) (*workspace, error) {
	dir, err := os.MkdirTemp(t.dir, "workspace-")
	if err != nil {
		return nil, err
	}
	return &workspace{terraform: t, dir: dir, env: env}, os.WriteFile(filepath.Join(dir, "main.tf"), []byte(config), 0o600)
}

// spent is what a command took.
type spent struct {
	// wall is the time until it ended; cpu is what it and its providers worked, and
	// hub what the hub worked meanwhile, on the same machine.
	wall, cpu, hub time.Duration
}

// worked is what a process has worked so far; 0 where the system does not report it.
func worked(pid int) time.Duration {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := p.Stat()
	if err != nil {
		return 0
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// run runs a command of Terraform and measures it.
func (w *workspace) run(ctx context.Context, text string, args ...string) (spent, error) {
	command := exec.CommandContext(ctx, w.program, append(args, "-no-color", "-input=false", "-var=text="+text)...) //nolint:gosec // the user's own Terraform
	command.Dir = w.dir
	command.Env = append(append([]string{}, w.terraform.env...), w.env...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	began, hub := time.Now(), worked(w.hub)
	out, err := command.CombinedOutput()
	wall := time.Since(began)
	if err != nil {
		return spent{}, fmt.Errorf("terraform %s: %w\n%s", strings.Join(args, " "), err, last(out))
	}
	return spent{wall: wall, hub: worked(w.hub) - hub, cpu: command.ProcessState.UserTime() + command.ProcessState.SystemTime()}, nil
}

// last is the end of a long output.
func last(out []byte) []byte {
	const most = 2000
	return out[max(0, len(out)-most):]
}

// stateSize is the size of the state in bytes.
func (w *workspace) stateSize() (int64, error) {
	info, err := os.Stat(filepath.Join(w.dir, "terraform.tfstate"))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
