package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// joinClusters lets real agents join, one after the other, and prints what each
// costs the hub: from its first request until it is available and untainted.
// They all report on one dev cluster, in namespaces of their own.
func joinClusters(ctx context.Context, program, dir string, config *rest.Config, c client.WithWatch, managed *process, n int) error {
	before, err := requests(ctx, config)
	if err != nil {
		return err
	}
	var took time.Duration
	for i := range n {
		agent, err := joinCluster(ctx, program, dir, config, managed.kubeconfig, c, fmt.Sprintf("joined-%d", i))
		if err != nil {
			return err
		}
		agent.kill()
		took += agent.ready
	}
	after, err := requests(ctx, config)
	if err != nil {
		return err
	}
	// The cluster and its token are the user's writes.
	writes, reads := after.writes-before.writes-2*float64(n), after.reads-before.reads-1
	fmt.Printf("%-48s %8.2f writes, %.2f reads, %.2f conflicts\n", "requests per joined cluster, agent's included", writes/float64(n), reads/float64(n), (after.conflicts-before.conflicts)/float64(n))
	fmt.Printf("%-48s %8.2f s\n", "from the agent's start to available", took.Seconds()/float64(n))
	return nil
}

// joinCluster starts an agent and returns it when its cluster is available.
func joinCluster(ctx context.Context, program, dir string, config *rest.Config, managed string, c client.WithWatch, name string, flags ...string) (*process, error) {
	id := fmt.Sprintf("%06d", time.Now().UnixNano()%1_000_000)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "auth-extra-groups": cluster.BoundBootstrapGroup(name),
		},
	}
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}
	for _, o := range []client.Object{secret, mc} {
		if err := c.Create(ctx, o); err != nil {
			return nil, err
		}
	}
	content, err := kubeconfig.Config{Cluster: "hub", User: "bootstrap", Server: config.Host, CAData: config.CAData, Token: id + ".0123456789abcdef"}.YAML()
	if err != nil {
		return nil, err
	}
	bootstrap := filepath.Join(dir, name+".kubeconfig")
	if err := os.WriteFile(bootstrap, content, 0o600); err != nil {
		return nil, err
	}
	events, err := c.Watch(ctx, &clusterv1.ManagedClusterList{}, client.MatchingFields{"metadata.name": name})
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	agent := &process{cmd: exec.Command(program, "agent", "--cluster-name", name, "--bootstrap-kubeconfig", bootstrap, "--kubeconfig", managed, "--namespace", name)}
	agent.cmd.Args = append(agent.cmd.Args, flags...)
	begin := time.Now()
	if err := agent.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the agent: %w", err)
	}
	for {
		select {
		case e := <-events.ResultChan():
			mc, ok := e.Object.(*clusterv1.ManagedCluster)
			if ok && meta.IsStatusConditionTrue(mc.Status.Conditions, cluster.ConditionAvailable) && len(mc.Spec.Taints) == 0 {
				agent.ready = time.Since(begin)
				return agent, nil
			}
		case <-time.After(time.Minute):
			agent.kill()
			return nil, fmt.Errorf("the cluster %s has not become available within a minute", name)
		}
	}
}
