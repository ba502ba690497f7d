package access_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
)

func TestRightsByWhichUsersActAsOthers(t *testing.T) {
	rule := func(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: strings.Fields(resources), ResourceNames: names}
	}
	for name, tc := range map[string]struct {
		rules []rbacv1.PolicyRule
		want  []string
	}{
		"none":                        {nil, nil},
		"view":                        {[]rbacv1.PolicyRule{rule("get list watch", "", "pods services configmaps"), rule("get list", "apps", "*")}, nil},
		"logs and scale":              {[]rbacv1.PolicyRule{rule("get", "", "pods/log"), rule("update patch", "apps", "deployments/scale")}, nil},
		"read of Secrets":             {[]rbacv1.PolicyRule{rule("get list watch", "", "secrets")}, nil},
		"delete of pods":              {[]rbacv1.PolicyRule{rule("delete deletecollection", "", "pods")}, nil},
		"tokens":                      {[]rbacv1.PolicyRule{rule("create", "", "serviceaccounts/token")}, []string{"create serviceaccounts/token"}},
		"tokens of any subresource":   {[]rbacv1.PolicyRule{rule("create", "", "*/token")}, []string{"create serviceaccounts/token"}},
		"tokens of one's own account": {[]rbacv1.PolicyRule{rule("create", "", "serviceaccounts/token", "builder")}, nil},
		"a user's token":              {[]rbacv1.PolicyRule{rule("create", "", "serviceaccounts/token", "muster-access-0")}, []string{"create serviceaccounts/token"}},
		"tokens of another group":     {[]rbacv1.PolicyRule{rule("create", "x", "serviceaccounts/token")}, nil},
		"pods":                        {[]rbacv1.PolicyRule{rule("create", "", "pods")}, []string{"create pods"}},
		"some pods":                   {[]rbacv1.PolicyRule{rule("*", "", "pods", "one")}, nil},
		"deployments of all groups":   {[]rbacv1.PolicyRule{rule("patch", "*", "deployments")}, []string{"patch deployments"}},
		"a shell":                     {[]rbacv1.PolicyRule{rule("create", "", "pods/exec")}, []string{"create pods/exec"}},
		"the kubelet":                 {[]rbacv1.PolicyRule{rule("get", "", "nodes/proxy")}, []string{"get nodes/proxy"}},
		"a key's group":               {[]rbacv1.PolicyRule{rule("impersonate", "", "groups", "muster-key:0")}, []string{"impersonate groups"}},
		"a person":                    {[]rbacv1.PolicyRule{rule("impersonate", "", "users", "jo")}, nil},
		"a signer":                    {[]rbacv1.PolicyRule{rule("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client")}, []string{"approve signers"}},
		"another signer":              {[]rbacv1.PolicyRule{rule("approve", "certificates.k8s.io", "signers", "example.com/x")}, nil},
		"any rights":                  {[]rbacv1.PolicyRule{rule("bind", "rbac.authorization.k8s.io", "clusterroles")}, []string{"bind clusterroles"}},
		"Secrets":                     {[]rbacv1.PolicyRule{rule("create get", "", "secrets")}, []string{"create secrets"}},
		"webhooks": {[]rbacv1.PolicyRule{rule("update", "admissionregistration.k8s.io", "*")}, []string{
			"update mutatingadmissionpolicies", "update mutatingadmissionpolicybindings", "update mutatingwebhookconfigurations",
		}},
	} {
		if got := access.ActsAsOthers(tc.rules); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	all := access.ActsAsOthers([]rbacv1.PolicyRule{rule("*", "*", "*")})
	if len(all) < 40 || slices.Contains(all, "") {
		t.Errorf("of all rights these act as others: %q", all)
	}
	for name, tc := range map[string]struct {
		rule rbacv1.PolicyRule
		want bool
	}{
		"list": {rule("list", "", "secrets"), true}, "all": {rule("*", "*", "*"), true},
		"one": {rule("get", "", "secrets", "mine"), false}, "config maps": {rule("get", "", "configmaps"), false},
	} {
		if got := access.ReadsAllSecrets([]rbacv1.PolicyRule{tc.rule}); got != tc.want {
			t.Errorf("reading Secrets, %s: %v", name, got)
		}
	}
}
