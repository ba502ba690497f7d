package controlplane_test

import (
	"fmt"
	"slices"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

func clusterRoleBinding(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func userSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func groupSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

func accountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// However many bindings others have, a request looks at those of its user.
func TestRightsAreThoseOfTheUsersBindings(t *testing.T) {
	all := []*rbacv1.ClusterRoleBinding{
		clusterRoleBinding("nobody", "r"),
		clusterRoleBinding("jo", "r", userSubject("jo")),
		clusterRoleBinding("jo-and-ann", "r", userSubject("ann"), userSubject("jo")),
		clusterRoleBinding("jo-twice", "r", userSubject("jo"), groupSubject("dev"), userSubject("jo")),
		clusterRoleBinding("group-jo", "r", groupSubject("jo")),
		clusterRoleBinding("dev", "r", groupSubject("dev")),
		clusterRoleBinding("account", "r", accountSubject("ns", "jo")),
		clusterRoleBinding("other-account", "r", accountSubject("other", "jo")),
		clusterRoleBinding("account-as-user", "r", userSubject("system:serviceaccount:ns:jo")),
	}
	for i := range 1000 {
		all = append(all, clusterRoleBinding(fmt.Sprint("cluster-", i), "r", groupSubject(fmt.Sprint("agents-", i))))
	}
	for _, tt := range []struct {
		who  user.DefaultInfo
		want []string
	}{
		{user.DefaultInfo{}, nil},
		{user.DefaultInfo{Name: "bo", Groups: []string{"ann"}}, nil},
		{user.DefaultInfo{Name: "jo"}, []string{"jo", "jo-and-ann", "jo-twice"}},
		{user.DefaultInfo{Name: "ann", Groups: []string{"jo"}}, []string{"group-jo", "jo-and-ann"}},
		{user.DefaultInfo{Name: "jo", Groups: []string{"dev", "dev"}}, []string{"dev", "jo", "jo-and-ann", "jo-twice"}},
		{user.DefaultInfo{Name: "system:serviceaccount:ns:jo"}, []string{"account", "account-as-user"}},
		{user.DefaultInfo{Name: "x", Groups: []string{"agents-7"}}, []string{"cluster-7"}},
	} {
		bindings, err := controlplane.BindingsOf(&tt.who, all...)
		testkit.Must(t, err)
		var got []string
		for _, b := range bindings {
			got = append(got, b.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("for %+v it looks at %q, want %q", tt.who, got, tt.want)
		}
	}
}

func TestRightsByClusterRoleBindings(t *testing.T) {
	c := admin(t, shared)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
	}}
	_, err := c.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	testkit.Must(t, err)
	binding := clusterRoleBinding("bound", role.Name, userSubject("bound-jo"), groupSubject("bound"),
		accountSubject("bound", "robot"))
	binding, err = c.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	testkit.Must(t, err)
	may := func(name string, groups []string, want bool) {
		t.Helper()
		config := shared.RESTConfig("test")
		config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: groups}
		as := clientFor(t, config)
		testkit.Eventually(t, func() error {
			review, err := as.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(),
				&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: "nodes", Verb: "get", Name: "n"},
				}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			rules, err := as.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
				&authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{
					Namespace: metav1.NamespaceDefault,
				}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			listed := slices.ContainsFunc(rules.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool {
				return slices.Contains(r.Resources, "nodes") || slices.Contains(r.Resources, "*")
			})
			if review.Status.Allowed != want || listed != want {
				return fmt.Errorf("%s of %q may: %v, and has it among its rules: %v; want %v",
					name, groups, review.Status.Allowed, listed, want)
			}
			return nil
		})
	}
	may("bound-jo", nil, true)
	may("bound-ann", []string{"bound"}, true)
	may("system:serviceaccount:bound:robot", nil, true)
	may("bound-ann", nil, false)
	may("bound", nil, false)
	may("system:serviceaccount:other:robot", nil, false)
	may("bound-bo", []string{"system:masters"}, true)
	binding.Subjects = binding.Subjects[1:]
	_, err = c.RbacV1().ClusterRoleBindings().Update(t.Context(), binding, metav1.UpdateOptions{})
	testkit.Must(t, err)
	may("bound-jo", nil, false)
	may("bound-ann", []string{"bound"}, true)
	testkit.Must(t, c.RbacV1().ClusterRoleBindings().Delete(t.Context(), binding.Name, metav1.DeleteOptions{}))
	may("bound-ann", []string{"bound"}, false)
}

// BenchmarkRights decides about a request of an agent, with a cluster role binding for each of
// 10,000 agents: as the server does, and as Kubernetes does.
func BenchmarkRights(b *testing.B) {
	const clusters = 10_000
	all := make([]*rbacv1.ClusterRoleBinding, 0, clusters)
	for i := range clusters {
		all = append(all, clusterRoleBinding(fmt.Sprint("c-", i), "r", groupSubject(fmt.Sprint("agents-", i))))
	}
	ours, own, err := controlplane.Rights("r", all...)
	testkit.Must(b, err)
	agent := &user.DefaultInfo{Name: "agent", Groups: []string{"agents-7", "agents", user.AllAuthenticated}}
	request := authorizer.AttributesRecord{User: agent, Verb: "list", Resource: "nodes", ResourceRequest: true}
	for name, rights := range map[string]authorizer.Authorizer{"here": ours, "kubernetes": own} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if decision, _, err := rights.Authorize(b.Context(), request); err != nil ||
					decision != authorizer.DecisionNoOpinion {
					b.Fatal(decision, err)
				}
			}
		})
	}
}
