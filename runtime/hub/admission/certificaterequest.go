package admission

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// certificateRequests limits agents and bootstrap identities to certificate
// requests for their own clusters, so that nobody's requests get in the way of
// another cluster.
type certificateRequests struct{ *requestLimits }

var (
	_ admission.ValidationInterface                = certificateRequests{}
	_ initializer.WantsExternalKubeInformerFactory = certificateRequests{}
)

func (certificateRequests) Handles(op admission.Operation) bool { return op == admission.Create }

// Validate checks the certificate requests of agents and bootstrap identities.
// Requests of other users are not checked.
func (p certificateRequests) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if !concerns(a, certificatesv1.GroupName, "certificatesigningrequests") {
		return nil
	}
	request, ok := a.GetObject().(*certificates.CertificateSigningRequest)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected a CertificateSigningRequest, got %T", a.GetObject()))
	}
	who := a.GetUserInfo()
	// A request with a name ignores its prefix for generated names.
	err := checkRequest(who, request, cmp.Or(a.GetName(), request.GenerateName))
	if err == nil {
		err = p.room(who, request, a.IsDryRun())
	}
	if err != nil {
		return apierrors.NewForbidden(a.GetResource().GroupResource(), request.Name, err)
	}
	return nil
}

// checkRequest explains why a user may not make a certificate request. name is
// the name of the request, or its prefix.
func checkRequest(who user.Info, r *certificates.CertificateSigningRequest, name string) error {
	bound, agent := cluster.BoundClusters(who.GetGroups()), cluster.AgentClusters(who.GetGroups())
	switch {
	case len(bound) > 0:
		identity, err := checkFirst(r, name)
		if err == nil && !slices.Contains(bound, identity.Cluster) {
			err = fmt.Errorf("the request is for the cluster %q", identity.Cluster)
		}
		if err != nil {
			return fmt.Errorf("the bootstrap token of user %q is bound to %s: %w", who.GetName(), namesOf(bound), err)
		}
	case len(agent) > 0:
		if err := checkAgents(agent, r, name); err != nil {
			return fmt.Errorf("user %q is an agent of %s and asks for certificates of no other: %w", who.GetName(), namesOf(agent), err)
		}
	case isBootstrap(who) && (r.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName || r.Labels[cluster.NameLabel] != ""):
		if _, err := checkFirst(r, name); err != nil {
			return fmt.Errorf("user %q asks for certificates of agents only: %w", who.GetName(), err)
		}
	}
	return nil
}

// isBootstrap reports whether a user registers clusters: a bootstrap token, or
// the bootstrap service account.
func isBootstrap(who user.Info) bool {
	return cluster.IsBootstrap(who.GetName(), who.GetGroups())
}

// checkFirst checks the first request of an agent, which a bootstrap identity
// makes.
func checkFirst(r *certificates.CertificateSigningRequest, name string) (cluster.RequestIdentity, error) {
	identity, err := cluster.ParseRequest(r.Labels, r.Spec.SignerName, r.Spec.Request)
	switch _, addOn := r.Labels[cluster.AddOnNameLabel]; {
	case err != nil:
		return identity, err
	case addOn:
		return identity, fmt.Errorf("the label %s is that of add-ons' requests, which agents make", cluster.AddOnNameLabel)
	}
	return identity, checkName(name, identity.Cluster)
}

// generatedPrefix is how many characters of a prefix remain in a generated
// name.
const generatedPrefix = 58

// checkName checks that the name of a request shows its cluster, as
// administrators decide by the name.
func checkName(name, of string) error {
	prefix := of + "-"
	if !strings.HasPrefix(name, prefix[:min(len(prefix), generatedPrefix)]) {
		return fmt.Errorf("the request's name must begin with %q", prefix)
	}
	return nil
}

// checkAgents checks a request that an agent makes for itself or for an add-on
// of its clusters.
func checkAgents(own []string, r *certificates.CertificateSigningRequest, name string) error {
	of, labelled := r.Labels[cluster.NameLabel]
	if labelled && !slices.Contains(own, of) {
		return fmt.Errorf("the label %s is %q", cluster.NameLabel, of)
	}
	if err := checkSubject(own, r.Spec.Request); err != nil {
		return err
	}
	if r.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	if _, addOn := r.Labels[cluster.AddOnNameLabel]; addOn && labelled {
		return nil // whose subject the add-on chooses
	}
	identity, err := cluster.ParseRequest(r.Labels, r.Spec.SignerName, r.Spec.Request)
	if err != nil {
		return err
	}
	return checkName(name, identity.Cluster)
}

// checkSubject refuses a subject that names anything but the agent's own
// clusters and their add-ons.
func checkSubject(own []string, request []byte) error {
	block, _ := pem.Decode(request)
	if block == nil {
		return errors.New("the request is not a PEM block")
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("the request is not a certificate request: %w", err)
	}
	for _, name := range append(slices.Clone(parsed.Subject.Organization), parsed.Subject.CommonName) {
		if !mayName(own, name) {
			return fmt.Errorf("the subject names %q", name)
		}
	}
	return nil
}

// mayName reports whether agents of the clusters own may ask for a certificate
// with a user or group of this name.
func mayName(own []string, name string) bool {
	rest, ok := strings.CutPrefix(name, cluster.UserPrefix)
	if !ok {
		rest, ok = strings.CutPrefix(name, strings.TrimPrefix(cluster.UserPrefix, "system:"))
	}
	if !ok {
		// Certificates of add-ons contain the group of all authenticated users.
		return !strings.HasPrefix(name, "system:") || name == user.AllAuthenticated
	}
	parts := strings.Split(rest, ":")
	switch {
	case slices.Contains(own, parts[0]), name == cluster.ManagedClustersGroup:
		return true
	case len(parts) == 1:
		return false
	case parts[0] == "cluster": // cluster:<name>:addon:<name>[:agent:<name>]
		return slices.Contains(own, parts[1])
	}
	return parts[0] == "addon" // addon:<name>
}
