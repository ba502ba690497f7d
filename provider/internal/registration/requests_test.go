package registration

import (
	"errors"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
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
			request := NewRequest(t, "c1")
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
		r.Spec.Request = NewRequest(t, name).Spec.Request
	}
}

func withCondition(condition certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: condition}}
	}
}

func TestExactlyOneRequestIsChosen(t *testing.T) {
	by := func(name, user string) certificatesv1.CertificateSigningRequest {
		r := NewRequest(t, "c1")
		r.Name, r.Spec.Username, r.Spec.Groups = name, user, []string{cluster.BootstrapGroup}
		return *r
	}
	mine, same := by("mine", "system:bootstrap:abcdef"), by("same", "system:bootstrap:abcdef")
	same.Spec.Request = mine.Spec.Request
	otherKey, otherUser := by("other-key", "system:bootstrap:abcdef"), by("other-user", "system:bootstrap:ghijkl")
	otherUser.Spec.Request = mine.Spec.Request
	foreign := by("foreign", "mallory")
	done := by("done", "system:bootstrap:abcdef")
	withCondition(certificatesv1.CertificateApproved)(&done)
	for name, x := range map[string]struct {
		requests []certificatesv1.CertificateSigningRequest
		only     string
		want     string
		done     bool
		listed   []string // of the error
	}{
		"none":                      {},
		"one":                       {requests: []certificatesv1.CertificateSigningRequest{mine}, want: "mine"},
		"one, beside a stranger's":  {requests: []certificatesv1.CertificateSigningRequest{foreign, mine}, want: "mine"},
		"the same one twice":        {requests: []certificatesv1.CertificateSigningRequest{mine, same}, want: "mine"},
		"two keys":                  {requests: []certificatesv1.CertificateSigningRequest{mine, otherKey}, listed: []string{"mine", "other-key"}},
		"two requesters":            {requests: []certificatesv1.CertificateSigningRequest{mine, otherUser}, listed: []string{"abcdef", "ghijkl"}},
		"two keys, one of them set": {requests: []certificatesv1.CertificateSigningRequest{mine, otherKey}, only: "other-key", want: "other-key"},
		"a stranger's is set":       {requests: []certificatesv1.CertificateSigningRequest{mine, foreign}, only: "foreign"},
		"one is approved already":   {requests: []certificatesv1.CertificateSigningRequest{done, mine}, done: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, done, err := chosen(x.requests, "c1", nil, x.only, time.Now())
			var several severalRequestsError
			if errors.As(err, &several) != (x.listed != nil) || done != x.done {
				t.Fatalf("got done %t, error %v", done, err)
			}
			for _, words := range x.listed {
				if !strings.Contains(attribute.JoinLines(several), words) {
					t.Errorf("%q is not in %v", words, several)
				}
			}
			name := ""
			if got != nil {
				name = got.Name
			}
			if name != x.want {
				t.Errorf("got %q, want %q", name, x.want)
			}
		})
	}
}
