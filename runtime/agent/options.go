package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	addonregistration "github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
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
	// Tunnels takes users with access to the cluster's API server through the hub
	// (--tunnels). It needs UserAccess.
	Tunnels bool

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

// problems are what is wrong with options.
type problems []error

// when adds a problem if there is one.
func (p *problems) when(there bool, format string, args ...any) {
	if there {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// Validate names every option that can't be used, and what to do about it.
func (o *Options) Validate() error {
	p := problems{
		features.Check(o.Features),
		label("--namespace", o.Namespace, "it names a namespace of the managed cluster"),
	}
	if o.ClusterName != "" {
		p = append(p, label("--cluster-name", o.ClusterName, "it names a namespace on the hub"))
		if err := cluster.ReservedName(o.ClusterName); err != nil {
			p.when(true, "--cluster-name %q cannot be used: %w", o.ClusterName, err)
		}
	}
	p.when(o.AgentID != "" && len(validation.IsDNS1123Subdomain(o.AgentID)) > 0,
		"--agent-id %q cannot be used, as it becomes a part of the agent's user name on the hub: "+
			"use lower-case letters, digits, hyphens and dots, or leave it out for a random one", o.AgentID)
	p.when(o.ManagedCluster == nil,
		"there is no access to the managed cluster: give its kubeconfig with --kubeconfig, "+
			"or run the agent in a pod of the cluster")
	life := o.ClientCertExpirationSeconds
	p.when(life != 0 && life < certificate.MinExpiration,
		"--client-cert-expiration-seconds %d is too short a life for "+
			"a certificate: use %d or more, or 0 to leave it to the hub", life, certificate.MinExpiration)
	o.validateReports(&p)
	o.validateHubs(&p)
	o.validateClientID(&p)
	o.validateParts(&p)
	return errors.Join(p...)
}

// label checks a name that has to be a DNS label.
func label(flag, value, because string) error {
	if value == "" {
		return fmt.Errorf("%s is empty, but %s: give a name of 1 to 63 lower-case letters, digits and hyphens", flag, because)
	}
	if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
		return fmt.Errorf("%s %q cannot be used, as %s and %s: use 1 to 63 lower-case letters, digits and hyphens, with a letter or "+
			"digit at both ends",
			flag, value, because, strings.Join(problems, "; "))
	}
	return nil
}

// validateReports checks what the agent reports of its cluster.
func (o *Options) validateReports(p *problems) {
	p.when(o.MaxCustomClusterClaims < 0,
		"--max-custom-cluster-claims %d is negative: use 1 or more, or leave it out for %d",
		o.MaxCustomClusterClaims, status.DefaultMaxCustomClaims)
	for _, s := range o.ReservedClusterClaimSuffixes {
		p.when(len(validation.IsDNS1123Subdomain(strings.TrimPrefix(s,
			"."))) > 0, "--reserved-cluster-claim-suffixes has %q, "+
			"which no claim's name can end with: use the end of a DNS name, such as example.com", s)
	}
	for _, s := range o.ExternalServerURLs {
		u, err := url.Parse(s)
		p.when(err != nil || u.Scheme != "https" || u.Host == "",
			"--spoke-external-server-urls has %q, which the hub does not "+
				"take as an address of a cluster: use a URL such as https://api.example.com:6443", s)
	}
	p.when(o.Tunnels && !o.UserAccess,
		"--tunnels is for users with access to the cluster: add --user-access, or leave --tunnels out")
	p.when(o.ClusterHealthCheckPeriod < time.Second, "--cluster-healthcheck-period %s is too short: use 1s or more",
		o.ClusterHealthCheckPeriod)
	if o.HealthAddress == "" {
		return
	}
	if _, _, err := net.SplitHostPort(o.HealthAddress); err != nil {
		p.when(true, "--health-address %q is not an address to listen on (%w): use one such as :8000 or 127.0.0.1:8000",
			o.HealthAddress, err)
	}
}

func (o *Options) validateHubs(p *problems) {
	several, n := o.Features.Enabled(features.MultipleHubs), len(o.BootstrapKubeconfigs)
	p.when(n > 0 && !several, "--bootstrap-kubeconfigs needs --feature-gates MultipleHubs=true: "+
		"turn the gate on, or give one hub with --bootstrap-kubeconfig")
	p.when(several && n < 2,
		"--feature-gates MultipleHubs=true needs two hubs or more, and --bootstrap-kubeconfigs names %d: "+
			"name more, or turn the gate off", n)
	p.when(several && o.BootstrapKubeconfig != "",
		"--bootstrap-kubeconfig %s and --bootstrap-kubeconfigs exclude each other: "+
			"put all hubs into the latter", o.BootstrapKubeconfig)
	p.when(o.HubConnectionTimeoutSeconds < 10,
		"--hub-connection-timeout-seconds %d is too short to distinguish an outage "+
			"from a hiccup: use 10 or more", o.HubConnectionTimeoutSeconds)
}

func (o *Options) validateClientID(p *problems) {
	several := len(o.BootstrapKubeconfigs) > 0
	p.when(o.ClientID != "" && o.ClusterName != "", "--client-id %s and --cluster-name %s exclude each other: "+
		"the hub finds the cluster's name by its client ID", o.ClientID, o.ClusterName)
	p.when(len(o.RegistrationLabels) > 0 && o.ClusterName != "",
		"--registration-label has no effect with --cluster-name %s: "+
			"the labels are for a cluster that the hub creates for a client ID", o.ClusterName)
	p.when(several && (o.ClientID != "" || len(o.RegistrationLabels) > 0),
		"--client-id and --registration-label exclude "+
			"--bootstrap-kubeconfigs, as each hub may call the cluster by another name: name it with --cluster-name")
	p.when(several && o.DeleteBootstrapSecret,
		"--delete-bootstrap-secret excludes --bootstrap-kubeconfigs, which are files: leave it out")
	if o.ClientID != "" {
		if err := cluster.CheckClientID(o.ClientID); err != nil {
			p.when(true, "--client-id: %w", err)
		}
	}
	if err := cluster.CheckChosenLabels(o.RegistrationLabels); err != nil {
		p.when(true, "--registration-label: %w", err)
	}
}

// validateParts checks the options of works and add-ons.
func (o *Options) validateParts(p *problems) {
	p.when(o.EvictionGracePeriod < 0, "--appliedmanifestwork-eviction-grace-period %s is negative: use 0s or more, "+
		"or leave it out for %s", o.EvictionGracePeriod, work.DefaultEvictionGracePeriod)
	p.when(o.MaxJSONRawLength < 0, "--max-json-raw-length %d is negative: use 1 or more, or leave it out for %d bytes",
		o.MaxJSONRawLength, work.DefaultMaxJSONRawLength)
	driver := o.AddOnKubeClientRegistrationAuth
	p.when(driver != addonregistration.DriverCSR && driver != addonregistration.DriverToken,
		"--addon-kubeclient-registration-auth %q is unknown: use %s for client certificates, or %s for tokens",
		driver, addonregistration.DriverCSR, addonregistration.DriverToken)
	n := o.AddOnTokenExpirationSeconds
	p.when(n < addonregistration.MinTokenExpiration || n > math.MaxInt32,
		"--addon-token-expiration-seconds %d is not a lifetime of a token: use %d to %d, or leave it out for %d",
		n, addonregistration.MinTokenExpiration, math.MaxInt32, addonregistration.DefaultTokenExpiration)
}

// nameCluster finds the cluster's name: the one that was given, or the one that it
// is registered under. With several hubs to choose from, a cluster without one gets
// a random name, which is stored at once so that it stays. Otherwise the hub says
// later what it is called. It tries until the managed cluster answers.
func (o *Options) nameCluster(ctx context.Context, local client.Client) error {
	if o.ClusterName != "" {
		return nil
	}
	store := identity.Store{Client: local, Namespace: o.Namespace}
	var problem retry.Once
	name := ""
	err := retry.Until(ctx, o.Clock, retry.Start(30*time.Second), func(ctx context.Context) (err error) {
		name, err = storedName(ctx, store, len(o.BootstrapKubeconfigs) > 0)
		if err != nil && ctx.Err() == nil && problem.Changed(err.Error()) {
			o.Log.Warn("cannot find out what the cluster is called, trying again: see to the connection, or name it with --cluster-name", "err", err)
		}
		return err
	})
	if err != nil {
		return err
	}
	if o.ClusterName = name; name == "" {
		return nil
	}
	return checkName(name, o.Namespace)
}

func storedName(ctx context.Context, store identity.Store, random bool) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stored, err := store.Load(ctx)
	if err != nil || stored.Cluster != "" || !random {
		return stored.Cluster, err
	}
	stored.Cluster = string(uuid.NewUUID())
	return stored.Cluster, store.Save(ctx, identity.Identity{Names: stored.Names})
}

