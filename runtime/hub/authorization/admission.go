package authorization

import (
	"context"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// Admission are the rules that need more than a request's address: writes by the agent of
// a cluster that is not accepted to works that are not being deleted, and credentials for
// those who could not use them.
func (g *Agents) Admission() []extension.AdmissionPlugin {
	factory := func(p admission.Interface) admission.Factory {
		return func(io.Reader) (admission.Interface, error) { return p, nil }
	}
	return []extension.AdmissionPlugin{
		{Name: "MusterLeavingWorks", Factory: factory(leavingWorks{g})},
		{Name: "MusterCredentials", Factory: factory(credentials{g})},
	}
}

type leavingWorks struct{ agents *Agents }

var _ admission.MutationInterface = leavingWorks{}

// Handles is part of admission.Interface.
func (leavingWorks) Handles(o admission.Operation) bool { return o == admission.Update }

// Admit changes nothing. It is a mutating plugin so that it runs before any
// other plugin can reveal what is in the stored object.
func (l leavingWorks) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if r := a.GetResource(); r.Group != work.GroupName || r.Resource != "manifestworks" {
		return nil
	}
	for _, c := range clustersOf(a.GetUserInfo()) {
		if c.Part != cluster.Agent || c.Cluster != a.GetNamespace() || l.agents.standing(c.Cluster) != Unaccepted {
			continue
		}
		old, err := meta.Accessor(a.GetOldObject())
		if err != nil || old.GetDeletionTimestamp().IsZero() {
			return admission.NewForbidden(a, errLives)
		}
	}
	return nil
}
