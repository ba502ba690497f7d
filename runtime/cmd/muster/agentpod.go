package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
	"github.com/muster-fleet/terraform-provider-muster/runtime/devcluster"
)

// runAgentInProcess runs the agent of a dev cluster's pod. A pod can't set what
// concerns the whole process, such as the log and the port for health checks, or
// what would write to this machine's files.
func runAgentInProcess(ctx context.Context, pod devcluster.AgentPod) error {
	o, err := podsAgent(pod)
	if err != nil {
		return err
	}
	return agent.Run(ctx, o)
}

// podsAgent returns the options of a pod's agent. All files that they name are
// the pod's.
func podsAgent(pod devcluster.AgentPod) (agent.Options, error) {
	o := agent.Options{}
	f := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	cli.AddAgentFlags(f, &o)
	cli.AddVerbosity(f)
	f.Bool("log-json", false, "")
	if err := f.Parse(cli.JoinVerbosity(pod.Args)); err != nil {
		return o, fmt.Errorf("the arguments of the pod's agent: %w", err)
	}
	o.HealthAddress, o.HubKubeconfigDir = "", ""
	o.ManagedCluster, o.Log, o.Ready = pod.Config, pod.Log, pod.Ready
	files := []*string{&o.BootstrapKubeconfig}
	for i := range o.BootstrapKubeconfigs {
		files = append(files, &o.BootstrapKubeconfigs[i])
	}
	for _, file := range files {
		if *file == "" {
			continue
		}
		var err error
		if *file, err = pod.File(*file); err != nil {
			return o, fmt.Errorf("the arguments of the pod's agent: %w", err)
		}
	}
	return o, nil
}
