package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// joinManifest is what "muster join-manifest" is asked for.
type joinManifest struct {
	cluster, clientID string
	labels            []string
	deleteSecret      bool
	agent             agentOptions
	ttl               time.Duration
}

func newJoinManifestCommand() *cobra.Command {
	var at hubFlags
	var j joinManifest
	cmd := &cobra.Command{
		Use:   "join-manifest",
		Short: "Print a manifest that installs the agent, with a token of its own",
		Long: `Makes a bootstrap token on the hub and prints a manifest that installs the agent
with it: for kubectl, GitOps or an image. It contains the token, so keep it secret.

With --cluster the token is bound to this cluster. With --client-id it is for
clusters with this client ID: the agent takes over the ManagedCluster with the
annotation muster-fleet.io/client-id, or the hub creates one. With neither, the
manifest is for any number of clusters: each registers by the UID of
its namespace kube-system and waits for an administrator.

The agent has the options of muster_klusterlet, under the same names, and they are
checked in the same way, before there is a token.`,
		Example: `  # An agent that registers by a client ID
  muster join-manifest --client-id store-17 --kubeconfig hub.kubeconfig | kubectl --context store-17 apply -f -

  # Behind a proxy, from a registry of one's own
  muster join-manifest --cluster paris --proxy http://proxy.example.com:3128 --no-proxy .internal \
    --image registry.internal/muster:v1 --image-pull-secrets registry > paris.yaml

  # On nodes of its own, with user access
  muster join-manifest --cluster paris --user-access --node-selector pool=system \
    --tolerations dedicated=system:NoSchedule --resources requests.cpu=50m,requests.memory=128Mi > paris.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := j.validate(); err != nil {
				return err
			}
			c, err := at.client()
			if err != nil {
				return err
			}
			return j.write(cmd.Context(), cmd.OutOrStdout(), c, time.Now().Add(j.ttl))
		},
	}
	at.add(cmd)
	f := cmd.Flags()
	f.StringVar(&j.cluster, "cluster", "", "name of the cluster on the hub")
	f.StringVar(&j.clientID, "client-id", "", "client ID of the cluster")
	f.StringSliceVar(&j.labels, "registration-label", nil, "label for the ManagedCluster that the hub creates, as KEY=VALUE; the token allows its key")
	f.BoolVar(&j.deleteSecret, "delete-bootstrap-secret", false, "have the agent delete the token from its cluster once it has registered")
	j.agent.add(f)
	f.DurationVar(&j.ttl, "ttl", time.Hour, "how long the token may be used")
	return cmd
}

func (j *joinManifest) validate() error {
	switch {
	case j.cluster != "" && j.clientID != "":
		return errors.New("--cluster and --client-id exclude each other: the hub finds the cluster's name by its client ID")
	case j.cluster != "" && len(j.labels) > 0:
		return errors.New("--registration-label has no effect with --cluster: set the labels in the ManagedCluster")
	case j.ttl < time.Minute:
		return fmt.Errorf("--ttl is %s, and has to be 1m at least", j.ttl)
	case j.clientID != "":
		if err := cluster.CheckClientID(j.clientID); err != nil {
			return fmt.Errorf("--client-id: %w", err)
		}
	case j.cluster != "":
		if err := cluster.ReservedName(j.cluster); err != nil {
			return fmt.Errorf("--cluster: %w", err)
		}
	}
	if _, err := j.allowed(); err != nil {
		return fmt.Errorf("--registration-label: %w", err)
	}
	_, err := j.agent.options()
	return err
}

// allowed are the keys of the labels.
func (j *joinManifest) allowed() ([]string, error) {
	var keys []string
	for _, label := range j.labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return nil, fmt.Errorf("%q has no value: write KEY=VALUE", label)
		}
		if err := cluster.CheckChosenLabels(map[string]string{key: value}); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, cluster.CheckAllowedLabels(keys)
}

// write makes the token and prints the manifest.
func (j *joinManifest) write(ctx context.Context, out io.Writer, c client.Client, expires time.Time) error {
	agent, err := j.agent.options()
	if err != nil {
		return err
	}
	token, err := j.token(expires)
	if err != nil {
		return err
	}
	bootstrap, err := makeToken(ctx, c, token)
	if err != nil {
		return err
	}
	o := klusterlet.Options{ClusterName: j.cluster, ClientID: j.clientID, BootstrapKubeconfig: bootstrap, AgentOptions: agent}
	for _, label := range j.labels {
		o.Args = append(o.Args, "--registration-label="+label)
	}
	if j.deleteSecret {
		o.Args = append(o.Args, "--delete-bootstrap-secret")
	}
	for _, object := range klusterlet.Render(o) {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("write %s: %w", object.GetName(), err)
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// token is the Secret of the manifest's token.
func (j *joinManifest) token(expires time.Time) (*corev1.Secret, error) {
	keys, err := j.allowed()
	if err != nil {
		return nil, err
	}
	scope := cluster.TokenScope{AllowedLabels: keys}
	group := cluster.BootstrapGroup
	if j.cluster != "" {
		group = cluster.BoundBootstrapGroup(j.cluster)
	}
	if j.clientID != "" {
		scope.ClientIDs = []string{j.clientID}
	}
	token, err := bootstraptoken.New(group, "Made by \"muster join-manifest\".", expires)
	secret := token.Object()
	secret.Annotations = scope.Annotations()
	return secret, err
}
