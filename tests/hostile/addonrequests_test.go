package hostile

import (
	"context"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// An agent asks for what the registrations of its add-ons say, and for nothing else:
// who approves by the label would make it anybody.
func TestAgentsAskOnlyForWhatIsRegistered(t *testing.T) {
	ctx := context.Background()
	const name, custom = "addon-registered", "example.org/custom"
	agent := testfleet.Client(t, hub.Joined(t, name, "a"))
	a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "x"}}
	testkit.Must(t, hub.admin(t).Create(ctx, a))
	registered := func(registrations string) {
		testkit.Must(t, hub.admin(t).Status().Patch(ctx, a, mergePatchf(`{"status":{"registrations":[%s]}}`, registrations)))
	}
	send := func(signer string, subject pkix.Name) error {
		_, pem := testkit.CertificateRequestFor(t, subject)
		return agent.Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: registration.RequestPrefix(name, "x"), Labels: registration.RequestLabels(name, "x")},
			Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: pem, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}},
		})
	}
	own := pkix.Name{CommonName: registration.User(name, "x", "x"), Organization: registration.Groups(name, "x")}
	admins := pkix.Name{CommonName: "admin", Organization: []string{"tenant-admins"}}
	signed := pkix.Name{CommonName: "proxy", Organization: []string{"g"}, OrganizationalUnit: []string{"u"}}
	refused(t, "an agent asks before there is a registration", send(addon.KubeClientSigner, own))

	registered(fmt.Sprintf(`{"signerName":%q},{"signerName":%q,"subject":{"user":"proxy","groups":["g"],"organizationUnit":["u"]}}`, addon.KubeClientSigner, custom))
	testkit.Must(t, send(addon.KubeClientSigner, own))
	testkit.Must(t, send(addon.KubeClientSigner, pkix.Name{CommonName: registration.User(name, "x", "spoke-agent"), Organization: append(registration.Groups(name, "x"), registration.Authenticated)}))
	testkit.Must(t, send(custom, signed))
	for what, x := range map[string]struct {
		signer  string
		subject pkix.Name
	}{
		"as an administrator of a tenant":   {addon.KubeClientSigner, admins},
		"as one, of the custom signer":      {custom, admins},
		"of a signer that is not there":     {"example.org/other", signed},
		"with the custom signer's subject":  {addon.KubeClientSigner, signed},
		"with a group more":                 {addon.KubeClientSigner, pkix.Name{CommonName: own.CommonName, Organization: append(registration.Groups(name, "x"), "tenant-admins")}},
		"with a unit more":                  {custom, pkix.Name{CommonName: "proxy", Organization: []string{"g"}, OrganizationalUnit: []string{"u", "admins"}}},
		"with the UID of somebody":          {addon.KubeClientSigner, pkix.Name{CommonName: own.CommonName, Organization: own.Organization, ExtraNames: []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "0"}}}},
		"as another add-on":                 {addon.KubeClientSigner, pkix.Name{CommonName: registration.User(name, "y", "y"), Organization: registration.Groups(name, "y")}},
		"as all of another add-on's agents": {addon.KubeClientSigner, pkix.Name{CommonName: own.CommonName, Organization: append(registration.Groups(name, "x"), registration.AddOnGroup("y"))}},
		"as the agent itself":               {addon.KubeClientSigner, pkix.Name{CommonName: cluster.CommonName(name, "a"), Organization: []string{cluster.Group(name)}}},
	} {
		refusedFor(t, "an agent asks "+what, send(x.signer, x.subject), "is an agent of")
	}
	r, _ := testfleet.CertificateRequest(t, name, "a")
	r.Spec.SignerName, r.Labels = "example.org/own", nil
	refused(t, "an agent asks another signer for itself", agent.Create(ctx, r))

	// Even what a manager has registered has to name the cluster, to be the hub's to take.
	registered(fmt.Sprintf(`{"signerName":%q,"subject":{"user":"admin","groups":["tenant-admins"]}}`, addon.KubeClientSigner))
	refusedFor(t, "an add-on's agent that does not name its cluster", send(addon.KubeClientSigner, admins), "does not name the cluster")
	registered(fmt.Sprintf(`{"signerName":%q,"subject":{"user":"x-agent","groups":["x-agents",%q]}}`, addon.KubeClientSigner, registration.ClusterAddOnGroup(name, "x")))
	testkit.Must(t, send(addon.KubeClientSigner, pkix.Name{CommonName: "x-agent", Organization: []string{"x-agents", registration.ClusterAddOnGroup(name, "x")}}))
}

// Who asks what one may do learns what the request would get.
func TestCanISaysWhatARequestGets(t *testing.T) {
	ctx, admin := context.Background(), hub.admin(t)
	const name = "can-i"
	all := belongings(t, name)
	w := newWork(t, name, "w", &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}})
	w.Finalizers = []string{"example.org/held"}
	testkit.Must(t, admin.Create(ctx, w))
	agree := func(when string) {
		t.Helper()
		for _, who := range []string{"agent", "add-on's certificate", "service account"} {
			c, k := testfleet.Client(t, all[who]), testfleet.Clientset(t, all[who])
			for what, x := range map[string]struct {
				ask authorizationv1.ResourceAttributes
				do  func() error
			}{
				"list works": {authorizationv1.ResourceAttributes{Verb: "list", Group: workv1.GroupVersion.Group, Resource: "manifestworks", Namespace: name},
					func() error { return c.List(ctx, &workv1.ManifestWorkList{}, client.InNamespace(name)) }},
				"get a work": {authorizationv1.ResourceAttributes{Verb: "get", Group: workv1.GroupVersion.Group, Resource: "manifestworks", Namespace: name, Name: "w"},
					func() error { return c.Get(ctx, client.ObjectKeyFromObject(w), &workv1.ManifestWork{}) }},
				"list secrets": {authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets", Namespace: name},
					func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace(name)) }},
				"get itself": {authorizationv1.ResourceAttributes{Verb: "get", Group: cluster.GroupName, Resource: "managedclusters", Name: name},
					func() error { return c.Get(ctx, client.ObjectKey{Name: name}, clusterNamed(name, false)) }},
			} {
				review, err := k.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &x.ask},
				}, metav1.CreateOptions{})
				testkit.Must(t, err)
				if err := x.do(); review.Status.Allowed != (err == nil) {
					t.Errorf("%s, %s: can-i %s says %v (%s), and the request gets %v", who, when, what, review.Status.Allowed, review.Status.Reason, err)
				}
			}
		}
	}
	agree("accepted")
	testkit.Must(t, admin.Patch(ctx, clusterNamed(name, false), mergePatchf(`{"spec":{"hubAcceptsClient":false}}`)))
	hasNothing(t, "the agent", all["agent"])
	agree("denied")
	testkit.Must(t, admin.Delete(ctx, w))
	denied := testfleet.Client(t, all["agent"])
	testkit.Eventually(t, func() error {
		return denied.Get(ctx, client.ObjectKeyFromObject(w), &workv1.ManifestWork{})
	})
	agree("denied, with a work that is being deleted")
	testkit.Must(t, admin.Patch(ctx, w, mergePatchf(`{"metadata":{"finalizers":null}}`)))
	testkit.Must(t, admin.Patch(ctx, clusterNamed(name, false), mergePatchf(`{"spec":{"hubAcceptsClient":true}}`)))
	testkit.Eventually(t, func() error { return testfleet.Client(t, all["agent"]).List(ctx, &corev1.SecretList{}) })
	takenOver(t, name)
	hasNothing(t, "the former agent", all["agent"])
	agree("replaced")
}
