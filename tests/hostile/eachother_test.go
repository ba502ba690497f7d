package hostile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	keys "github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// editor are the rights of Kubernetes' own cluster role edit, and some of admin, by
// which one gets at other accounts of a namespace.
func editor() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "secrets", "configmaps", "resourcequotas"}, Verbs: []string{"*"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"*"}},
	}
}

// insider is a user of a cloud with a token, in its cluster.
type insider struct {
	name    string
	request *v1alpha1.AccessRequest
	config  *rest.Config
	client  client.Client
}

// account is where the service account of the insider is.
func (i *insider) account(namespace string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: access.ServiceAccount(i.request.Status.KeyHash)}}
}

// comeIn has a user ask for a token, and waits until the cluster takes it.
func (e *estate) comeIn(t *testing.T, m *member, user string, lifetime int32) *insider {
	t.Helper()
	ctx := t.Context()
	k, err := keys.NewKeys()
	testkit.Must(t, err)
	r := &v1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, GenerateName: "r-"}}
	r.Spec = v1alpha1.AccessRequestSpec{
		LogicalCloud: "prod", ManagedCluster: m.name, User: user, Mode: v1alpha1.AccessToken, SealTo: k.Token.PublicKey().Bytes(), ExpirationSeconds: lifetime,
	}
	testkit.Must(t, e.admin.Create(ctx, r))
	testkit.Eventually(t, func() error {
		if err := e.admin.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionIssued) {
			return fmt.Errorf("no access for %s: %+v\n%s", user, r.Status.Conditions, m.agent.Log())
		}
		return nil
	})
	token, err := access.Open(k.Token, r.Status.SealedToken, string(r.UID))
	testkit.Must(t, err)
	config := rest.AnonymousClientConfig(m.config)
	config.BearerToken, config.QPS = string(token), -1
	return &insider{user, r, config, testfleet.Client(t, config)}
}

// Users of a cloud whose grants give them all rights in its namespace, or rights in
// the whole cluster that its administrators grant, get neither tokens nor accounts of
// each other.
func TestUsersOfACloudCannotBecomeEachOther(t *testing.T) {
	ctx := context.Background()
	m := hub.join(t, "eachother", "--user-access")
	testkit.Must(t, hub.admin(t).Patch(ctx, clusterNamed(m.name, false), mergePatchf(`{"metadata":{"labels":{"hostile":%q}}}`, m.name)))
	e := newEstate(t, "eachother-team", m.name)
	prod := e.cloud("prod", "shop")
	prod.Spec.Grants = []v1alpha1.Grant{
		{Rules: editor(), Users: []string{"alice"}},
		{Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}, Users: []string{"root"}},
		{Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list"}}}, Scope: v1alpha1.ScopeCluster, Users: []string{"bob"}},
		{Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "secrets"}, Verbs: []string{"create"}}}, Scope: v1alpha1.ScopeCluster, Users: []string{"carol"}},
	}
	testkit.Must(t, e.admin.Create(ctx, prod))
	testkit.Must(t, e.is(prod, muster.ConditionReady, metav1.ConditionTrue, ""))
	alice, root := e.comeIn(t, m, "alice", 3600), e.comeIn(t, m, "root", 3600)
	bob, carol := e.comeIn(t, m, "bob", 3600), e.comeIn(t, m, "carol", 3600)
	accounts := accountsOf(t, m)

	for _, i := range []*insider{alice, root} {
		i.reaches(t, bob, accounts)
		i.reaches(t, i, accounts) // no longer token of its own either
	}
	leaked := &corev1.SecretList{}
	testkit.Eventually(t, func() error { return bob.client.List(ctx, leaked) })
	var err error
	for _, s := range leaked.Items {
		if s.Namespace == accounts || s.Namespace == "shop" {
			err = errors.Join(err, fmt.Errorf("there is the Secret %s/%s", s.Namespace, s.Name))
		}
	}
	harmless(t, "a user who may list all Secrets finds tokens of others", err)
	carol.runs(t, bob, accounts)

	// What is withdrawn is void at once.
	before := prod.DeepCopy()
	prod.Spec.Grants = prod.Spec.Grants[1:]
	testkit.Must(t, e.admin.Patch(ctx, prod, client.MergeFrom(before)))
	soonRefused(t, "a user whose grant was withdrawn", func() error { return alice.client.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("shop")) })
	for _, i := range []*insider{root, bob, carol} {
		var err error
		if review := (&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods", Namespace: "shop"},
		}}); i.client.Create(ctx, review) != nil {
			err = fmt.Errorf("the token of %s is void", i.name)
		}
		harmless(t, "a withdrawal voids tokens of others", err)
	}
	testkit.Must(t, e.admin.Delete(ctx, prod))
	testkit.Must(t, e.gone(prod))
	err = testkit.Poll(testkit.Timeout, func() error {
		ns := &corev1.Namespace{}
		if err := m.admin.Get(ctx, client.ObjectKey{Name: accounts}, ns); !apierrors.IsNotFound(err) && ns.DeletionTimestamp == nil {
			return fmt.Errorf("the namespace %s is left: %w", accounts, err)
		}
		left := &corev1.ServiceAccountList{}
		if err := m.admin.List(ctx, left, client.InNamespace(accounts)); err != nil || len(left.Items) > 0 && left.Items[0].Name != "default" {
			return fmt.Errorf("accounts are left: %v, %w", left.Items, err)
		}
		return nil
	})
	harmless(t, "accounts outlive their cloud", err)
}

