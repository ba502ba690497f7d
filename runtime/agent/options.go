package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	addonregistration "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
)

// userAgent is what the agent calls itself in requests.
const userAgent = "muster-agent"

// Options say which cluster an agent is for and how it is to register it.
type Options struct {
	// ClusterName is the cluster's name on the hub (--cluster-name): a DNS label
	// of at most 63 characters. By default it keeps the one of its stored
	// identity, or registers by its client ID; at a hub that knows none it takes a
	// random UUID.
	ClusterName string
	// ClientID is what a cluster without a name registers by (--client-id), so that
	// the hub finds the ManagedCluster with this client ID or creates one; the UID
	// of the cluster's namespace kube-system by default.
	ClientID string
	// RegistrationLabels are labels that the ManagedCluster gets which the hub
	// creates for the client ID (--registration-label), as far as the bootstrap
	// token lets agents choose them.
	RegistrationLabels map[string]string
	// DeleteBootstrapSecret deletes the Secret cluster.BootstrapSecret once the
	// cluster has registered (--delete-bootstrap-secret), so that nobody in the
	// cluster can register by it again.
	DeleteBootstrapSecret bool
	// AgentID distinguishes the agent from others of the cluster (--agent-id). By
	// default it keeps the one of its stored identity, or takes a random one.
	AgentID string
	// Namespace of the managed cluster that holds the agent's Secrets
	// (--namespace); cluster.AgentNamespace by default.
	Namespace string
	// BootstrapKubeconfig is the file with the access to the hub by which the
	// agent asks to be registered (--bootstrap-kubeconfig). It is read again for
	// each attempt. Without it the Secret cluster.BootstrapSecret is used.
	BootstrapKubeconfig string
	// BootstrapKubeconfigs are two or more such files, each for a hub that the
	// cluster may belong to (--bootstrap-kubeconfigs). The agent registers with
	// the first that can be used, and stays until that hub denies the cluster or
	// is out of reach for HubConnectionTimeoutSeconds. It needs the gate
	// features.MultipleHubs.
	BootstrapKubeconfigs []string
	// HubConnectionTimeoutSeconds is how long the present one of several hubs may
	// be out of reach (--hub-connection-timeout-seconds); 600 by default.
	HubConnectionTimeoutSeconds int32
	// HubKubeconfigDir is a folder that gets the agent's identity on the hub as
	// files, for other programs (--hub-kubeconfig-dir). The agent itself keeps it
	// in the Secret cluster.HubKubeconfigSecret.
	HubKubeconfigDir string
	// ManagedCluster is the access to the cluster (--kubeconfig). Required.
	ManagedCluster *rest.Config

	// ClientCertExpirationSeconds is the lifetime to ask for the agent's
	// certificate (--client-cert-expiration-seconds): 3600 or more, or 0 to leave
	// it to the hub.
	ClientCertExpirationSeconds int32
	// ReservedClusterClaimSuffixes of claim names make them reserved, so that
	// they don't count among the custom ones (--reserved-cluster-claim-suffixes).
	ReservedClusterClaimSuffixes []string
	// MaxCustomClusterClaims is how many claims without a reserved name are
	// reported to the hub (--max-custom-cluster-claims); 20 by default.
	MaxCustomClusterClaims int
	// ExternalServerURLs are addresses at which the cluster's API server can be
	// reached from outside, for its ManagedCluster (--spoke-external-server-urls).
	// Only https is allowed.
	ExternalServerURLs []string
	// ClusterAnnotations are put on the ManagedCluster when the agent creates it
	// (--cluster-annotations). Their keys begin with
	// cluster.AgentAnnotationPrefix; others are left out.
	ClusterAnnotations map[string]string

	// ClusterHealthCheckPeriod is how often the managed cluster's API server is
	// asked how it is (--cluster-healthcheck-period); a minute by default.
	ClusterHealthCheckPeriod time.Duration

	// EvictionGracePeriod is how long the objects of a work stay that the hub no
	// longer has (--appliedmanifestwork-eviction-grace-period); an hour by default,
	// and forever from 100 years on.
	EvictionGracePeriod time.Duration
	// MaxJSONRawLength is the longest JSON, in bytes, that the feedback of works
	// holds with the gate features.RawFeedbackJSONString (--max-json-raw-length);
	// 1024 by default.
	MaxJSONRawLength int

	// UserAccess lets users of the hub into the cluster, as far as the policy of
	// its owner allows (--user-access). The agent needs rights for it that are worth
	// those of an administrator.
	UserAccess bool

	// AddOnKubeClientRegistrationAuth is how the agents of add-ons get credentials for
	// the hub (--addon-kubeclient-registration-auth): csr, by client certificates, the
	// default; or token, by tokens of service accounts.
	AddOnKubeClientRegistrationAuth string
	// AddOnTokenExpirationSeconds is the lifetime to ask for with the latter
	// (--addon-token-expiration-seconds); 31536000, a year, by default. The hub may give
	// less, and a muster hub gives a day at most: what it answers counts.
	AddOnTokenExpirationSeconds int64

	// HealthAddress, such as ":8000", serves /livez, /readyz, /healthz and
	// /metrics (--health-address). Empty means that nothing is served.
	HealthAddress string
	// Ready, if set, is called once, when the hub has answered for the first time:
	// when /readyz begins to succeed.
	Ready func()

	// Features are the agent's feature gates (--feature-gates);
	// features.NewAgent by default.
	Features featuregate.FeatureGate

	// Log is the program's logger, to which the agent adds the cluster's name;
	// nothing is logged by default.
	Log *slog.Logger
	// Clock is the real one by default.
	Clock clock.WithTicker
	// Work carries out the hub's works; that of runtime/agent/work by default.
	Work Work
}

