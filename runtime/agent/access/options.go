package access

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// userAgent is what the agent calls itself in requests.
const userAgent = "muster-access-agent"

// Options say whose users get access where. All fields are required.
type Options struct {
	engine.Part
	// HubHost is the hub's URL exactly as in the agent's kubeconfig.
	HubHost string
	// Annotate keeps an annotation on the cluster's ManagedCluster: the value "" is
	// none. It must not block.
	Annotate func(key, value string)
}

// Run gives users access until ctx ends, and returns nil then. It returns an error only
// when it cannot start.
func Run(ctx context.Context, o Options) error {
	return o.Part.Run(ctx, "user access", userAgent, o.look)
}

// look asks the hub for user access, and returns what looks after it; nil when it has
// none.
func (o Options) look(ctx context.Context, hub, local client.WithWatch) (func(context.Context) error, error) {
	info := &corev1.ConfigMap{}
	err := hub.Get(ctx, client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info)
	isUpstream := apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
	if err != nil && !isUpstream {
		return nil, err
	}
	hubID := info.Data[hubinfo.HubIDKey]
	if isUpstream || !hubinfo.Has(info.Data, hubinfo.UserAccess) || hubID == "" {
		o.Annotate(muster.UserAccessAnnotation, "")
		return nil, nil
	}
	a, err := newAgent(o, hub, local, hubID)
	if err != nil {
		return nil, err
	}
	return a.run, nil
}
