package hub

import (
	"bytes"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/hubmade"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/debug"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/install"
)

// prepare installs the definitions and the well-known objects. What it starts runs until
// hubCtx ends.
func prepare(ctx, hubCtx context.Context, o Options, server *controlplane.Server) error {
	config := server.RESTConfig("muster-install")
	c, err := client.New(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		return err
	}
	keys := install.Keys{CAData: server.CAData, ServiceAccountKeyHash: server.ServiceAccountKeyHash}
	if !o.ReplaceLostKeys {
		if err := install.SameKeys(ctx, c, keys); err != nil {
			return o.explainKeys(err)
		}
	}
	served, err := o.definitions()
	if err != nil {
		return err
	}
	if err := definitions.Install(ctx, config, served); err != nil {
		return err
	}
	if err := o.serveKubeconfigs(c, server); err != nil {
		return err
	}
	if o.Features.Enabled(features.PlacementDebugServer) {
		// Not the controllers' client, as a replica that waits for its turn has none.
		server.HandlePrefix(debug.Path, debug.NewHandler(c, o.Clock, o.scheduling()))
	}
	server.HandlePath(hubinfo.StorePath, o.budgets)
	externalCAs, err := o.externalCAs()
	if err != nil {
		return err
	}
	publish := func(ctx context.Context, externalCAs []byte) error {
		place := install.Place{URL: server.URL, ExternalURLs: o.externalURLs(), ExternalCAs: externalCAs}
		return install.WellKnown(ctx, c, place, keys, o.announced()...)
	}
	if err := publish(ctx, externalCAs); err != nil {
		return err
	}
	o.followAuthorities(hubCtx, externalCAs, publish)
	return nil
}

// followAuthorities publishes the authorities in o.ExternalCAFiles again when they change,
// until ctx ends. A file that can't be read changes nothing.
func (o Options) followAuthorities(
	ctx context.Context, published []byte, publish func(context.Context, []byte) error,
) {
	var mu sync.Mutex
	for _, file := range o.ExternalCAFiles {
		log := o.Log.WithName("endpoints").WithValues("file", file)
		go filesystem.WatchUntil(ctx, time.Minute, file, func() {
			mu.Lock()
			defer mu.Unlock()
			now, err := o.externalCAs()
			if err == nil && !bytes.Equal(now, published) {
				if err = publish(ctx, now); err == nil {
					published = now
					log.Info("the authorities for agents have changed")
				}
			}
			if err != nil && ctx.Err() == nil {
				log.Error(err, "the authorities for agents stay as they were")
			}
		}, func(err error) { log.Error(err, "watch a file with authorities") })
	}
}

// definitions are those of the kinds that the hub serves.
func (o Options) definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := crds.Hub()
	if err != nil {
		return nil, err
	}
	for _, optional := range []struct {
		gate   featuregate.Feature
		server kinds.Server
	}{
		{features.ClusterProfile, kinds.HubWithClusterProfile},
		{features.ClusterRegistration, kinds.HubWithClusterRegistration},
		{features.ClusterImport, kinds.HubWithClusterImport},
		{features.UserAccess, kinds.HubWithUserAccess},
		{features.WorkPreview, kinds.HubWithWorkPreview},
		{features.WorkOverride, kinds.HubWithWorkOverride},
	} {
		if !o.Features.Enabled(optional.gate) {
			continue
		}
		more, err := crds.Gated(optional.server)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// announced are the features that the hub announces to its clients, beside those that
// every muster hub has.
func (o Options) announced() []string {
	var names []string
	for _, f := range []struct {
		gate featuregate.Feature
		name string
	}{
		{features.PreferNoSelect, hubinfo.PreferNoSelect},
		{features.ClusterRegistration, hubinfo.ClusterRegistration},
		{features.ClusterImport, hubinfo.ClusterImport},
		{features.UserAccess, hubinfo.UserAccess},
		{features.Tunnel, hubinfo.Tunnel},
		{features.WorkPreview, hubinfo.WorkPreview},
		{features.WorkOverride, hubinfo.WorkOverride},
	} {
		if o.Features.Enabled(f.gate) {
			names = append(names, f.name)
		}
	}
	return names
}

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
	c, err := client.New(config, client.Options{Scheme: api.Scheme(), Mapper: restmapper.Static()})
	if err != nil {
		return nil, err
	}
	vault, err := newVault(c, server)
	if err != nil {
		return nil, err
	}
	return hubmade.NewMaker(c, c, o.Clock, vault), nil
}
