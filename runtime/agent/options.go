// Package agent is what runs in or for each managed cluster: it registers the
// cluster with a hub, reports on it, and carries out the works that the hub
// has for it.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
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
	// identity, or takes a random UUID.
	ClusterName string
	// AgentID tells the agent from others of the cluster (--agent-id). By
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
	// MaxCustomClusterClaims is how many claims without a reserved name the hub
	// is told of (--max-custom-cluster-claims); 20 by default.
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
	// and for ever from 100 years on.
	EvictionGracePeriod time.Duration
	// MaxJSONRawLength is the longest JSON, in bytes, that the feedback of works
	// holds with the gate features.RawFeedbackJSONString (--max-json-raw-length);
	// 1024 by default.
	MaxJSONRawLength int

	// HealthAddress, such as ":8000", serves /livez, /readyz, /healthz and
	// /metrics (--health-address). Empty means that nothing is served.
	HealthAddress string

	// Features are the agent's feature gates (--feature-gates);
	// features.NewAgent by default.
	Features featuregate.FeatureGate

	// Log is the program's logger. The agent adds the cluster's name to it.
	Log *slog.Logger
	// Clock is the real one by default.
	Clock clock.Clock
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
	if o.Features == nil {
		o.Features = features.NewAgent()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Work == nil {
		o.Work = work.Run
	}
}

// Validate names every option that can't be used, and what to do about it.
func (o *Options) Validate() error {
	return errors.Join(
		features.Check(o.Features),
		o.validateClusterName(),
		label("--namespace", o.Namespace, "it names a namespace of the managed cluster"),
		o.validateAgentID(),
		o.validateManagedCluster(),
		o.validateCertificate(),
		o.validateClaims(),
		o.validateURLs(),
		o.validateHubs(),
		o.validateWorks(),
		o.validateHealth(),
	)
}

// label checks a name that has to be a DNS label.
func label(flag, value, because string) error {
	if value == "" {
		return fmt.Errorf("%s is empty, but %s: give a name of 1 to 63 lower-case letters, digits and hyphens", flag, because)
	}
	if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
		return fmt.Errorf("%s %q cannot be used, as %s and %s: use 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends",
			flag, value, because, strings.Join(problems, "; "))
	}
	return nil
}

func (o *Options) validateClusterName() error {
	if o.ClusterName == "" {
		return nil
	}
	if err := label("--cluster-name", o.ClusterName, "it names a namespace on the hub"); err != nil {
		return err
	}
	if err := cluster.ReservedName(o.ClusterName); err != nil {
		return fmt.Errorf("--cluster-name %q cannot be used: %w", o.ClusterName, err)
	}
	return nil
}

func (o *Options) validateHubs() error {
	several := o.Features.Enabled(features.MultipleHubs)
	switch n := len(o.BootstrapKubeconfigs); {
	case n > 0 && !several:
		return errors.New("--bootstrap-kubeconfigs needs --feature-gates MultipleHubs=true: turn the gate on, or give one hub with --bootstrap-kubeconfig")
	case several && n < 2:
		return fmt.Errorf("--feature-gates MultipleHubs=true needs two hubs or more, and --bootstrap-kubeconfigs names %d: name more, or turn the gate off", n)
	case several && o.BootstrapKubeconfig != "":
		return fmt.Errorf("--bootstrap-kubeconfig %s and --bootstrap-kubeconfigs exclude each other: put all hubs into the latter", o.BootstrapKubeconfig)
	case o.HubConnectionTimeoutSeconds < 10:
		return fmt.Errorf("--hub-connection-timeout-seconds %d is too short to tell an outage from a hiccup: use 10 or more", o.HubConnectionTimeoutSeconds)
	}
	return nil
}

func (o *Options) validateAgentID() error {
	if o.AgentID == "" {
		return nil
	}
	if problems := validation.IsDNS1123Subdomain(o.AgentID); len(problems) > 0 {
		return fmt.Errorf("--agent-id %q cannot be used, as it becomes a part of the agent's user name on the hub: use lower-case letters, digits, hyphens and dots, or leave it out for a random one", o.AgentID)
	}
	return nil
}

func (o *Options) validateManagedCluster() error {
	if o.ManagedCluster == nil {
		return errors.New("there is no access to the managed cluster: give its kubeconfig with --kubeconfig, or run the agent in a pod of the cluster")
	}
	return nil
}

func (o *Options) validateCertificate() error {
	if n := o.ClientCertExpirationSeconds; n != 0 && n < certificate.MinExpiration {
		return fmt.Errorf("--client-cert-expiration-seconds %d is too short a life for a certificate: use %d or more, or 0 to leave it to the hub", n, certificate.MinExpiration)
	}
	return nil
}

func (o *Options) validateClaims() error {
	if o.MaxCustomClusterClaims < 0 {
		return fmt.Errorf("--max-custom-cluster-claims %d is negative: use 1 or more, or leave it out for %d", o.MaxCustomClusterClaims, status.DefaultMaxCustomClaims)
	}
	for _, s := range o.ReservedClusterClaimSuffixes {
		if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(s, ".")); len(problems) > 0 {
			return fmt.Errorf("--reserved-cluster-claim-suffixes has %q, which no claim's name can end with: use the end of a DNS name, such as example.com", s)
		}
	}
	return nil
}

func (o *Options) validateURLs() error {
	for _, s := range o.ExternalServerURLs {
		if u, err := url.Parse(s); err != nil || u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("--spoke-external-server-urls has %q, which the hub does not take as an address of a cluster: use a URL such as https://api.example.com:6443", s)
		}
	}
	return nil
}

func (o *Options) validateWorks() error {
	var problems []error
	if o.EvictionGracePeriod < 0 {
		problems = append(problems, fmt.Errorf("--appliedmanifestwork-eviction-grace-period %s is negative: use 0s or more, or leave it out for %s", o.EvictionGracePeriod, work.DefaultEvictionGracePeriod))
	}
	if o.MaxJSONRawLength < 0 {
		problems = append(problems, fmt.Errorf("--max-json-raw-length %d is negative: use 1 or more, or leave it out for %d bytes", o.MaxJSONRawLength, work.DefaultMaxJSONRawLength))
	}
	return errors.Join(problems...)
}

func (o *Options) validateHealth() error {
	if o.ClusterHealthCheckPeriod < time.Second {
		return fmt.Errorf("--cluster-healthcheck-period %s is too short: use 1s or more", o.ClusterHealthCheckPeriod)
	}
	if o.HealthAddress == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(o.HealthAddress); err != nil {
		return fmt.Errorf("--health-address %q is not an address to listen on (%w): use one such as :8000 or 127.0.0.1:8000", o.HealthAddress, err)
	}
	return nil
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
