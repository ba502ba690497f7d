package hub

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// FieldManager owns the fields that configurations set.
const FieldManager = muster.TerraformFieldManager

// AcceptanceManager owns hubAcceptsClient, so that applying the cluster itself
// does not withdraw it.
const AcceptanceManager = FieldManager + "-acceptance"

// Hub is the connection of the provider block, made when it is first needed.
type Hub struct {
	Connection kube.Connection
	Unknown    []string
	Version    string
	// Preview is whether plans ask the clusters, where a resource does not say.
	Preview PreviewMode

	connectOnce sync.Once
	connectErr  error
	// readClient and planClient are kubeClient for callers with less patience: they wait
	// for RefreshBudget and for PlanRetryBudget.
	kubeClient, readClient, planClient *kube.Client

	publishedMu sync.Mutex
	published   map[string]map[string]string

	fleets   fleetCache
	planning planning
	walk     walk
	sets     clusterSets
	// reported says that a resource has told that the hub is away.
	reported atomic.Bool
}

// PreviewMode is whether a plan asks the clusters what a change would do there.
type PreviewMode string

// The modes of previews.
const (
	PreviewNone     PreviewMode = "none"
	PreviewClusters PreviewMode = "clusters"
	PreviewEnforced PreviewMode = "clusters-enforced"
)

// PreviewModes explains the modes in descriptions.
const PreviewModes = "`clusters`: the plan warns of what would be created, changed and deleted in which clusters, of " +
	"what would be refused, and of clusters that do not answer. `clusters-enforced`: a plan that a cluster would " +
	"refuse fails. `none`: no cluster is asked."

// New is a hub at connection. unknown names the attributes of the provider block that
// are not known yet; version appears in the user agent of requests.
func New(connection kube.Connection, unknown []string, version string) *Hub {
	return &Hub{Connection: connection, Unknown: unknown, Version: version}
}

// IsUnknown reports whether the provider block has values that are not known
// yet, as while planning a hub that is still to be created.
func (h *Hub) IsUnknown() bool { return len(h.Unknown) > 0 }

// Client is the hub's client, or nil with an error added that says what to set.
func (h *Hub) Client(diags *diag.Diagnostics) *kube.Client {
	if h == nil {
		diags.AddError("The provider is not configured", "This is a defect of the provider: it was asked to act "+
			"before its configuration. Please report it.")
		return nil
	}
	if h.IsUnknown() {
		diags.AddError("The hub is not known yet",
			fmt.Sprintf("The provider block's %s will only be known after other resources are created. "+
				"Create those first, for example with terraform apply -target, or give the provider values that are "+
				"known while planning.",
				strings.Join(h.Unknown, ", ")))
		return nil
	}
	h.connectOnce.Do(func() {
		h.kubeClient, h.connectErr = NewClient(h.Connection, h.Version, kube.DefaultRetryBudget)
		if h.connectErr == nil {
			h.readClient = h.kubeClient.WithRetryBudget(RefreshBudget)
			h.planClient = h.kubeClient.WithRetryBudget(PlanRetryBudget)
		}
	})
	if h.connectErr != nil {
		diags.AddError(misconfigured(h.connectErr))
		return nil
	}
	return h.kubeClient
}

// misconfigured describes why a connection can't be one.
func misconfigured(err error) (summary, detail string) {
	if errors.Is(err, kube.ErrNotConfigured) {
		return "No hub is configured",
			"Neither the provider block nor the environment says where the hub is. Set one of kubeconfig_path, " +
				"config_paths, kubeconfig, host or in_cluster in the provider \"muster\" block, or one of the " +
				"environment variables MUSTER_KUBECONFIG, MUSTER_HOST, KUBE_CONFIG_PATH, KUBE_HOST or KUBECONFIG. " +
				"There is no fallback to localhost or ~/.kube/config."
	}
	return "The connection to the hub is not configured properly",
		fmt.Sprintf("%s.\n\nCorrect the provider \"muster\" block, or the environment variables that stand in for it.",
			attribute.Capitalize(err.Error()))
}

// WarnIfMisconfigured tells of a connection that can't be one as it is, such as a
// kubeconfig that is not there. That is no error yet: another resource may write the
// file, and a plan of new resources needs no hub. It dials nothing.
func (h *Hub) WarnIfMisconfigured(diags *diag.Diagnostics) {
	if h.IsUnknown() {
		return
	}
	if _, err := h.Connection.RESTConfig(); err != nil {
		summary, detail := misconfigured(err)
		diags.AddWarning(summary, detail+"\n\nUntil then only new resources can be planned, without a look at the "+
			"hub, and nothing can be applied.")
	}
}

// NewClient is a client of any API server. budget is how long that may be away.
func NewClient(connection kube.Connection, version string, budget time.Duration) (*kube.Client, error) {
	config, err := connection.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = FieldManager + "/" + version
	return kube.New(config, kube.Options{Scheme: NewScheme(), Mapper: restmapper.Of(kinds.Provider()),
		RetryBudget: budget, Observe: logExchange})
}

// logExchange makes requests visible with TF_LOG.
func logExchange(ctx context.Context, x kube.Exchange) {
	fields := map[string]any{"method": x.Method, "path": x.Path, "duration_ms": x.Duration.Milliseconds()}
	if x.Err != nil {
		fields["error"] = x.Err.Error()
	} else {
		fields["status"] = x.Status
	}
	tflog.Debug(ctx, "Sent a request to a Kubernetes API server", fields)
}

// Has reports whether the hub has a feature of muster's hubs, which an upstream
// hub has not.
func (h *Hub) Has(ctx context.Context, client *kube.Client, feature string) (bool, error) {
	features, err := h.Published(ctx, client, hubinfo.Name)
	if err != nil {
		return false, err
	}
	return hubinfo.Has(features, feature), nil
}

// Published is what a config map in kube-public says, in which hubs tell about
// themselves. It is read once, and empty where there is none or nobody may read it.
func (h *Hub) Published(ctx context.Context, client *kube.Client, name string) (map[string]string, error) {
	h.publishedMu.Lock()
	defer h.publishedMu.Unlock()
	if data, read := h.published[name]; read {
		return data, nil
	}
	info := &corev1.ConfigMap{}
	err := client.Get(ctx, info, metav1.NamespacePublic, name)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("read what the hub says about itself from ConfigMap %s/%s: %w", metav1.NamespacePublic,
			name, err)
	}
	if h.published == nil {
		h.published = map[string]map[string]string{}
	}
	h.published[name] = info.Data
	return info.Data, nil
}

// Configured takes the hub out of what Configure was given. Terraform calls
// Configure without data while it validates; that is no error.
func Configured(data any, diags *diag.Diagnostics) *Hub {
	if data == nil {
		return nil
	}
	h, ok := data.(*Hub)
	if !ok {
		diags.AddError("The provider is not configured", fmt.Sprintf("This is a defect of the provider: got %T as "+
			"its data. Please report it.", data))
	}
	return h
}

// NewScheme has the kinds that the provider handles and no others: all of
// Kubernetes' own would add a third to the binary.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		corev1.AddToScheme,
		authenticationv1.AddToScheme,
		appsv1.AddToScheme,
		rbacv1.AddToScheme,
		certificatesv1.AddToScheme,
	)
	utilruntime.Must(builder.AddToScheme(scheme)) // fails only for a kind that is defined twice
	kinds.AddToScheme(scheme, kinds.Provider())
	return scheme
}
