package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/internal/gctuner"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/cmd/internal/cli"
	"github.com/muster-fleet/terraform-provider-muster/runtime/devcluster"
)

func newDevclusterCommand() *cobra.Command {
	o := devcluster.Options{RunAgent: runAgentInProcess}
	cmd := &cobra.Command{
		Use:   "devcluster",
		Short: "Run a managed cluster without nodes, for laptops and tests",
		Long: `Runs a cluster in the foreground: a Kubernetes API server with the ordinary APIs
and the controllers of deployments, replica sets and jobs. It has no nodes: pods
report that they run, jobs that they are done, and nothing runs in them. A pod
that is to fail says so in the annotation ` + devcluster.FailAnnotation + `.

One kind of pod is real: that of the klusterlet starts an agent, so that the
cluster joins a hub as any other does.

Once it is ready it prints one line, "cluster ready URL kubeconfig PATH". All is
kept in the data directory, so that the cluster can be killed at any moment and
carries on where it was. SIGTERM drains requests and exits with 0.`,
		Example: `  muster devcluster --data-dir ./cluster1
  kubectl --kubeconfig ./cluster1/admin.kubeconfig create deployment web --image nginx`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := cli.SetupLogging(cmd)
			if err != nil {
				return err
			}
			o.Log = log
			go gctuner.Run(cmd.Context(), clock.RealClock{}, nil)
			c, err := devcluster.Start(cmd.Context(), o)
			if cmd.Context().Err() != nil && c == nil {
				return nil // it was stopped before it was ready
			}
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(cmd.OutOrStdout(), "cluster ready %s kubeconfig %s\n", c.URL, c.Kubeconfig)
			<-c.Done()
			if err := c.Stop(); err != nil || cmd.Context().Err() != nil {
				return err
			}
			return errors.New("the cluster stopped by itself: see what it logged before")
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.DataDir, "data-dir", "", "folder that keeps the cluster's state; made when it does not exist (required)")
	f.IPVar(&o.BindAddress, "bind-address", net.IPv4(127, 0, 0, 1), "address to listen on")
	f.IntVar(&o.SecurePort, "secure-port", 0, "port to listen on; 0 takes a free one")
	f.StringVar(&o.Name, "name", "", "what certificates and logs call the cluster (default the data directory's name)")
	_ = cmd.MarkFlagRequired("data-dir")
	return cmd
}

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
