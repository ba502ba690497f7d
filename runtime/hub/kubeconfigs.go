package hub

import (
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/hubmade"
)

// accessKeyPurpose is what the key is for by which the keys that the hub makes for
// users are encrypted.
const accessKeyPurpose = "muster-fleet.io access keys"

// kubeconfigs answers, among the requests that were authorized, those for
// kubeconfigs with keys that the hub has made.
type kubeconfigs struct {
	handler atomic.Pointer[hubmade.Handler]
}

// serve puts the answers in front of the API. The server has to run before they can
// be given, and answers other requests itself.
func (k *kubeconfigs) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := k.handler.Load(); h != nil && hubmade.Matches(r) {
			h.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serveKubeconfigs begins to answer requests for kubeconfigs.
func (o Options) serveKubeconfigs(c client.Client, server *controlplane.Server) error {
	if !o.Features.Enabled(features.UserAccess) {
		return nil
	}
	vault, err := newVault(c, server)
	if err != nil {
		return err
	}
	o.kubeconfigs.handler.Store(hubmade.NewHandler(c, o.Clock, vault, hubmade.HubID(c)))
	return nil
}

// newVault is the vault of the keys that the hub makes.
func newVault(c client.Client, server *controlplane.Server) (*hubmade.Vault, error) {
	key, err := server.DeriveKey(accessKeyPurpose)
	if err != nil {
		return nil, err
	}
	return hubmade.NewVault(c, key)
}

// newMaker asks for access with such keys; nil while the hub gives no access.
func (o Options) newMaker(server *controlplane.Server, config *rest.Config) (*hubmade.Maker, error) {
	if !o.Features.Enabled(features.UserAccess) {
		return nil, nil
	}
	c, err := client.New(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
	if err != nil {
		return nil, err
	}
	vault, err := newVault(c, server)
	if err != nil {
		return nil, err
	}
	return hubmade.NewMaker(c, c, o.Clock, vault), nil
}
