package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const user, system, tick = 11, 12, 10 * time.Millisecond
	if len(fields) <= system {
		return 0
	}
	u, _ := strconv.ParseInt(fields[user], 10, 64)
	k, _ := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+k) * tick
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