// checkName checks a name that was stored, which not only the agent can do.
func checkName(name, namespace string) error {
	if err := cluster.ReservedName(name); err != nil {
		return fmt.Errorf("the Secret %s/%s calls the cluster %q: %w with --cluster-name", namespace, cluster.HubKubeconfigSecret, name, err)
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("metadata.name format is not correct: the Secret %s/%s calls the cluster %q: %s: "+
			"give another name with --cluster-name, or delete the Secret to get one",
			namespace, cluster.HubKubeconfigSecret, name, strings.Join(problems, "; "))
	}
	return nil
}

// installTimeout bounds one attempt.
const installTimeout = 30 * time.Second

// installation puts the definitions of the kinds that an agent needs into the
// managed cluster.
type installation struct {
	config *rest.Config
	clock  clock.Clock
	log    *slog.Logger
	// tried is closed after the first attempt, done after the one that worked.
	tried, done chan struct{}
}

func newInstallation(config *rest.Config, clk clock.Clock, log *slog.Logger) *installation {
	return &installation{config: config, clock: clk, log: log, tried: make(chan struct{}), done: make(chan struct{})}
}

// run tries until it works, or ctx ends.
func (i *installation) run(ctx context.Context) {
	var (
		problem retry.Once
		tried   sync.Once
	)
	err := retry.Until(ctx, i.clock, retry.Start(time.Minute), func(ctx context.Context) error {
		defer tried.Do(func() { close(i.tried) })
		err := i.install(ctx)
		if err != nil && ctx.Err() == nil && problem.Changed(err.Error()) {
			i.log.Warn("cannot install the agent's kinds in the managed cluster, trying again; until then no works are carried out", "err", err)
		}
		return err
	})
	if err == nil {
		close(i.done)
	}
}

func (i *installation) install(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	kinds, err := crds.ManagedCluster()
	if err != nil {
		return err
	}
	return definitions.Install(ctx, i.config, kinds)
}
