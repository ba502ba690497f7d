package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/certificates"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// asked is a certificate request of the form that agents make, with a change.
func asked(t testing.TB, of string, change func(*certificates.CertificateSigningRequest)) *certificates.CertificateSigningRequest {
	t.Helper()
	r := &certificates.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: of + "-", Labels: map[string]string{cluster.NameLabel: of}},
		Spec:       certificates.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeAPIServerClientSignerName},
	}
	_, r.Spec.Request = testkit.CertificateRequest(t, cluster.CommonName(of, "a"), cluster.Group(of), cluster.ManagedClustersGroup)
	if change != nil {
		change(r)
	}
	return r
}

// ask lets a plugin judge a request.
func ask(p certificateRequests, who user.Info, r *certificates.CertificateSigningRequest) error {
	name := r.Name
	if r.GenerateName != "" {
		name = "" // the server makes it up
	}
	return p.Validate(context.Background(), admission.NewAttributesRecord(r, nil, schema.GroupVersionKind{}, "", name,
		schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}, "", admission.Create, nil, false, who), nil)
}

func subject(t testing.TB, commonName string, organizations ...string) func(*certificates.CertificateSigningRequest) {
	return func(r *certificates.CertificateSigningRequest) {
		_, r.Spec.Request = testkit.CertificateRequest(t, commonName, organizations...)
	}
}

func TestCertificateRequestsNameTheRequestersOwnCluster(t *testing.T) {
	const paris, rome = "paris", "rome"
	agent := &user.DefaultInfo{Name: cluster.CommonName(paris, "a"), Groups: []string{cluster.Group(paris), cluster.ManagedClustersGroup, "system:authenticated"}}
	token := &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", cluster.BootstrapGroup, "system:authenticated"}}
	account := &user.DefaultInfo{Name: "system:serviceaccount:open-cluster-management:agent-registration-bootstrap", Groups: []string{"system:serviceaccounts"}}
	bound := &user.DefaultInfo{Name: "system:bootstrap:fedcba", Groups: []string{cluster.BoundBootstrapGroup(paris)}}
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters"}}
	label := func(key, value string) func(*certificates.CertificateSigningRequest) {
		return func(r *certificates.CertificateSigningRequest) { r.Labels[key] = value }
	}
	unlabelled := func(r *certificates.CertificateSigningRequest) { r.Labels = nil }
	signer := func(name string) func(*certificates.CertificateSigningRequest) {
		return func(r *certificates.CertificateSigningRequest) { r.Spec.SignerName = name }
	}
	both := func(all ...func(*certificates.CertificateSigningRequest)) func(*certificates.CertificateSigningRequest) {
		return func(r *certificates.CertificateSigningRequest) {
			for _, f := range all {
				f(r)
			}
		}
	}
	addOn := label(cluster.AddOnNameLabel, "search")
	const ofAddOn = "system:open-cluster-management:cluster:%s:addon:search"
	searching := func(of string) func(*certificates.CertificateSigningRequest) {
		group := fmt.Sprintf(ofAddOn, of)
		return both(addOn, subject(t, group+":agent:search", group, "system:open-cluster-management:addon:search", "system:authenticated"),
			func(r *certificates.CertificateSigningRequest) { r.GenerateName = "addon-" + paris + "-search-" })
	}
	for name, x := range map[string]struct {
		who     user.Info
		request *certificates.CertificateSigningRequest
		want    string // in the refusal; "" when it is let in
	}{
		"an agent renews":                              {agent, asked(t, paris, nil), ""},
		"another agent of the cluster":                 {agent, asked(t, paris, subject(t, cluster.CommonName(paris, "b"), cluster.Group(paris))), ""},
		"an agent for another cluster":                 {agent, asked(t, rome, nil), `is "rome"`},
		"an agent under another's label":               {agent, asked(t, paris, label(cluster.NameLabel, rome)), `is "rome"`},
		"an agent with another's subject":              {agent, asked(t, paris, subject(t, cluster.CommonName(rome, "a"), cluster.Group(rome))), "the subject names"},
		"an agent with another's user":                 {agent, asked(t, paris, subject(t, cluster.CommonName(rome, "a"), cluster.Group(paris))), "the subject names"},
		"an agent with another's group beside its own": {agent, asked(t, paris, subject(t, cluster.CommonName(paris, "a"), cluster.Group(paris), cluster.Group(rome))), "the subject names"},
		"an agent without a label":                     {agent, asked(t, paris, unlabelled), "the label"},
		"an agent without a label, as an add-on": {agent, asked(t, paris, both(unlabelled, func(r *certificates.CertificateSigningRequest) {
			r.Labels = map[string]string{cluster.AddOnNameLabel: "a"}
		})), "the label"},
		"an agent under another's name":               {agent, asked(t, paris, func(r *certificates.CertificateSigningRequest) { r.Name, r.GenerateName = "rome-a", "" }), `must begin with "paris-"`},
		"an agent as an administrator":                {agent, asked(t, paris, both(addOn, subject(t, "x", "system:masters"))), "the subject names"},
		"an agent as the hub's controller":            {agent, asked(t, paris, both(addOn, subject(t, "system:kube-controller-manager"))), "the subject names"},
		"an agent as all of a reserved cluster":       {agent, asked(t, paris, both(addOn, subject(t, cluster.CommonName("work", "a"), cluster.Group("work")))), "the subject names"},
		"an agent as another, without the prefix":     {agent, asked(t, paris, both(addOn, subject(t, "x", cluster.GroupWithoutPrefix(rome)))), "the subject names"},
		"an agent as another, for another signer":     {agent, asked(t, paris, both(unlabelled, signer("example.org/own"), subject(t, cluster.CommonName(rome, "a")))), "the subject names"},
		"an agent for another signer":                 {agent, asked(t, paris, both(unlabelled, signer("example.org/own"), subject(t, "me"))), ""},
		"an agent for another signer and cluster":     {agent, asked(t, paris, both(label(cluster.NameLabel, rome), signer("example.org/own"), subject(t, "me"))), `is "rome"`},
		"an agent for an add-on":                      {agent, asked(t, paris, searching(paris)), ""},
		"an agent for another's add-on":               {agent, asked(t, paris, searching(rome)), "the subject names"},
		"an agent for an add-on with its own subject": {agent, asked(t, paris, both(addOn, subject(t, "search-agent", "search"))), ""},

		"a token for any cluster":        {token, asked(t, rome, nil), ""},
		"a token without a label":        {token, asked(t, rome, unlabelled), "is missing"},
		"a token with another label":     {token, asked(t, rome, label(cluster.NameLabel, paris)), "the organizations are"},
		"a token as an add-on":           {token, asked(t, rome, addOn), "add-ons' requests"},
		"a token for a reserved cluster": {token, asked(t, "work", nil), "no managed cluster can be called"},
		"a token for all agents":         {token, asked(t, "managed-clusters", nil), "no managed cluster can be called"},
		"a token under another's name":   {token, asked(t, rome, func(r *certificates.CertificateSigningRequest) { r.GenerateName = "paris-" }), `must begin with "rome-"`},
		"a token for another signer":     {token, asked(t, rome, signer("example.org/own")), "the signer is"},
		"a token for no agent":           {token, asked(t, rome, both(unlabelled, subject(t, "alice"))), "is missing"},
		"the account for any cluster":    {account, asked(t, rome, nil), ""},
		"the account without a label":    {account, asked(t, rome, unlabelled), "is missing"},
		"the account in other letters":   {account, asked(t, "Rome", nil), "not a cluster's name"},
		"a bound token for its cluster":  {bound, asked(t, paris, nil), ""},
		"a bound token for another":      {bound, asked(t, rome, nil), `bound to the cluster "paris"`},
		"a bound token as an add-on":     {bound, asked(t, paris, addOn), "add-ons' requests"},
		"an administrator for any name":  {admin, asked(t, rome, both(unlabelled, subject(t, "alice"))), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask(newCertificateRequests(), x.who, x.request)
			switch {
			case x.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Errorf("got %v, want a refusal with %q", err, x.want)
			}
			if err != nil {
				mustExplain(t, err)
			}
		})
	}
}

