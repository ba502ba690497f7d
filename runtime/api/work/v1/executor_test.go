package v1_test

import (
	"strings"
	"testing"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestExecutorsStandForServiceAccounts(t *testing.T) {
	account := func(namespace, name string) *workv1.ManifestWorkSubjectServiceAccount {
		return &workv1.ManifestWorkSubjectServiceAccount{Namespace: namespace, Name: name}
	}
	for name, x := range map[string]struct {
		kind          workv1.ManifestWorkExecutorSubjectType
		account       *workv1.ManifestWorkSubjectServiceAccount
		user, problem string
	}{
		"an account":              {"ServiceAccount", account("shop", "deployer"), "system:serviceaccount:shop:deployer", ""},
		"one with dots":           {"ServiceAccount", account("shop", "team.deployer"), "system:serviceaccount:shop:team.deployer", ""},
		"nothing":                 {"", nil, "", "only support ServiceAccount type"},
		"no type":                 {"", account("shop", "deployer"), "", "only support ServiceAccount type"},
		"another type":            {"User", account("shop", "deployer"), "", "only support ServiceAccount type"},
		"no account":              {"ServiceAccount", nil, "", "the executor service account is nil"},
		"no namespace":            {"ServiceAccount", account("", "deployer"), "", `the namespace ""`},
		"no name":                 {"ServiceAccount", account("shop", ""), "", `the name ""`},
		"a colon in the name":     {"ServiceAccount", account("shop", "a:b"), "", `the name "a:b"`},
		"one in the namespace":    {"ServiceAccount", account("kube-system:x", "y"), "", `the namespace "kube-system:x"`},
		"a name of another alias": {"ServiceAccount", account("shop", "Deployer"), "", `the name "Deployer"`},
	} {
		t.Run(name, func(t *testing.T) {
			user, err := workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{Type: x.kind, ServiceAccount: x.account}}.UserName()
			if user != x.user || (err != nil) != (x.problem != "") || err != nil && !strings.Contains(err.Error(), x.problem) {
				t.Errorf("got %q, %v, want %q, %q", user, err, x.user, x.problem)
			}
		})
	}
}
