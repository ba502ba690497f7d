package hub_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// tenant is a user with a role in one namespace.
type tenant struct {
	role, namespace string
	rights          []right
}

// tenants are the users of logical clouds and those who make them.
func tenants(t testing.TB, p places) map[string]tenant {
	t.Helper()
	read := "get,list,watch"
	on := func(namespace, resource, verbs string) right {
		return right{verbs, musterGroup, resource, namespace, "*", ""}
	}
	decisions := func(namespace string) right {
		return right{read, clustersGroup, "placementdecisions", namespace, "*", ""}
	}
	makes := func(namespace string) []right {
		return []right{
			on(namespace, "logicalclouds", read+",create,update,patch,delete,deletecollection,use"), on(namespace, "logicalclouds/kubeconfig", "get"),
			on(namespace, "accessrequests", read+",create,delete,deletecollection"), decisions(namespace),
		}
	}
	return map[string]tenant{
		"access-view": {"muster:access-view", p.tenant, []right{on(p.tenant, "logicalclouds", read), on(p.tenant, "accessrequests", read)}},
		"access-user": {"muster:access-user", p.tenant, []right{
			on(p.tenant, "logicalclouds", read+",use"), on(p.tenant, "logicalclouds/kubeconfig", "get"), on(p.tenant, "accessrequests", read+",create,delete"), decisions(p.tenant),
		}},
		"access-tunnel": {"muster:access-tunnel", p.tenant, []right{on(p.tenant, "accessrequests", "tunnel")}},
		"cloud-admin":   {"muster:cloud-admin", p.tenant, makes(p.tenant)},
		"other tenant":  {"muster:cloud-admin", p.otherTenant, makes(p.otherTenant)},
		// The role of Kubernetes' contains the one above, and nothing more of ours.
		"namespace admin": {"admin", p.tenant, append(makes(p.tenant), derived(t, "admin", p.tenant)...)},
	}
}

// derived are the rights of a role in a namespace, without those of our kinds.
func derived(t testing.TB, name, namespace string) []right {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	testkit.Must(t, clientFor(t, admin).Get(context.Background(), types.NamespacedName{Name: name}, role))
	var rights []right
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			if group == musterGroup || group == clustersGroup && slices.Equal(rule.Resources, []string{"placementdecisions"}) {
				continue
			}
			for _, resource := range rule.Resources {
				rights = append(rights, right{strings.Join(rule.Verbs, ","), group, resource, namespace, "*", ""})
			}
		}
	}
	return rights
}

// confine gives a user a cluster role in one namespace.
func confine(t testing.TB, namespace, user, role string) {
	t.Helper()
	c := clientFor(t, admin)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ReplaceAll(user, " ", "-")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rolesGroup, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rolesGroup, Kind: rbacv1.UserKind, Name: user}},
	}
	testkit.Must(t, c.Create(context.Background(), binding))
	t.Cleanup(func() { _ = c.Delete(context.Background(), binding) })
}