func TestBootstrapIdentitiesLeaveRoomForOthersRequests(t *testing.T) {
	by := func(id string) *user.DefaultInfo {
		return &user.DefaultInfo{Name: "system:bootstrap:" + id, Groups: []string{cluster.BootstrapGroup}}
	}
	p, n := newCertificateRequests(), 0
	send := func(who user.Info, of string) error {
		r := asked(t, of, nil)
		n++
		r.Name = fmt.Sprintf("%s-%d", of, n)
		return ask(p, who, r)
	}
	for i := range 5 {
		if err := send(by("aaaaaa"), "paris"); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if err := send(by("aaaaaa"), "paris"); err == nil || !strings.Contains(err.Error(), "kubectl delete csr -l") {
		t.Errorf("got %v, want a refusal that says what to do", err)
	}
	if err := send(by("aaaaaa"), "rome"); err != nil {
		t.Errorf("another cluster is in the way: %v", err)
	}
	for range 3 {
		if err := send(by("bbbbbb"), "paris"); err != nil {
			t.Errorf("one token is in the way of another: %v", err)
		}
	}
	if err := send(by("cccccc"), "paris"); err == nil {
		t.Error("together they have more than is left of what an agent counts")
	}
	bound := &user.DefaultInfo{Name: "system:bootstrap:dddddd", Groups: []string{cluster.BoundBootstrapGroup("paris")}}
	agent := &user.DefaultInfo{Name: cluster.CommonName("paris", "a"), Groups: []string{cluster.Group("paris")}}
	for _, who := range []user.Info{bound, agent} {
		if err := send(who, "paris"); err != nil {
			t.Errorf("%s is kept from its own cluster: %v", who.GetName(), err)
		}
	}

	// What is in the cache counts as well, and once.
	there := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "paris-1", Labels: map[string]string{cluster.NameLabel: "paris"}},
		Spec:       certificatesv1.CertificateSigningRequestSpec{Username: "system:bootstrap:aaaaaa", Groups: []string{cluster.BootstrapGroup}},
	}
	p, n = newCertificateRequests(there), 1
	for i := range 4 {
		if err := send(by("aaaaaa"), "paris"); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	if err := send(by("aaaaaa"), "paris"); err == nil {
		t.Error("what is in the cache does not count")
	}
}