// accountsOf is the namespace in a cluster with the accounts of its one cloud.
func accountsOf(t *testing.T, m *member) string {
	t.Helper()
	list := &corev1.NamespaceList{}
	testkit.Must(t, m.admin.List(t.Context(), list))
	for _, ns := range list.Items {
		if strings.HasPrefix(ns.Name, muster.AccountNamespacePrefix) {
			return ns.Name
		}
	}
	t.Fatalf("there is no namespace of accounts among %d", len(list.Items))
	return ""
}

// reaches tries to get at the account of a user by all that one may do in a namespace
// of one's own.
func (i *insider) reaches(t *testing.T, other *insider, accounts string) {
	t.Helper()
	ctx := t.Context()
	for _, namespace := range []string{accounts, "shop"} {
		account := other.account(namespace)
		err := i.client.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(8760 * 3600))},
		})
		if namespace == "shop" && apierrors.IsNotFound(err) {
			harmless(t, i.name+" finds an account of "+other.name+" in the cloud's namespace", nil)
		} else {
			refused(t, i.name+" gets a token of "+other.name, err)
		}
	}
	as := rest.CopyConfig(i.config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + accounts + ":" + other.account(accounts).Name}
	refused(t, i.name+" impersonates "+other.name, testfleet.Client(t, as).List(ctx, &corev1.ConfigMapList{}, client.InNamespace("shop")))
	as.Impersonate = rest.ImpersonationConfig{UserName: other.name, Groups: []string{access.KeyGroup(other.request.Status.KeyHash)}}
	refused(t, i.name+" impersonates the key of "+other.name, testfleet.Client(t, as).List(ctx, &corev1.ConfigMapList{}, client.InNamespace("shop")))
	refused(t, i.name+" lists accounts", i.client.List(ctx, &corev1.ServiceAccountList{}, client.InNamespace(accounts)))
	refused(t, i.name+" makes itself rights there", i.client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: accounts, Name: "mine"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}))
	i.runs(t, other, accounts)
}

// runs tries to get a token of a user by a pod and by a Secret.
func (i *insider) runs(t *testing.T, other *insider, accounts string) {
	t.Helper()
	name := other.account(accounts).Name
	refused(t, i.name+" runs a pod as "+other.name, i.client.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: accounts, Name: "thief"},
		Spec: corev1.PodSpec{
			ServiceAccountName: name, AutomountServiceAccountToken: ptr.To(true), Containers: []corev1.Container{{Name: "c", Image: "x"}},
		},
	}))
	refused(t, i.name+" makes a Secret with a token of "+other.name, i.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: accounts, Name: "thief", Annotations: map[string]string{corev1.ServiceAccountNameKey: name}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}))
}
