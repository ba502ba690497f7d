package registration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/certificate"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/identity"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// renewals renews the certificate in good time, when the stored one was lost or
// changed, and when the hub's administrators ask for it.
func (s *session) renewals(ctx context.Context) {
	requester := s.requester(s.identity().Names, func(level slog.Level, what string, args ...any) { s.Log.Log(ctx, level, what, args...) })
	requester.Renewing = true
	requester.Halted = func() { s.reportCertificate(metav1.ConditionFalse, cluster.MessageTooManyRequests) }
	due, answered := s.renewAt(), ""
	loop.Run(ctx, s.Clock, s.stored, due.Sub(s.Clock.Now()), func(ctx context.Context) time.Duration {
		asked := s.renewalAsked()
		if asked != answered && asked != "" {
			s.Log.Info("the hub's administrators ask for another certificate", "request", asked)
			s.renew(ctx, requester)
			answered = asked
		} else if !s.Clock.Now().Before(due) || s.adoptStored(ctx) || s.outdated.Swap(false) {
			s.renew(ctx, requester)
		}
		if asked != "" {
			s.answerRenewal(ctx, answered)
		}
		due = s.renewAt()
		return due.Sub(s.Clock.Now())
	})
}

func (s *session) renewAt() time.Time {
	id := s.identity()
	notBefore, notAfter, err := id.Validity()
	if err != nil || !id.HasSubject() {
		return s.Clock.Now()
	}
	return certificate.RenewAt(notBefore, notAfter, s.chance())
}

// adoptStored looks at the stored identity after a change. One that is not the
// agent's but can be used takes its place, as after a restored backup; an
// unusable one has to be replaced, so that the next start finds one.
func (s *session) adoptStored(ctx context.Context) (renew bool) {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s.changing.Lock()
	defer s.changing.Unlock()
	// The mirror may lag behind what this agent has just stored.
	stored, err := s.store.Load(bounded)
	if err != nil {
		return false
	}
	mine := s.identity()
	if stored.Equal(mine) {
		return false
	}
	if err := stored.Check(mine.Names, &mine.Hub, s.Clock.Now()); err != nil {
		s.Log.Warn("the stored identity was changed, replacing it", "because", err)
		return true
	}
	s.Log.Info("the stored identity was changed, going over to it")
	if !stored.Hub.Equal(mine.Hub) {
		s.end(errMoved)
		return false
	}
	return s.use(stored) != nil
}

// renew gets another certificate and tries until it has one, or ctx ends.
func (s *session) renew(ctx context.Context, requester *certificate.Requester) {
	_ = retry.Until(ctx, s.Clock, retry.Restart(time.Minute), func(ctx context.Context) error {
		err := s.tryRenew(ctx, requester)
		switch {
		case err == nil || ctx.Err() != nil:
		case apierrors.IsUnauthorized(err) && s.storedIsUseless(ctx):
			s.end(fmt.Errorf("the stored identity is gone and the hub does not know the agent's certificate: %w", err))
		default:
			s.reportRenewalError(err)
		}
		return err
	})
}

func (s *session) tryRenew(ctx context.Context, requester *certificate.Requester) error {
	certPEM, keyPEM, err := requester.Obtain(ctx, s.hub)
	if err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	id := s.identity()
	id.CertPEM, id.KeyPEM = certPEM, keyPEM
	if err := id.Check(id.Names, nil, s.Clock.Now()); err != nil {
		return fmt.Errorf("the hub signed a certificate that cannot be used: %w", err)
	}
	if !id.HasSubject() {
		return errors.New("the hub signed a certificate for other groups than were asked for: see to the hub's signer")
	}
	if err := s.save(ctx, id); err != nil {
		return err
	}
	if err := s.use(id); err != nil {
		return err
	}
	notBefore, notAfter, err := id.Validity()
	if err != nil {
		return err
	}
	s.Log.Info("the agent's certificate was renewed", "until", notAfter)
	s.reportCertificate(metav1.ConditionTrue, fmt.Sprintf(cluster.FormatClientCertificateUpdated, notBefore, notAfter))
	return nil
}

// use goes over to an identity of the same agent. One at another endpoint of the
// hub takes another session.
func (s *session) use(id identity.Identity) error {
	if !bytes.Equal(id.CertPEM, s.identity().CertPEM) {
		if err := s.credentials.Renew(id); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.id = id
	s.mu.Unlock()
	s.noteExpiry(id)
	s.publish(id)
	s.changed.Set()
	if f := s.follower.Load(); f != nil {
		f.news.Set()
	}
	return nil
}

func (s *session) storedIsUseless(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stored, err := s.store.Load(bounded)
	return err == nil && stored.Check(s.identity().Names, nil, s.Clock.Now()) != nil
}

func (s *session) reportRenewalError(err error) {
	if apierrors.IsForbidden(err) {
		// A denied or deleted cluster can't renew, nor report it.
		s.Log.Debug("the hub does not let the agent renew its certificate, trying again", "err", err)
		return
	}
	s.Log.Warn("cannot renew the agent's certificate, trying again", "err", err)
	format := cluster.FormatClientCertificateUpdateFailed
	if errors.Is(err, certificate.ErrCreate) {
		format = cluster.FormatCreateRequestFailed
	}
	s.reportCertificate(metav1.ConditionFalse, fmt.Sprintf(format, err))
}

func (s *session) reportCertificate(status metav1.ConditionStatus, message string) {
	reason := cluster.ReasonClientCertificateUpdated
	if status != metav1.ConditionTrue {
		reason = cluster.ReasonClientCertificateUpdateFailed
	}
	s.status.Report(metav1.Condition{Type: cluster.ConditionCertificateRotated, Status: status, Reason: reason, Message: message})
}

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
