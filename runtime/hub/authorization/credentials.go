package authorization

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/apis/certificates"

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

// credentials refuses to issue certificates and tokens that would be worth nothing, or
// that somebody has asked for who has lost the right to it since. Whoever approves and
// signs, such as an add-on's own manager, need not know who is an agent of its cluster.
type credentials struct{ agents *Agents }

var _ admission.ValidationInterface = credentials{}

// Handles is part of admission.Interface.
func (credentials) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Update
}

// Validate checks approvals and certificates of certificate requests, and token requests.
func (p credentials) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	switch a.GetResource().GroupResource() {
	case certificatesv1.Resource("certificatesigningrequests"):
		return p.checkRequest(ctx, a)
	case corev1.Resource("serviceaccounts"):
		if a.GetSubresource() == "token" && p.agents.turnsOver(a.GetNamespace()) {
			return apierrors.NewTooManyRequests(fmt.Sprintf("another agent has just taken over the managed cluster %q, "+
				"and a token from now would count as one of its former agent: try again in a second", a.GetNamespace()), 1)
		}
	}
	return nil
}

// checkRequest refuses to approve or sign a request whose maker could not make it now.
func (p credentials) checkRequest(ctx context.Context, a admission.Attributes) error {
	now, ok := a.GetObject().(*certificates.CertificateSigningRequest)
	before, had := a.GetOldObject().(*certificates.CertificateSigningRequest)
	if !ok || !had {
		return nil
	}
	approved := !isApproved(before) && isApproved(now)
	signed := len(before.Status.Certificate) == 0 && len(now.Status.Certificate) > 0
	if !approved && !signed {
		return nil
	}
	extra := map[string][]string{}
	for k, v := range now.Spec.Extra {
		extra[k] = v
	}
	maker := &user.DefaultInfo{Name: now.Spec.Username, UID: now.Spec.UID, Groups: now.Spec.Groups, Extra: extra}
	decision, reason, err := p.agents.authorize(ctx, authorizer.AttributesRecord{
		User: maker, ResourceRequest: true,
		Verb: "create", APIGroup: certificatesv1.GroupName, Resource: "certificatesigningrequests",
	})
	switch {
	case err != nil:
		return admission.NewForbidden(a, err)
	case decision == authorizer.DecisionDeny:
		return admission.NewForbidden(a,
			fmt.Errorf("user %q, who made the request, has lost the right to it: %s", maker.Name, reason))
	case signed && now.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName:
		if err := p.agents.checkCertificate(now.Status.Certificate); err != nil {
			return admission.NewForbidden(a, err)
		}
	}
	return nil
}

func isApproved(r *certificates.CertificateSigningRequest) bool {
	for _, c := range r.Status.Conditions {
		if c.Type == certificates.CertificateApproved {
			return true
		}
	}
	return false
}

// checkCertificate refuses a certificate that would be void from the start: for a second
// after a deletion, an agent's would count as one of the earlier cluster of the name, and
// for a second after a take-over, an add-on's as one of the former agent. The signer tries
// again.
func (g *Agents) checkCertificate(certificate []byte) error {
	block, _ := pem.Decode(certificate)
	if block == nil {
		return errors.New("the certificate is not a PEM block")
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("the certificate cannot be read: %w", err)
	}
	subject := &user.DefaultInfo{Name: parsed.Subject.CommonName, Groups: parsed.Subject.Organization}
	holder := extension.WithIssue(subject, parsed)
	g.mu.RLock()
	defer g.mu.RUnlock()
	for _, b := range clustersOf(holder) {
		if !g.counts(b) {
			continue
		}
		why := g.ofEarlier(b, holder)
		if b.Part == cluster.Member { // which agent is the current one may not be known here yet
			why = g.void(b, holder)
		}
		if why != "" {
			return fmt.Errorf("the certificate is valid from %s, and would count as issued at %s: %s: sign the request again",
				parsed.NotBefore.UTC().Format(time.RFC3339),
				cluster.IssuedAt(parsed.NotBefore).UTC().Format(time.RFC3339), why)
		}
	}
	return nil
}

// turnsOver reports whether a token for a service account of a namespace would be void,
// as the namespace's cluster has got another agent a moment ago. Tokens have the time of
// the machine.
func (g *Agents) turnsOver(namespace string) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	until, isClusters := g.namespaces[namespace]
	now := time.Now().Truncate(time.Second)
	return isClusters && (!now.After(until) || !now.After(g.clusters[namespace].void))
}