// Work carries out the works that a hub has for a cluster, until ctx ends.
type Work func(ctx context.Context, o work.Options) error

// Complete sets defaults.
func (o *Options) Complete() {
	if o.Namespace == "" {
		o.Namespace = cluster.AgentNamespace
	}
	if o.MaxCustomClusterClaims == 0 {
		o.MaxCustomClusterClaims = status.DefaultMaxCustomClaims
	}
	if o.HubConnectionTimeoutSeconds == 0 {
		o.HubConnectionTimeoutSeconds = int32(registration.DefaultHubTimeout / time.Second)
	}
	if o.ClusterHealthCheckPeriod == 0 {
		o.ClusterHealthCheckPeriod = status.DefaultHealthPeriod
	}
	if o.EvictionGracePeriod == 0 {
		o.EvictionGracePeriod = work.DefaultEvictionGracePeriod
	}
	if o.MaxJSONRawLength == 0 {
		o.MaxJSONRawLength = work.DefaultMaxJSONRawLength
	}
	if o.AddOnKubeClientRegistrationAuth == "" {
		o.AddOnKubeClientRegistrationAuth = addonregistration.DriverCSR
	}
	if o.AddOnTokenExpirationSeconds == 0 {
		o.AddOnTokenExpirationSeconds = addonregistration.DefaultTokenExpiration
	}
	if o.Features == nil {
		o.Features = features.NewAgent()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Work == nil {
		o.Work = work.Run
	}
}

// clientConfigs are the external addresses with the authority that vouches for
// them.
func (o *Options) clientConfigs() ([]clusterv1.ClientConfig, error) {
	if len(o.ExternalServerURLs) == 0 {
		return nil, nil
	}
	ca := o.ManagedCluster.CAData
	if len(ca) == 0 && o.ManagedCluster.CAFile != "" {
		data, err := os.ReadFile(o.ManagedCluster.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read the managed cluster's certificate authority: %w", err)
		}
		ca = data
	}
	var configs []clusterv1.ClientConfig
	for _, u := range o.ExternalServerURLs {
		configs = append(configs, clusterv1.ClientConfig{URL: u, CABundle: ca})
	}
	return configs, nil
}

func (o *Options) registration(local locals, log *slog.Logger) (registration.Options, error) {
	configs, err := o.clientConfigs()
	if err != nil {
		return registration.Options{}, err
	}
	return registration.Options{
		ClusterName:           o.ClusterName,
		ClientID:              o.ClientID,
		ClusterLabels:         maps.Clone(o.RegistrationLabels),
		DeleteBootstrapSecret: o.DeleteBootstrapSecret,
		AgentName:             o.AgentID,
		Namespace:             o.Namespace,
		BootstrapKubeconfig:   o.BootstrapKubeconfig,
		BootstrapKubeconfigs:  slices.Clone(o.BootstrapKubeconfigs),
		HubTimeout:            time.Duration(o.HubConnectionTimeoutSeconds) * time.Second,
		Dir:                   o.HubKubeconfigDir,
		UserAgent:             userAgent,
		CertificateExpiration: o.ClientCertExpirationSeconds,
		Annotations:           maps.Clone(o.ClusterAnnotations),
		ClientConfigs:         configs,
		HealthPeriod:          o.ClusterHealthCheckPeriod,
		Claims: status.ClaimRules{
			ReservedSuffixes: slices.Clone(o.ReservedClusterClaimSuffixes),
			MaxCustom:        o.MaxCustomClusterClaims,
			WithoutClaims:    !o.Features.Enabled(features.ClusterClaim),
			WithProperties:   o.Features.Enabled(features.ClusterProperty),
		},
		Local:     local.client,
		LocalREST: local.rest,
		Clock:     o.Clock,
		Log:       log,
	}, nil
}
