package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/kubeconfig"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

func newRejoinCommand() *cobra.Command {
	var at hubFlags
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "rejoin CLUSTER",
		Short: "Let a cluster that has joined before join again",
		Long: `Prints a bootstrap kubeconfig with which one cluster joins again that has joined
before: because the agent's namespace was lost, or the cluster was rebuilt.

A hub approves no second agent for a cluster that has joined, so that a leaked
bootstrap token makes none. The token in this kubeconfig may, once. The agent
that comes with it replaces the one from before, whose requests the hub then
refuses. The cluster has to be accepted.

A cluster that registers by a client ID, and was rebuilt, has another UID, and
the hub takes that one over, once. What to do with the kubeconfig is printed on the
standard error.

With Terraform none of this is needed: muster_klusterlet joins again by itself
when it has to install the agent again.`,
		Example: `  muster rejoin paris --kubeconfig hub.kubeconfig > bootstrap.kubeconfig
  kubectl --context paris -n open-cluster-management-agent create secret generic bootstrap-hub-kubeconfig \
    --from-file=kubeconfig=bootstrap.kubeconfig`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if ttl < time.Minute {
				return fmt.Errorf("--ttl is %s, and has to be 1m at least", ttl)
			}
			c, err := at.client()
			if err != nil {
				return err
			}
			return rejoin(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), c, args[0], time.Now().Add(ttl))
		},
	}
	at.add(cmd)
	cmd.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token may be used")
	return cmd
}

// rejoin makes a token for a cluster that joins again and prints a kubeconfig
// with it, and to help what to do with it.
func rejoin(ctx context.Context, out, help io.Writer, c client.Client, name string, expires time.Time) error {
	mc := &clusterv1.ManagedCluster{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, mc); apierrors.IsNotFound(err) {
		return fmt.Errorf("the hub has no ManagedCluster %q: the clusters that it knows are those of \"muster status\"", name)
	} else if err != nil {
		return fmt.Errorf("read the ManagedCluster %q: %w", name, err)
	}
	if !mc.Spec.AcceptsClient() {
		return fmt.Errorf("the cluster %q is not accepted: accept it first, with clusteradm accept --clusters %s", name, name)
	}
	token, err := bootstraptoken.New(cluster.BoundBootstrapGroup(name), "Made by \"muster rejoin\".", expires)
	if err != nil {
		return err
	}
	secret := token.Object()
	secret.Annotations = map[string]string{
		cluster.RejoinAnnotation: name, cluster.TokenRevocationAnnotation: cluster.RevokeRequests,
	}
	config, err := makeToken(ctx, c, secret)
	if err != nil {
		return err
	}
	if _, err = out.Write(config); err != nil {
		return err
	}
	_, err = io.WriteString(help, howToRejoin(mc, expires))
	return err
}

// howToRejoin says what to do with the kubeconfig, and how the agent has to be
// started.
func howToRejoin(mc *clusterv1.ManagedCluster, expires time.Time) string {
	start := "--cluster-name=" + mc.Name
	switch id := mc.Annotations[muster.ClientIDAnnotation]; id {
	case "":
	case mc.Annotations[muster.ClusterUIDAnnotation]:
		start = "neither --cluster-name nor --client-id"
	default:
		start = "--client-id=" + id
	}
	return fmt.Sprintf(`# The cluster %s may join again until %s, once. Save the above as bootstrap.kubeconfig, and in the cluster:
#   kubectl -n %s create secret generic %s \
#     --from-file=%s=bootstrap.kubeconfig --dry-run=client -o yaml | kubectl apply -f -
# The agent takes it up by itself. Where there is none, install it with %s.
`, mc.Name, expires.UTC().Format(time.RFC3339), cluster.AgentNamespace, cluster.BootstrapSecret, cluster.KubeconfigKey, start)
}

// makeToken makes a bootstrap token on the hub, by its Secret, and returns the kubeconfig
// with which an agent registers.
func makeToken(ctx context.Context, c client.Client, secret *corev1.Secret) ([]byte, error) {
	info := &corev1.ConfigMap{}
	at := client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.ClusterInfo}
	if err := c.Get(ctx, at, info); err != nil {
		return nil, fmt.Errorf("read where agents reach the hub from the ConfigMap %s: %w", at, err)
	}
	server, ca, err := bootstraptoken.Server(info.Data)
	if err != nil {
		return nil, err
	}
	config, err := kubeconfig.Config{
		Cluster: "hub", User: "bootstrap", Server: server, CAData: ca, Token: bootstraptoken.Parse(secret).String(),
	}.YAML()
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := c.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("make a bootstrap token in the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return config, nil
}
