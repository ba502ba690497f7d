package admission

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// A replica set is no way around the right to execute as somebody.
func TestReplicaSetAuthorsNeedTheRightsOfTheExecutor(t *testing.T) {
	set := func(executor, refs string) *unstructured.Unstructured {
		return object([]byte(`{"metadata":{"namespace":"ns","name":"web"},"spec":{"placementRefs":[` + refs + `],"manifestWorkTemplate":{` + executor + `"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}}}}`))
	}
	const (
		nobody   = ``
		deployer = `"executor":{"subject":{"type":"ServiceAccount","serviceAccount":{"namespace":"shop","name":"deployer"}}},`
		p, q     = `{"name":"p"}`, `{"name":"q"}`
	)
	for name, x := range map[string]struct {
		now, before *unstructured.Unstructured
		checkNil    bool
		asked       string
	}{
		"a new one":                {set(deployer, p), nil, false, "system:serviceaccount:shop:deployer"},
		"another executor":         {set(deployer, p), set(nobody, p), false, "system:serviceaccount:shop:deployer"},
		"other placements":         {set(deployer, q), set(deployer, p), false, "system:serviceaccount:shop:deployer"},
		"nothing changes":          {set(deployer, p), set(deployer, p), true, ""},
		"none":                     {set(nobody, p), nil, false, ""},
		"none, where it is needed": {set(nobody, p), nil, true, "system:serviceaccount::klusterlet-work-sa"},
	} {
		t.Run(name, func(t *testing.T) {
			operation := admission.Create
			if x.before != nil {
				operation = admission.Update
			}
			for _, allow := range []bool{true, false} {
				asked := ""
				plugin := &manifestWorkReplicaSets{enabled: true, limit: 1000, executors: executors{checkNil: x.checkNil, server: &server{authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
					asked = a.GetName()
					if a.GetVerb() != "execute-as" || a.GetResource() != "manifestworks" || a.GetNamespace() != "ns" {
						t.Errorf("asked for %+v", a)
					}
					if allow {
						return authorizer.DecisionAllow, "", nil
					}
					return authorizer.DecisionNoOpinion, "", nil
				})}}}
				err := plugin.Validate(context.Background(), replicaSetAttributes(operation, x.now, x.before, ""), nil)
				if asked != x.asked || (err == nil) != (allow || x.asked == "") {
					t.Errorf("allowed %v: asked for %q, want %q, and got %v", allow, asked, x.asked, err)
				}
			}
		})
	}
}

func TestManifestsOfReplicaSetsAreChecked(t *testing.T) {
	const (
		a = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
		b = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`
	)
	set := func(metadata string, manifests ...string) *unstructured.Unstructured {
		return object([]byte(`{"metadata":{"namespace":"ns","name":"web"` + metadata + `},"spec":{"placementRefs":[{"name":"p"}],"manifestWorkTemplate":{"workload":{"manifests":[` + strings.Join(manifests, ",") + `]}}}}`))
	}
	executed := func(set *unstructured.Unstructured) *unstructured.Unstructured {
		if err := unstructured.SetNestedField(set.Object, "ServiceAccount", "spec", "manifestWorkTemplate", "executor", "subject", "type"); err != nil {
			t.Fatal(err)
		}
		return set
	}
	for name, x := range map[string]struct {
		disabled    bool
		operation   admission.Operation
		now, before *unstructured.Unstructured
		want        string
	}{
		"a good one":                         {false, admission.Create, set("", a, b), nil, ""},
		"no manifests":                       {false, admission.Create, set(""), nil, "manifests should not be empty"},
		"one manifest twice":                 {false, admission.Create, set("", a, a), nil, "duplicate manifest"},
		"too much":                           {false, admission.Create, set("", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"`+strings.Repeat("x", 1000)+`"}}`), nil, "exceeds the 1000 limit"},
		"a change for the worse":             {false, admission.Update, set("", a, a), set("", a), "duplicate manifest"},
		"a change of something else":         {false, admission.Update, set(`,"labels":{"x":"y"}`), set(""), ""},
		"an executor that is nobody":         {false, admission.Create, executed(set("", a)), nil, "spec.manifestWorkTemplate.executor: the executor service account is nil"},
		"a change to nobody":                 {false, admission.Update, executed(set("", a)), set("", a), "spec.manifestWorkTemplate.executor: the executor service account is nil"},
		"nobody as before":                   {false, admission.Update, executed(set(`,"labels":{"x":"y"}`, a)), executed(set("", a)), ""},
		"a deletion":                         {false, admission.Delete, nil, set(""), ""},
		"disabled, a creation":               {true, admission.Create, set("", a), nil, "ManifestWorkReplicaSet feature is disabled"},
		"disabled, a change":                 {true, admission.Update, set(`,"labels":{"x":"y"}`, a), set("", a), "ManifestWorkReplicaSet feature is disabled"},
		"disabled, a deletion":               {true, admission.Delete, nil, set("", a), "ManifestWorkReplicaSet feature is disabled"},
		"disabled, one that is to go anyway": {true, admission.Update, set(`,"deletionTimestamp":"2026-01-01T00:00:00Z"`, a), set("", a), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &manifestWorkReplicaSets{enabled: !x.disabled, limit: 1000}
			if !p.Handles(x.operation) {
				t.Fatalf("%s is not handled", x.operation)
			}
			err := p.Validate(context.Background(), replicaSetAttributes(x.operation, x.now, x.before, ""), nil)
			if (err != nil) != (x.want != "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
	if err := (&manifestWorkReplicaSets{}).Validate(context.Background(), replicaSetAttributes(admission.Update, set("", a), set("", a), "status"), nil); err != nil {
		t.Errorf("a report is refused: %v", err)
	}
}

func replicaSetAttributes(operation admission.Operation, now, before *unstructured.Unstructured, subresource string) admission.Attributes {
	return admission.NewAttributesRecord(orNil(now), orNil(before), v1alpha1.GroupVersion.WithKind("ManifestWorkReplicaSet"), "ns", "web",
		v1alpha1.GroupVersion.WithResource("manifestworkreplicasets"), subresource, operation, nil, false, &user.DefaultInfo{Name: "somebody"})
}

func orNil(u *unstructured.Unstructured) runtime.Object {
	if u == nil {
		return nil
	}
	return u
}
