package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
)

// fieldManager owns the fields that configurations set.
const fieldManager = "terraform-provider-muster"

// acceptanceManager owns hubAcceptsClient, so that applying the cluster itself
// does not withdraw it.
const acceptanceManager = fieldManager + "-acceptance"

// hub is the connection of the provider block, made when it is first needed.
type hub struct {
	connection kube.Connection
	unknown    []string
	version    string

	connectOnce sync.Once
	kubeClient  *kube.Client
	connectErr  error

	featuresMu   sync.Mutex
	featuresRead bool
	features     map[string]string

	fleets   fleetCache
	planning impatientClient
}

func newHub(connection kube.Connection, unknown []string, version string) *hub {
	return &hub{connection: connection, unknown: unknown, version: version}
}

// isUnknown reports whether the provider block has values that are not known
// yet, as while planning a hub that is still to be created.
func (h *hub) isUnknown() bool { return len(h.unknown) > 0 }

// client is the hub's client, or nil with an error added that says what to set.
func (h *hub) client(diags *diag.Diagnostics) *kube.Client {
	if h == nil {
		diags.AddError("The provider is not configured", "This is a defect of the provider: it was asked to act before its configuration. Please report it.")
		return nil
	}
	if h.isUnknown() {
		diags.AddError("The hub is not known yet",
			fmt.Sprintf("The provider block's %s will only be known after other resources are created. "+
				"Create those first, for example with terraform apply -target, or give the provider values that are known while planning.",
				strings.Join(h.unknown, ", ")))
		return nil
	}
	h.connectOnce.Do(func() {
		h.kubeClient, h.connectErr = newClient(h.connection, h.version, kube.DefaultRetryBudget)
	})
	switch {
	case errors.Is(h.connectErr, kube.ErrNotConfigured):
		diags.AddError("No hub is configured",
			"Neither the provider block nor the environment says where the hub is. "+
				"Set one of kubeconfig_path, kubeconfig or host in the provider \"muster\" block, "+
				"or one of the environment variables MUSTER_KUBECONFIG, KUBECONFIG or MUSTER_HOST. "+
				"There is no fallback to localhost or ~/.kube/config.")
		return nil
	case h.connectErr != nil:
		diags.AddError("The connection to the hub is not configured properly",
			fmt.Sprintf("%s.\n\nCorrect the provider \"muster\" block or the MUSTER_* environment variables.", capitalize(h.connectErr.Error())))
		return nil
	}
	return h.kubeClient
}

func newClient(connection kube.Connection, version string, budget time.Duration) (*kube.Client, error) {
	config, err := connection.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.UserAgent = fieldManager + "/" + version
	return kube.New(config, kube.Options{Scheme: newScheme(), Mapper: restmapper.Static(), RetryBudget: budget})
}

// has reports whether the hub has a feature of muster's hubs, which an upstream
// hub has not.
func (h *hub) has(ctx context.Context, client *kube.Client, feature string) (bool, error) {
	h.featuresMu.Lock()
	defer h.featuresMu.Unlock()
	if !h.featuresRead {
		info := &corev1.ConfigMap{}
		err := client.Get(ctx, info, metav1.NamespacePublic, hubinfo.Name)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return false, fmt.Errorf("reading the hub's features from ConfigMap %s/%s: %w", metav1.NamespacePublic, hubinfo.Name, err)
		}
		h.features, h.featuresRead = info.Data, true
	}
	return hubinfo.Has(h.features, feature), nil
}

// configured takes the hub out of what Configure was given. Terraform calls
// Configure without data while it validates; that is no error.
func configured(data any, diags *diag.Diagnostics) *hub {
	if data == nil {
		return nil
	}
	h, ok := data.(*hub)
	if !ok {
		diags.AddError("The provider is not configured", fmt.Sprintf("This is a defect of the provider: got %T as its data. Please report it.", data))
	}
	return h
}
