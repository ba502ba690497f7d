package registration

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/muster-fleet/terraform-provider-muster/internal/bootstraptoken"
	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// Endpoint is where agents reach the hub and how they verify it.
type Endpoint struct {
	Server string
	CA     []byte
}

// Equal reports whether both lead to the same server by the same authorities.
func (e Endpoint) Equal(other Endpoint) bool {
	return e.Server == other.Server && bytes.Equal(bytes.TrimSpace(e.CA), bytes.TrimSpace(other.CA))
}

// agentEndpoint decides where an agent's kubeconfig leads: what is configured,
// what the hub publishes about itself, and what the provider itself uses, in
// this order.
func agentEndpoint(ctx context.Context, h *hub.Hub, client *kube.Client, server, ca string) (Endpoint, error) {
	var e Endpoint
	if server == "" || ca == "" {
		info, err := h.Published(ctx, client, hubinfo.ClusterInfo)
		if err == nil {
			e.Server, e.CA, err = bootstraptoken.Server(info)
		}
		if errors.Is(err, bootstraptoken.ErrNoServer) {
			e.Server = client.Host()
			e.CA, err = client.CAData()
		}
		if err != nil {
			return Endpoint{}, err
		}
	}
	e.Server = cmp.Or(server, e.Server)
	if ca != "" {
		e.CA = []byte(ca)
	}
	return e, nil
}
