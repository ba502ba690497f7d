package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

func goodCloud() *v1alpha1.LogicalCloudSpec {
	return &v1alpha1.LogicalCloudSpec{
		Placements: []v1alpha1.PlacementReference{{Name: "p"}},
		Namespace:  v1alpha1.CloudNamespace{Name: "apps", Labels: map[string]string{"team": "a"}},
		Quotas:     []v1alpha1.CloudQuota{{Name: "main", Hard: corev1.ResourceList{"limits.cpu": resource.MustParse("4"), "count/deployments.apps": resource.MustParse("3")}}},
		Grants:     []v1alpha1.Grant{{Role: "edit", Users: []string{"jo", "system:serviceaccount:ci:deploy"}, Groups: []string{"devs"}}},
		Access:     v1alpha1.CloudAccess{DefaultLifetimeSeconds: 600, MaxLifetimeSeconds: 3600},
	}
}

func TestCloudsAreChecked(t *testing.T) {
	rule := func(r rbacv1.PolicyRule) func(*v1alpha1.LogicalCloudSpec) {
		return func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Role, s.Grants[0].Rules = "", []rbacv1.PolicyRule{r} }
	}
	for name, x := range map[string]struct {
		change func(*v1alpha1.LogicalCloudSpec)
		want   string
	}{
		"good":                   {func(*v1alpha1.LogicalCloudSpec) {}, ""},
		"the system's namespace": {func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.Name = "kube-system" }, `spec.namespace.name: Invalid value: "kube-system": it is a namespace of Kubernetes`},
		"the namespace default":  {func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.Name = "default" }, "choose another name"},
		"the agent's namespace":  {func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.Name = "open-cluster-management-agent" }, "agent's"},
		"a path to a placement":  {func(s *v1alpha1.LogicalCloudSpec) { s.Placements[0].Name = "../b/p" }, `spec.placements[0].name: Invalid value: "../b/p"`},
		"one of the hub's keys": {func(s *v1alpha1.LogicalCloudSpec) {
			s.Namespace.Labels = map[string]string{"muster-fleet.io/logical-cloud": "x"}
		}, "spec.namespace.labels[muster-fleet.io/logical-cloud]"},
		"a key of a part of OCM": {func(s *v1alpha1.LogicalCloudSpec) {
			s.Namespace.Annotations = map[string]string{"agent.open-cluster-management.io/x": ""}
		}, "choose another one"},
		"a bad label": {func(s *v1alpha1.LogicalCloudSpec) { s.Namespace.Labels = map[string]string{"a": "b c"} }, `Invalid value: "b c"`},
		"too many annotations": {func(s *v1alpha1.LogicalCloudSpec) {
			s.Namespace.Annotations = map[string]string{"a": strings.Repeat("x", 65<<10)}
		}, "Too long"},
		"a typo in a quota": {func(s *v1alpha1.LogicalCloudSpec) {
			s.Quotas[0].Hard = corev1.ResourceList{"limits.cpus": resource.MustParse("1")}
		}, "spec.quotas[0].hard[limits.cpus]"},
		"a negative quota":            {func(s *v1alpha1.LogicalCloudSpec) { s.Quotas[0].Hard["limits.cpu"] = resource.MustParse("-1") }, "must be greater than or equal to 0"},
		"a scope that does not exist": {func(s *v1alpha1.LogicalCloudSpec) { s.Quotas[0].Scopes = []corev1.ResourceQuotaScope{"Fast"} }, "spec.quotas[0].scopes"},
		"the name of a component":     {func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Users[0] = "system:kube-controller-manager" }, "spec.grants[0].users[0]"},
		"no name":                     {func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Users[0] = "" }, "it is empty"},
		"all who can log in":          {func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Groups[0] = "system:authenticated" }, "spec.grants[0].groups[0]"},
		"no group":                    {func(s *v1alpha1.LogicalCloudSpec) { s.Grants[0].Groups[0] = "" }, "Required value"},
		"a rule without verbs":        {rule(rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}}), "spec.grants[0].rules[0].verbs"},
		"a path in one namespace":     {rule(rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}), "nonResourceURLs"},
		"lifetimes the wrong way":     {func(s *v1alpha1.LogicalCloudSpec) { s.Access.MaxLifetimeSeconds = 599 }, "spec.access.defaultLifetimeSeconds: Invalid value: 600: it is more than maxLifetimeSeconds, which is 599"},
	} {
		spec := goodCloud()
		x.change(spec)
		errs := checkCloud(spec, &v1alpha1.LogicalCloudSpec{})
		switch {
		case x.want == "" && len(errs) > 0:
			t.Errorf("%s: %v", name, errs)
		case x.want != "" && (len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), x.want)):
			t.Errorf("%s: got %v, want %q", name, errs, x.want)
		}
		if errs := checkCloud(spec, spec); len(errs) > 0 && name != "too many annotations" && name != "lifetimes the wrong way" {
			t.Errorf("%s: what was there before is refused: %v", name, errs)
		}
	}
}

func TestOnlyWhatIsNewIsGranted(t *testing.T) {
	base := v1alpha1.Grant{Role: "edit", Users: []string{"jo", "al"}, Groups: []string{"devs"}}
	for name, x := range map[string]struct {
		grant v1alpha1.Grant
		want  bool
	}{
		"the same":           {base, true},
		"fewer users":        {v1alpha1.Grant{Role: "edit", Users: []string{"jo"}}, true},
		"another user":       {v1alpha1.Grant{Role: "edit", Users: []string{"eve"}}, false},
		"another group":      {v1alpha1.Grant{Role: "edit", Groups: []string{"ops"}}, false},
		"another role":       {v1alpha1.Grant{Role: "admin", Users: []string{"jo"}}, false},
		"in the whole one":   {v1alpha1.Grant{Role: "edit", Scope: v1alpha1.ScopeCluster, Users: []string{"jo"}}, false},
		"with rules instead": {v1alpha1.Grant{Rules: []rbacv1.PolicyRule{{}}, Users: []string{"jo"}}, false},
	} {
		if got := covers(base, x.grant); got != x.want {
			t.Errorf("%s: covered: %v, want %v", name, got, x.want)
		}
	}
}

func TestKeysOfKubernetesAreForAdministrators(t *testing.T) {
	for key, want := range map[string]bool{
		"pod-security.kubernetes.io/enforce": true, "kubernetes.io/x": true, "x.k8s.io/y": true, "security.openshift.io/scc": true,
		"team": false, "example.com/kubernetes.io": false, "notkubernetes.io/x": false,
	} {
		if _, got := reservedFor(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}
