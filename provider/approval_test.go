package provider

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestJudge(t *testing.T) {
	const bootstrap = "system:bootstrap:abcdef"
	bound := cluster.BoundBootstrapGroup("c1")
	for name, test := range map[string]struct {
		user   string
		groups []string
		change func(*certificatesv1.CertificateSigningRequest)
		want   verdict
	}{
		"bootstrap token":              {user: bootstrap, groups: []string{cluster.BootstrapGroup}, want: pending},
		"bound bootstrap token":        {user: bootstrap, groups: []string{bound}, want: pending},
		"token bound to another":       {user: bootstrap, groups: []string{cluster.BoundBootstrapGroup("c2")}, want: foreign},
		"token without the group":      {user: bootstrap, groups: []string{"system:bootstrappers"}, want: foreign},
		"bootstrap service account":    {user: bootstrapAccountUser, groups: []string{"system:serviceaccounts:open-cluster-management"}, want: pending},
		"grpc service account":         {user: grpcAccountUser, groups: []string{"system:serviceaccounts:open-cluster-management-hub"}, want: pending},
		"another service account":      {user: bootstrapAccountUser + "-evil", groups: []string{"system:serviceaccounts:open-cluster-management"}, want: foreign},
		"configured requester":         {user: "installer", want: pending},
		"anybody":                      {user: "mallory", want: foreign},
		"request for another cluster":  {user: bootstrap, groups: []string{cluster.BootstrapGroup}, want: ignored, change: withRequest(t, "c2")},
		"label of another cluster":     {user: bootstrap, groups: []string{cluster.BootstrapGroup}, want: ignored, change: func(r *certificatesv1.CertificateSigningRequest) { r.Labels[cluster.NameLabel] = "c2" }},
		"request of an add-on":         {user: bootstrap, groups: []string{cluster.BootstrapGroup}, want: ignored, change: func(r *certificatesv1.CertificateSigningRequest) { r.Labels[cluster.AddOnNameLabel] = "x" }},
		"another signer":               {user: bootstrap, groups: []string{cluster.BootstrapGroup}, want: ignored, change: func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "example.com/x" }},
		"rubbish instead of a request": {user: bootstrap, groups: []string{cluster.BootstrapGroup}, want: ignored, change: func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("rubbish") }},
		"approved already":             {user: "mallory", want: approved, change: withCondition(certificatesv1.CertificateApproved)},
		"denied already":               {user: bootstrap, groups: []string{cluster.BootstrapGroup}, want: denied, change: withCondition(certificatesv1.CertificateDenied)},
	} {
		t.Run(name, func(t *testing.T) {
			request := certificateRequest(t, "c1")
			request.Spec.Username, request.Spec.Groups = test.user, test.groups
			if test.change != nil {
				test.change(request)
			}
			if got := judge(request, "c1", []string{"installer"}); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func withRequest(t *testing.T, name string) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Spec.Request = certificateRequest(t, name).Spec.Request
	}
}

func withCondition(condition certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: condition}}
	}
}
