package hostile

import (
	"context"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// An agent asks for certificates of its own cluster's add-ons, and can't even make
// requests that say more: others would have to see through them.
func TestAgentsAskForNoOtherAddOnsCertificates(t *testing.T) {
	ctx := context.Background()
	const name, other = "addon-requests", "addon-requests-other"
	agent := testfleet.Client(t, hub.Joined(t, name, "a"))
	hub.Joined(t, other, "a")
	for what, x := range map[string]struct {
		of, user string
		groups   []string
	}{
		"for another cluster's add-on":              {other, registration.User(other, "x", "x-agent"), registration.Groups(other, "x")},
		"of its own add-on as another cluster's":    {name, registration.User(other, "x", "x-agent"), registration.Groups(name, "x")},
		"of its own add-on with the other's group":  {name, registration.User(name, "x", "x-agent"), registration.Groups(other, "x")},
		"of its own add-on as an administrator":     {name, registration.User(name, "x", "x-agent"), append(registration.Groups(name, "x"), "system:masters")},
		"of its own add-on as the add-on manager":   {name, addon.ManagerUser, []string{addon.ManagerGroup, addon.ManagerUsualGroup}},
		"of its own add-on as the manager's groups": {name, registration.User(name, "x", "x-agent"), append(registration.Groups(name, "x"), addon.ManagerUsualGroup)},
	} {
		for _, signer := range []string{certificatesv1.KubeAPIServerClientSignerName, "example.org/signer"} {
			_, pem := testkit.CertificateRequest(t, x.user, x.groups...)
			refused(t, "an agent makes a request "+what, agent.Create(ctx, &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{GenerateName: registration.RequestPrefix(x.of, "x"), Labels: registration.RequestLabels(x.of, "x")},
				Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: pem, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}},
			}))
		}
	}
}

// The service account that the hub acts as for templates has no rights of its own, for
// somebody who gets hold of its token.
func TestTheTokenOfTheAddOnManagerIsWorthNothing(t *testing.T) {
	ctx := context.Background()
	manager := testfleet.Client(t, hub.Tenant(t, cluster.HubNamespace, addon.ManagerServiceAccount))
	meta := metav1.ObjectMeta{Namespace: cluster.HubNamespace, Name: "stolen"}
	refused(t, "the add-on manager binds a role", manager.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "mallory"}},
	}))
	refused(t, "the add-on manager writes a config map", manager.Create(ctx, &corev1.ConfigMap{ObjectMeta: meta}))
	refused(t, "the add-on manager reads Secrets", manager.List(ctx, &corev1.SecretList{}))
	refused(t, "the add-on manager reads certificate requests", manager.List(ctx, &certificatesv1.CertificateSigningRequestList{}))
}
