package hub

import (
	ctrl "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/clusterset/binding"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/clusterset/defaultsets"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/clusterset/namespaces"
	setstatus "github.com/muster-fleet/terraform-provider-muster/runtime/hub/clusterset/status"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/placement"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/registration/clocksync"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/registration/clusterrole"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/registration/csr"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/registration/gc"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/registration/lease"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/registration/managedcluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/registration/taint"
)

// registered is what each controller is to the hub.
type registered interface {
	Register(m ctrl.Manager) error
}

// register adds every controller of the hub to a manager.
func register(m ctrl.Manager, o Options) error {
	c, live := m.GetClient(), m.GetAPIReader()
	for _, r := range []registered{
		// Registration: from the first certificate request to the last work.
		managedcluster.NewController(c, live, o.Clock, len(o.AutoApprove) > 0),
		csr.NewController(c, m.GetEventRecorder("registration-controller"), o.AutoApprove),
		clusterrole.NewController(c, live),
		lease.NewController(c, m.GetEventRecorder("registration-controller"), o.Clock),
		clocksync.NewController(c, o.Clock),
		taint.NewController(c),
		gc.NewController(c),

		// Cluster sets: who belongs where.
		defaultsets.NewController(c),
		setstatus.NewController(c),
		binding.NewController(c),
		namespaces.NewController(c),

		// Placement: who is chosen.
		placement.NewController(c, m.GetEventRecorder("placement-controller"), o.Clock),
	} {
		if err := r.Register(m); err != nil {
			return err
		}
	}
	return nil
}