// Users, tenants and agents reach what is theirs, and nothing of each other.
func usingClouds(t testing.TB, p places, everybody map[string]identity) []request {
	ctx, c := context.Background(), clientFor(t, admin)
	cloud := func(namespace string) *v1alpha1.LogicalCloud {
		lc := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod"}}
		lc.Spec.Placements, lc.Spec.Namespace.Name = []v1alpha1.PlacementReference{{Name: "all"}}, namespace
		lc.Spec.Access.KeyPolicy = v1alpha1.KeyHubMade
		lc.Spec.Grants = []v1alpha1.Grant{{
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}, Users: []string{"access-user", "cloud-admin"},
		}}
		return lc
	}
	role := &v1alpha1.AccessRole{ObjectMeta: metav1.ObjectMeta{Name: "blue"}, Rules: cloud("x").Spec.Grants[0].Rules}
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: muster.AccessKeyNamespace, Name: p.tenant}}
	credential := func(namespace string) *v1alpha1.ClusterCredential {
		x := &v1alpha1.ClusterCredential{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: muster.Credential("1")}}
		x.Spec = v1alpha1.ClusterCredentialSpec{
			AccessRequest: v1alpha1.RequestReference{Namespace: p.tenant, Name: "x", UID: "1"}, HubID: hubID(t), Requester: "jo", User: "jo",
			Namespace: "x", Mode: v1alpha1.AccessToken, ExpirationSeconds: 600,
		}
		return x
	}
	_ = c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: muster.AccessKeyNamespace}}) // or it is there
	w := testworld.New(t, c)
	for _, o := range []client.Object{role, key, cloud(p.tenant), cloud(p.otherTenant), credential(p.own), credential(p.other)} {
		w.Make(o)
	}
	asks := creating(ask(p.tenant, csrFor(t, "access-user"), nil))
	renamed := cloud(p.tenant)
	renamed.Name = "more"
	renamed.Spec.Grants = nil
	granting := renamed.DeepCopy()
	granting.Spec.Grants = cloud(p.tenant).Spec.Grants
	kubeconfig := func(who, of, want string) request {
		path := "/apis/muster-fleet.io/v1alpha1/namespaces/" + p.tenant + "/logicalclouds/prod/kubeconfig"
		return request{who, "gets the kubeconfig of " + of, func(client.Client) error {
			return clientsetFor(t, everybody[who].config).Discovery().RESTClient().Get().AbsPath(path).Param("user", of).Do(ctx).Error()
		}, want}
	}
	tunnel := func(who, of, in, name, want string) request {
		path := "/apis/muster-fleet.io/v1alpha1/namespaces/" + in + "/" + of + "/" + name + "/tunnel"
		return request{who, "opens a tunnel by " + of + " in " + in, func(client.Client) error {
			get := clientsetFor(t, everybody[who].config).Discovery().RESTClient().Get().AbsPath(path)
			err := get.Param("id", strings.Repeat("0", 32)).Do(ctx).Error()
			var status apierrors.APIStatus
			if errors.As(err, &status) && status.Status().Code == http.StatusUpgradeRequired {
				return nil // what they hear who may open one, and did not ask for a WebSocket
			}
			return err
		}, want}
	}
	byAgent := func(who, in, want string) request {
		return tunnel(who, "clustercredentials", in, muster.Credential("1"), want)
	}
	const noTunnel, noEnd = `cannot tunnel resource "accessrequests"`, `cannot tunnel resource "clustercredentials"`
	const answer = `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"RefusedByPolicy","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	rows := []request{
		{"access-view", "reads a cloud", getting(cloud(p.tenant)), ""},
		{"access-view", "asks for access", asks, `cannot create resource "accessrequests"`},
		kubeconfig("access-view", "access-user", `cannot get resource "logicalclouds/kubeconfig"`),
		{"access-user", "reads a cloud", getting(cloud(p.tenant)), ""},
		{"access-user", "asks for access", asks, ""},
		{"access-user", "answers a request", patchingStatus(&v1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Namespace: p.tenant, Name: "x"}}, answer), `cannot patch resource "accessrequests/status"`},
		kubeconfig("access-user", "access-user", ""),
		kubeconfig("access-user", "cloud-admin", "the verb impersonate on users"),
		{"access-user", "changes a cloud", patching(cloud(p.tenant), `{"spec":{"grants":[]}}`), `cannot patch resource "logicalclouds"`},
		{"cloud-admin", "makes a cloud", creating(renamed), ""},
		{"cloud-admin", "grants what it lacks", creating(granting), "may not grant more than it has"},
		{"cloud-admin", "grants a role", creating(func() client.Object {
			lc := renamed.DeepCopy()
			lc.Spec.Grants = []v1alpha1.Grant{{Role: "blue", Users: []string{"cloud-admin"}}}
			return lc
		}()), "may not grant the AccessRole"},
		{"cloud-admin", "asks for another", creating(ask(p.tenant, nil, func(s *v1alpha1.AccessRequestSpec) { s.User, s.Request = "access-user", csrFor(t, "access-user") })), "the verb impersonate on users"},
		{"cloud-admin", "changes the catalogue", patching(role, `{"rules":[]}`), `cannot patch resource "accessroles"`},
		{"namespace admin", "makes a cloud", creating(renamed), ""},
		{"cluster", "reads its credential", getting(credential(p.own)), ""},
		{"cluster", "answers", patchingStatus(credential(p.own), answer), ""},
		{"cluster", "lists all credentials", listing(&v1alpha1.ClusterCredentialList{}), `cannot list resource "clustercredentials"`},
		tunnel("access-tunnel", "accessrequests", p.tenant, "none", ""),
		tunnel("access-tunnel", "accessrequests", p.otherTenant, "none", noTunnel),
		byAgent("access-tunnel", p.own, noEnd),
		byAgent("cluster", p.own, ""),
		byAgent("cluster", p.other, noEnd),
		{"role-granter", "reads the catalogue", getting(role), `cannot get resource "accessroles"`},
	}
	outsiders := []string{"other tenant", "cluster", "other cluster", "denied cluster", "bootstrap", "bound bootstrap", "anonymous", "set-admin"}
	for _, who := range append(outsiders, "access-view", "access-user", "cloud-admin", "namespace admin") {
		rows = append(rows,
			request{who, "reads the hub's keys", getting(key), `cannot get resource "secrets"`},
			request{who, "lists the hub's keys", listing(&corev1.SecretList{}, client.InNamespace(muster.AccessKeyNamespace)), `cannot list resource "secrets"`},
			request{who, "makes a credential", creating(credential(p.own)), `cannot create resource "clustercredentials"`},
			request{who, "changes a credential", patching(credential(p.own), `{"metadata":{"labels":{"a":"b"}}}`), `cannot patch resource "clustercredentials"`},
		)
		rows = append(rows, tunnel(who, "accessrequests", p.tenant, "none", noTunnel))
		if who != "cluster" {
			rows = append(rows,
				byAgent(who, p.own, noEnd),
				request{who, "reads a credential", getting(credential(p.own)), `cannot get resource "clustercredentials"`},
				request{who, "answers a credential", patchingStatus(credential(p.own), answer), `cannot patch resource "clustercredentials/status"`})
		}
		if who != "other tenant" {
			rows = append(rows, request{who, "reads the cloud of another tenant", getting(cloud(p.otherTenant)), `cannot get resource "logicalclouds"`})
		}
	}
	for _, who := range outsiders {
		rows = append(rows,
			request{who, "reads a cloud", getting(cloud(p.tenant)), `cannot get resource "logicalclouds"`},
			request{who, "makes a cloud", creating(renamed), `cannot create resource "logicalclouds"`},
			request{who, "asks for access", asks, `cannot create resource "accessrequests"`},
			request{who, "lists requests", listing(&v1alpha1.AccessRequestList{}, client.InNamespace(p.tenant)), `cannot list resource "accessrequests"`},
			kubeconfig(who, "access-user", `cannot get resource "logicalclouds/kubeconfig"`),
		)
	}
	return rows
}
