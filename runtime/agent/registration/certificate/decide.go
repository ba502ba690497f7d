package certificate

import (
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// step is what to do next about a certificate.
type step int

const (
	// makeRequest: there is no request of ours, or none any longer.
	makeRequest step = iota
	// awaitRoom: the hub holds so many of the cluster's requests that another
	// one would only add to a flood.
	awaitRoom
	// awaitApproval: our request is not approved or denied yet.
	awaitApproval
	// awaitSignature: our request is approved; the hub has yet to sign.
	awaitSignature
	// awaitRemoval: our request was denied, or its signing failed. It stays
	// without effect until the hub removes it.
	awaitRemoval
	// take: the certificate is there.
	take
)

// next decides by the cluster's requests on the hub. mine is the name of the
// request whose key we have; "" when there is none. commonName is the agent's
// user name, renewing whether it comes to the hub under it.
//
// Requests that others made do not count. If they did, anyone who can make ten
// could keep the agent from renewing its certificate.
func next(requests []*certificatesv1.CertificateSigningRequest, commonName string, renewing bool, mine string) (step, *certificatesv1.CertificateSigningRequest) {
	var own *certificatesv1.CertificateSigningRequest
	count := 0
	for _, r := range requests {
		if _, addon := r.Labels[cluster.AddOnNameLabel]; addon {
			continue
		}
		if madeBy(r, commonName, renewing) {
			count++
		}
		if mine != "" && r.Name == mine {
			own = r
		}
	}
	if own == nil {
		if count >= cluster.MaxPendingRequests {
			return awaitRoom, nil
		}
		return makeRequest, nil
	}
	switch {
	case Has(own, certificatesv1.CertificateDenied), Has(own, certificatesv1.CertificateFailed):
		return awaitRemoval, own
	case !Has(own, certificatesv1.CertificateApproved):
		return awaitApproval, own
	case len(own.Status.Certificate) == 0:
		return awaitSignature, own
	}
	return take, own
}

// madeBy reports whether the agent made a request. What came under its own name is
// its own; before it has a name on the hub, what asks for its name.
func madeBy(r *certificatesv1.CertificateSigningRequest, commonName string, renewing bool) bool {
	if r.Spec.Username == commonName {
		return true
	}
	if renewing || strings.HasPrefix(r.Spec.Username, cluster.UserPrefix) {
		return false
	}
	identity, err := cluster.ParseRequest(r.Labels, r.Spec.SignerName, r.Spec.Request)
	return err == nil && identity.CommonName == commonName
}

// Has reports whether a condition of a request is true.
func Has(r *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) bool {
	return explanation(r, condition) != nil
}

func explanation(r *certificatesv1.CertificateSigningRequest, condition certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	for i, c := range r.Status.Conditions {
		// Conditions from before there was a status in them have none.
		if c.Type == condition && (c.Status == corev1.ConditionTrue || c.Status == "") {
			return &r.Status.Conditions[i]
		}
	}
	return nil
}
