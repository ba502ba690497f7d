package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestWorkAuthorsNeedTheRightsOfTheExecutor(t *testing.T) {
	const (
		nobody    = ``
		noAccount = `,"executor":{"subject":{"type":"ServiceAccount"}}`
		noSubject = `,"executor":{}`
		noName    = `,"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"shop"}}}`
		colon     = `,"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"kube-system:x","name":"y"}}}`
		user      = `,"executor":{"subject":{"type":"User","serviceAccount":{"namespace":"shop","name":"deployer"}}}`
		deployer  = `,"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"shop","name":"deployer"}}}`
	)
	mw := func(executor, value string) *unstructured.Unstructured {
		return object([]byte(`{"metadata":{"namespace":"c1","name":"w"},"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"` + value + `"}}]}` + executor + `}}`))
	}
	for name, x := range map[string]struct {
		now, before *unstructured.Unstructured
		checkNil    bool
		asked       string // the name that the right is asked for
		refused     string
	}{
		"a new work":                           {mw(deployer, "1"), nil, false, "system:serviceaccount:shop:deployer", "with executor shop/deployer in namespace c1"},
		"the executor stays":                   {mw(deployer, "2"), mw(deployer, "1"), true, "system:serviceaccount:shop:deployer", "with executor shop/deployer"},
		"the spec stays":                       {mw(deployer, "1"), mw(deployer, "1"), true, "", ""},
		"the executor changes":                 {mw(deployer, "1"), mw(nobody, "1"), false, "system:serviceaccount:shop:deployer", "with executor shop/deployer"},
		"none":                                 {mw(nobody, "1"), nil, false, "", ""},
		"none, where that is checked":          {mw(nobody, "1"), nil, true, "system:serviceaccount::klusterlet-work-sa", "with executor /klusterlet-work-sa in namespace c1"},
		"none any more, where it is checked":   {mw(nobody, "1"), mw(deployer, "1"), true, "system:serviceaccount::klusterlet-work-sa", "with executor /klusterlet-work-sa"},
		"none as before, where it is checked":  {mw(nobody, "2"), mw(nobody, "1"), true, "system:serviceaccount::klusterlet-work-sa", "with executor /klusterlet-work-sa"},
		"no spec changes, where it is checked": {mw(nobody, "1"), mw(nobody, "1"), true, "", ""},
		"an executor that is nobody":           {mw(noAccount, "1"), nil, false, "", "! the executor service account is nil: name a service account"},
		"nobody, where none is checked":        {mw(noAccount, "1"), nil, true, "", "! the executor service account is nil"},
		"nobody any more":                      {mw(noAccount, "1"), mw(deployer, "1"), false, "", "! the executor service account is nil"},
		"no subject":                           {mw(noSubject, "1"), nil, false, "", "! only support ServiceAccount type"},
		"no name":                              {mw(noName, "1"), nil, false, "", "! the executor service account has the name \"\""},
		"a colon":                              {mw(colon, "1"), nil, false, "", "! the executor service account has the namespace \"kube-system:x\""},
		"another type":                         {mw(user, "1"), nil, false, "", "! only support ServiceAccount type"},
		"nobody as before":                     {mw(noAccount, "1"), mw(noAccount, "1"), true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			for _, allow := range []bool{true, false} {
				p := &manifestWorks{limit: 1000, executors: executors{checkNil: x.checkNil, server: &server{authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
					asked = a.GetName()
					if a.GetVerb() != "execute-as" || a.GetAPIGroup() != "work.open-cluster-management.io" || a.GetResource() != "manifestworks" || a.GetNamespace() != "c1" {
						t.Errorf("asked for %+v", a)
					}
					if allow {
						return authorizer.DecisionAllow, "", nil
					}
					return authorizer.DecisionNoOpinion, "", nil
				})}}}
				err := p.Validate(context.Background(), attributes(x.now, x.before, workv1.GroupVersion.WithResource("manifestworks")), nil)
				nobody, isNobody := strings.CutPrefix(x.refused, "! ")
				switch {
				case isNobody:
					if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.executor: "+nobody) {
						t.Errorf("got %v, want %q", err, nobody)
					}
				case allow || x.refused == "":
					if err != nil {
						t.Error(err)
					}
				case !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "user somebody cannot manipulate the Manifestwork "+x.refused):
					t.Errorf("got %v, want %q", err, x.refused)
				}
			}
			if asked != x.asked {
				t.Errorf("asked for %q, want %q", asked, x.asked)
			}
		})
	}
}

func TestSizeOfManifestsIsLimited(t *testing.T) {
	mw := object([]byte(`{"metadata":{"namespace":"c1","name":"w"},"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"` + strings.Repeat("x", 1000) + `"}}]}}}`))
	for limit, want := range map[int]string{10_000: "", 1000: "the size of manifests is 1081 bytes which exceeds the 1000 limit"} {
		p := &manifestWorks{executors: executors{server: decided(true)}, limit: limit}
		err := p.Validate(context.Background(), attributes(mw, nil, workv1.GroupVersion.WithResource("manifestworks")), nil)
		if got := fmt.Sprint(err); (err != nil) != (want != "") || err != nil && got != want {
			t.Errorf("limit %d: got %v, want %q", limit, err, want)
		}
	}
}
