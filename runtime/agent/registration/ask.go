package registration

import (
	"context"
	"time"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// followRenewalRequests wakes renewals when the hub's administrators ask for
// another certificate, by an annotation of the ManagedCluster. Other changes of
// it do not wake them: each look reads the stored identity.
func (s *session) followRenewalRequests(ctx context.Context) {
	loop.Run(ctx, s.Clock, s.clusters.Subscribe(), loop.Never, func(context.Context) time.Duration {
		if s.renewalAsked() != "" {
			s.stored.Set()
		}
		return loop.Never
	})
}

// renewalAsked is the request for another certificate, or empty.
func (s *session) renewalAsked() string {
	mc, ok := s.clusters.Get(s.ClusterName)
	if !ok {
		return ""
	}
	return mc.Annotations[cluster.RenewCertificateAnnotation]
}

// answerRenewal removes the request, unless it is another one by now. When it
// can't, the next change of the ManagedCluster leads here again.
func (s *session) answerRenewal(ctx context.Context, answered string) {
	mc, ok := s.clusters.Get(s.ClusterName)
	if !ok || mc.Annotations[cluster.RenewCertificateAnnotation] != answered {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	mc = mc.DeepCopy() // its resource version keeps others' changes
	delete(mc.Annotations, cluster.RenewCertificateAnnotation)
	if err := s.hub.Update(ctx, mc); err != nil {
		s.Log.Debug("cannot remove the request for another certificate, trying again", "err", err)
	}
}
