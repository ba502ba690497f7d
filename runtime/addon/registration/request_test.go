package registration_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
)

func TestWhichRequestsTheHubApproves(t *testing.T) {
	user := registration.User("c1", "a", "a-agent")
	own, everywhere := registration.ClusterAddOnGroup("c1", "a"), registration.AddOnGroup("a")
	for name, x := range map[string]struct {
		commonName string
		groups     []string
		change     func(*certificatesv1.CertificateSigningRequest)
		refused    string
	}{
		"as the agent makes it":          {user, []string{own, everywhere}, nil, ""},
		"groups in another order":        {user, []string{everywhere, own}, nil, ""},
		"with the group of all users":    {user, []string{own, everywhere, "system:authenticated"}, nil, ""},
		"one group":                      {user, []string{own}, nil, `lack "system:open-cluster-management:addon:a"`},
		"the other group":                {user, []string{everywhere}, nil, `lack "` + own + `"`},
		"no group":                       {user, nil, nil, "lack"},
		"another third group":            {user, []string{own, everywhere, "system:masters"}, nil, "more than the groups"},
		"four groups":                    {user, []string{own, everywhere, "system:authenticated", "x"}, nil, "more than the groups"},
		"another agent's name":           {registration.User("c1", "a", "b"), []string{own, everywhere}, nil, "common name"},
		"another cluster's name":         {registration.User("c2", "a", "a-agent"), []string{own, everywhere}, nil, "common name"},
		"another add-on's group":         {user, []string{own, registration.AddOnGroup("b")}, nil, "lack"},
		"another signer":                 {user, []string{own, everywhere}, func(r *certificatesv1.CertificateSigningRequest) { r.Spec.SignerName = "x.io/s" }, `signer is "x.io/s"`},
		"by another cluster's agent":     {user, []string{own, everywhere}, by("system:open-cluster-management:c2:agent"), "no agent of the cluster"},
		"by one whose name begins alike": {user, []string{own, everywhere}, by("system:open-cluster-management:c10:agent"), "no agent of the cluster"},
		"by a bootstrap token":           {user, []string{own, everywhere}, by("system:bootstrap:abcdef"), "no agent of the cluster"},
		"another name":                   {user, []string{own, everywhere}, func(r *certificatesv1.CertificateSigningRequest) { r.Name = "c1-x" }, "no request of an add-on"},
		"no label of the add-on": {user, []string{own, everywhere}, func(r *certificatesv1.CertificateSigningRequest) {
			delete(r.Labels, "open-cluster-management.io/addon-name")
		}, "no request of an add-on"},
		"no label of the cluster": {user, []string{own, everywhere}, func(r *certificatesv1.CertificateSigningRequest) {
			delete(r.Labels, "open-cluster-management.io/cluster-name")
		}, "no request of an add-on"},
		"another add-on's label": {user, []string{own, everywhere}, func(r *certificatesv1.CertificateSigningRequest) {
			r.Labels["open-cluster-management.io/addon-name"] = "b"
		}, `names the add-on "b"`},
		"no PEM": {user, nil, func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("x") }, "not a PEM block"},
		"no request": {user, nil, func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = []byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n")
		}, "not a certificate request"},
	} {
		t.Run(name, func(t *testing.T) {
			_, request := testkit.CertificateRequest(t, x.commonName, x.groups...)
			r := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: request, SignerName: kubeSigner, Username: "system:open-cluster-management:c1:agent",
			}}
			r.Name, r.Labels = registration.RequestPrefix("c1", "a")+"x2x4z", registration.RequestLabels("c1", "a")
			if x.change != nil {
				x.change(r)
			}
			err := registration.CheckRequest(r, "a", "a-agent")
			if (err == nil) != (x.refused == "") || err != nil && !strings.Contains(err.Error(), x.refused) {
				t.Errorf("got %v, want %q", err, x.refused)
			}
		})
	}
}

func by(user string) func(*certificatesv1.CertificateSigningRequest) {
	return func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Username = user }
}

func TestSubject(t *testing.T) {
	s := registration.Registration{User: "u", Groups: []string{"g", "h"}, OrganizationUnits: []string{"ou"}}.Subject()
	if got := s.String(); got != "CN=u,OU=ou,O=g+O=h" {
		t.Errorf("got %s", got)
	}
}

func TestMadeByAgent(t *testing.T) {
	for user, want := range map[string]bool{
		"system:open-cluster-management:c1:x":  true,
		"system:open-cluster-management:c10:x": false,
		"system:open-cluster-management:c1":    false,
		"kubernetes-admin":                     false,
	} {
		r := &certificatesv1.CertificateSigningRequest{}
		r.Spec.Username = user
		if got := registration.MadeByAgent(r, "c1"); got != want {
			t.Errorf("%s: %t", user, got)
		}
	}
}
