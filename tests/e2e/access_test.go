package e2e

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	apimuster "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// letIn lets a user of the hub into the cluster by a certificate that the cluster
// itself signs, and asks it what the user may do.
func letIn(t *testing.T, hub, managed side, name string) {
	t.Helper()
	const tenant, user = "team-a", "jo@example.com"
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}},
		&clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "global"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "global"},
		},
		&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "all"}},
		&v1alpha1.AccessRole{ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"},
		}}},
		&v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "prod"}, Spec: v1alpha1.LogicalCloudSpec{
			Placements: []v1alpha1.PlacementReference{{Name: "all"}}, Namespace: v1alpha1.CloudNamespace{Name: "team-a-prod"},
			Grants: []v1alpha1.Grant{{Role: "reader", Users: []string{user}}},
		}},
	} {
		create(t, hub, o)
	}
	info := &corev1.ConfigMap{}
	testkit.Must(t, hub.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}, info))
	keys, err := useraccess.NewKeys()
	testkit.Must(t, err)
	csr, err := access.NewRequest(keys.Certificate, info.Data[hubinfo.HubIDKey], user)
	testkit.Must(t, err)
	request := &v1alpha1.AccessRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "jo"},
		Spec: v1alpha1.AccessRequestSpec{
			LogicalCloud: "prod", ManagedCluster: name, User: user, Mode: v1alpha1.AccessCertificate, Request: csr, ExpirationSeconds: 600,
		},
	}
	create(t, hub, request) // the administrator may impersonate the user
	testkit.EventuallyThat(t, "the user has a certificate", func() error {
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(request.Status.Conditions, apimuster.ConditionIssued) {
			return fmt.Errorf("not issued: %+v", request.Status.Conditions)
		}
		return nil
	})
	keyPEM, err := keys.KeyPEM()
	testkit.Must(t, err)
	c, err := client.New(&rest.Config{Host: managed.server, TLSClientConfig: rest.TLSClientConfig{
		CAData: managed.ca, CertData: request.Status.Certificate, KeyData: keyPEM,
	}}, client.Options{Scheme: api.Scheme()})
	testkit.Must(t, err)
	for namespace, want := range map[string]bool{"team-a-prod": true, "kube-system": false} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: namespace},
		}}
		testkit.Eventually(t, func() error { // the cluster's authorizer learns of the binding by a watch
			if err := c.Create(t.Context(), review); err != nil || review.Status.Allowed != want {
				return fmt.Errorf("list pods in %s: %v, %w, want %v", namespace, review.Status.Allowed, err, want)
			}
			return nil
		})
	}
}
