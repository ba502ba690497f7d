package csr

import (
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// What has been decided is never judged again, so a change of a cluster needs no look at
// it, however many there are.
func TestOnlyUndecidedRequestsAreIndexed(t *testing.T) {
	paris := map[string]string{cluster.NameLabel: "paris"}
	is := func(kind certificatesv1.RequestConditionType) []certificatesv1.CertificateSigningRequestCondition {
		return []certificatesv1.CertificateSigningRequestCondition{{Type: kind}}
	}
	for name, x := range map[string]struct {
		labels     map[string]string
		conditions []certificatesv1.CertificateSigningRequestCondition
		want       []string
	}{
		"undecided":                   {paris, nil, []string{"paris"}},
		"approved":                    {paris, is(certificatesv1.CertificateApproved), nil},
		"denied":                      {paris, is(certificatesv1.CertificateDenied), nil},
		"of no cluster":               {nil, nil, nil},
		"of a cluster without a name": {map[string]string{cluster.NameLabel: ""}, nil, nil},
	} {
		r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Labels: x.labels}}
		r.Status.Conditions = x.conditions
		if got := clusterOfUndecided(r); !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}
