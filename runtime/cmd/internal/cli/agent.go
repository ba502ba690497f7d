package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	addonregistration "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// NewAgentCommand returns the command agent, which runs the agent of one managed
// cluster in this process.
func NewAgentCommand() *cobra.Command {
	o := agent.Options{}
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Join a cluster to a hub and carry out its works",
		Long: `Runs the agent of one managed cluster in the foreground. It makes itself known to
the hub with the bootstrap kubeconfig, asks for a certificate, and once the hub
accepts the cluster it gives signs of life, reports the cluster's state, and
applies the ManifestWorks that the hub has for it.

In a pod it reaches its cluster by the pod's service account; elsewhere by
--kubeconfig. Its identity is kept in the Secret hub-kubeconfig-secret of the
managed cluster, so that it can be killed at any moment and carries on.`,
		Example: `  # As a process, with the kubeconfigs of both sides
  muster agent --cluster-name paris --bootstrap-kubeconfig bootstrap.kubeconfig --kubeconfig paris.kubeconfig

  # Without a name, which the hub finds or makes
  muster agent --client-id store-17 --registration-label site=17 --bootstrap-kubeconfig bootstrap.kubeconfig --kubeconfig store.kubeconfig

  # With a second hub to go to when the first one is gone
  muster agent --cluster-name paris --bootstrap-kubeconfigs hub1.kubeconfig,hub2.kubeconfig --feature-gates MultipleHubs=true --kubeconfig paris.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := SetupLogging(cmd)
			if err != nil {
				return err
			}
			config, err := managedClusterConfig(kubeconfig)
			if err != nil {
				return err
			}
			o.ManagedCluster, o.Log = config, log
			return agent.Run(cmd.Context(), o)
		},
	}
	AddAgentFlags(cmd.Flags(), &o)
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the managed cluster (default the service account of the pod)")
	return cmd
}

// AddAgentFlags adds the flags that an agent takes wherever it runs. Parsing them
// sets o.
func AddAgentFlags(f *pflag.FlagSet, o *agent.Options) {
	addRegistrationFlags(f, o)
	addReportFlags(f, o)
	f.DurationVar(&o.EvictionGracePeriod, "appliedmanifestwork-eviction-grace-period", work.DefaultEvictionGracePeriod,
		"how long the objects of a work stay that the hub no longer has; 100 years or more keeps them for good")
	f.IntVar(&o.MaxJSONRawLength, "max-json-raw-length", work.DefaultMaxJSONRawLength,
		"longest JSON, in bytes, that the feedback of works holds, with --feature-gates RawFeedbackJsonString=true")
	f.StringVar(&o.AddOnKubeClientRegistrationAuth, "addon-kubeclient-registration-auth", addonregistration.DriverCSR,
		"how the agents of add-ons get credentials for the hub: csr, by client certificates, or token, by tokens of service accounts on the hub")
	f.Int64Var(&o.AddOnTokenExpirationSeconds, "addon-token-expiration-seconds", addonregistration.DefaultTokenExpiration,
		"lifetime to ask for these tokens, in seconds, 600 or more; a muster hub gives a day at most")
	gates := features.NewAgent()
	o.Features = gates
	features.AddFlag(f, gates)
	f.BoolVar(&o.UserAccess, "user-access", false,
		"let users of the hub into the cluster, as far as the ConfigMap "+muster.PolicyConfigMap+" allows; the agent needs a ClusterRole for it")
	f.BoolVar(&o.Tunnels, "tunnels", false,
		"with --user-access: take users who have access to the cluster's API server through the hub, "+
			"for clusters that they can't reach otherwise (muster access proxy)")
	f.StringVar(&o.HealthAddress, "health-address", "",
		"address that serves /livez, /readyz, /healthz and /metrics, such as :8000; empty serves nothing")
}

// addRegistrationFlags adds the flags about the hub and the agent's identity there.
func addRegistrationFlags(f *pflag.FlagSet, o *agent.Options) {
	f.StringVar(&o.ClusterName, "cluster-name", "",
		"name of the cluster on the hub (default the one that it is registered under, or that the hub finds by the client ID; "+
			"at a hub that knows no client IDs, a random UUID)")
	f.StringVar(&o.ClientID, "client-id", "", "what a cluster without a name registers by: "+
		"the hub finds its ManagedCluster by it, or creates one (default the UID of the namespace kube-system)")
	f.StringToStringVar(&o.RegistrationLabels, "registration-label", nil, "label for the ManagedCluster that the hub creates for the client ID, "+
		"as KEY=VALUE, as far as the bootstrap token allows it; may be repeated")
	f.BoolVar(&o.DeleteBootstrapSecret, "delete-bootstrap-secret", false,
		"delete the Secret "+cluster.BootstrapSecret+" once the cluster has registered; without another one it can't register again")
	f.StringVar(&o.AgentID, "agent-id", "", "name of the agent within the cluster (default the one of its certificate, or a random one)")
	f.StringVar(&o.Namespace, "namespace", cluster.AgentNamespace, "namespace of the managed cluster that holds the agent's secrets")
	f.StringVar(&o.BootstrapKubeconfig, "bootstrap-kubeconfig", "",
		"kubeconfig to introduce the cluster to the hub with (default the Secret "+cluster.BootstrapSecret+")")
	f.StringSliceVar(&o.BootstrapKubeconfigs, "bootstrap-kubeconfigs", nil,
		"kubeconfigs of two or more hubs to choose from, in the order of preference, "+
			"in place of --bootstrap-kubeconfig; needs --feature-gates MultipleHubs=true")
	f.Int32Var(&o.HubConnectionTimeoutSeconds, "hub-connection-timeout-seconds", int32(registration.DefaultHubTimeout/time.Second),
		"how long the present one of several hubs may be out of reach before the agent moves on")
	f.StringVar(&o.HubKubeconfigDir, "hub-kubeconfig-dir", "",
		"folder that gets the agent's kubeconfig, certificate and key for the hub as files, for other programs")
	f.Int32Var(&o.ClientCertExpirationSeconds, "client-cert-expiration-seconds", 0,
		"lifetime to ask for the agent's certificate, 3600 or more; 0 leaves it to the hub")
}

// addReportFlags adds the flags about what the agent reports of its cluster.
func addReportFlags(f *pflag.FlagSet, o *agent.Options) {
	f.DurationVar(&o.ClusterHealthCheckPeriod, "cluster-healthcheck-period", status.DefaultHealthPeriod,
		"how often to ask the managed cluster's API server how it is")
	f.StringSliceVar(&o.ReservedClusterClaimSuffixes, "reserved-cluster-claim-suffixes", nil,
		"suffixes of claim names that do not count among the custom ones")
	f.IntVar(&o.MaxCustomClusterClaims, "max-custom-cluster-claims", status.DefaultMaxCustomClaims, "how many custom claims to report")
	f.StringSliceVar(&o.ExternalServerURLs, "spoke-external-server-urls", nil, "https URLs at which others reach the managed cluster")
	f.StringToStringVar(&o.ClusterAnnotations, "cluster-annotations", nil,
		"annotations for the ManagedCluster, with keys that begin with "+cluster.AgentAnnotationPrefix)
}

func managedClusterConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("this is not a pod, so --kubeconfig has to name the kubeconfig of the managed cluster")
		}
		return config, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the managed cluster's kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}
