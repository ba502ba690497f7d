package hub

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/crds"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/definitions"
	"github.com/muster-fleet/terraform-provider-muster/runtime/features"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/debug"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/install"
)

// prepare installs the definitions and the well-known objects.
func prepare(ctx context.Context, o Options, server *controlplane.Server) error {
	config := server.RESTConfig("muster-install")
	c, err := client.New(config, client.Options{Scheme: api.NewScheme(), Mapper: restmapper.Static()})
	if err != nil {
		return err
	}
	keys := install.Keys{CAData: server.CAData, ServiceAccountKeyHash: server.ServiceAccountKeyHash}
	if !o.ReplaceLostKeys {
		if err := install.SameKeys(ctx, c, keys); err != nil {
			return o.explainKeys(err)
		}
	}
	kinds, err := crds.Hub()
	if err != nil {
		return err
	}
	if o.Features.Enabled(features.ClusterProfile) {
		profile, err := crds.ClusterProfile()
		if err != nil {
			return err
		}
		kinds = append(kinds, profile...)
	}
	if err := definitions.Install(ctx, config, kinds); err != nil {
		return err
	}
	if o.Features.Enabled(features.PlacementDebugServer) {
		// Not the controllers' client, as a replica that waits for its turn has none.
		server.HandlePrefix(debug.Path, debug.NewHandler(c, o.Clock, o.scheduling()))
	}
	var enabled []string
	if o.Features.Enabled(features.PreferNoSelect) {
		enabled = append(enabled, hubinfo.PreferNoSelect)
	}
	return install.WellKnown(ctx, c, server.URL, keys, enabled...)
}
