package registration

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/status"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// Options say which cluster to register, and how. The agent's package sets and
// checks them.
type Options struct {
	// ClusterName is the cluster's name on the hub. When it is empty, the hub or
	// the stored identity says it.
	ClusterName string
	// Named says that ClusterName was chosen, and is not the stored one.
	Named bool
	// ClientID is what the cluster registers by when it has no name; by default
	// the UID of its namespace kube-system.
	ClientID string
	// ClusterLabels are what the agent would like its ManagedCluster to have when
	// the hub creates it for the client ID.
	ClusterLabels map[string]string
	// DeleteBootstrapSecret deletes the Secret cluster.BootstrapSecret once the hub
	// serves the agent under its own identity.
	DeleteBootstrapSecret bool
	// AgentName distinguishes the agent from others of the cluster; by default that of
	// the stored identity, or a random one.
	AgentName string
	// Namespace of the managed cluster that holds the agent's Secrets.
	Namespace string
	// BootstrapKubeconfig is a file. When it is missing, and when the Secret
	// cluster.BootstrapSecret changes while the agent runs, that Secret's
	// content is used.
	BootstrapKubeconfig string
	// BootstrapKubeconfigs are files, each for a hub that the cluster may belong
	// to, in the order of preference. They take the place of
	// BootstrapKubeconfig and the Secret.
	BootstrapKubeconfigs []string
	// HubTimeout is how long the present one of several hubs may be out of reach
	// before another one is looked for; DefaultHubTimeout by default.
	HubTimeout time.Duration
	// Dir, if set, is a folder that gets the stored identity as files, for other
	// programs.
	Dir string
	// UserAgent is what the agent calls itself in requests.
	UserAgent string

	// CertificateExpiration is the lifetime to ask for, in seconds; 0 leaves it
	// to the hub.
	CertificateExpiration int32
	// Annotations are put on the ManagedCluster when it is created here.
	Annotations map[string]string
	// ClientConfigs are addresses of the managed cluster, for its ManagedCluster.
	ClientConfigs []clusterv1.ClientConfig
	Claims        status.ClaimRules
	// HealthPeriod is how often the API server of the managed cluster is asked
	// how it is while it is well.
	HealthPeriod time.Duration

	// Local is the managed cluster; LocalREST its API server.
	Local     client.WithWatch
	LocalREST rest.Interface

	// Accepted runs beside registration once the hub has accepted the cluster. Its
	// ctx ends, and Accepted has to return, when the identity can't be used any
	// longer; it runs again with the next one.
	Accepted func(ctx context.Context, hub Hub) error
	// Ready, if set, is waited for before anything is reported to the hub.
	Ready <-chan struct{}

	// Answered, if set, is called once, when a hub has answered for the first time.
	Answered func()

	Metrics Metrics
	Clock   clock.Clock
	Log     *slog.Logger
}

// Hub is a hub that knows the agent.
type Hub struct {
	// Config gives access with the agent's identity, also when the certificate
	// is renewed.
	Config *rest.Config
	// ClusterName is the cluster's name there.
	ClusterName string
	// Host is the hub's address exactly as it was in the agent's kubeconfig when the
	// agent joined. Works are accounted for under it, wherever the hub is now.
	Host string
	// Endpoint is where the agent finds the hub now. A move of the hub runs Accepted
	// again.
	Endpoint identity.Endpoint
	// Annotate keeps an annotation of the agent on the ManagedCluster: the value ""
	// is none. Until it is called, none is kept. It does not block.
	Annotate func(key, value string)
}

// Metrics are called when something happens. Every field may be nil.
type Metrics struct {
	Beat               func()
	CertificateExpires func(time.Time)
}
