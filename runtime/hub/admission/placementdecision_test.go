package admission

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic/fake"

	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

// Which clusters a placement has chosen is the scheduler's to write, unless the
// placement says that another one does.
func TestDecisionsAreTheSchedulers(t *testing.T) {
	placement := func(name string, annotations map[string]string) runtime.Object {
		p := &unstructured.Unstructured{Object: map[string]any{"apiVersion": clusterv1beta1.GroupVersion.String(), "kind": "Placement"}}
		p.SetNamespace("ns")
		p.SetName(name)
		p.SetAnnotations(annotations)
		return p
	}
	plugin := placementDecisions{server: &server{}}
	plugin.objects = fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{clusterv1beta1.GroupVersion.WithResource("placements"): "PlacementList"},
		placement("ours", nil), placement("theirs", map[string]string{"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"}))
	decision := func(of, labels, clusters string) *unstructured.Unstructured {
		return object([]byte(`{"metadata":{"namespace":"ns","name":"d","labels":{"cluster.open-cluster-management.io/placement":"` + of + `"` + labels + `}},"status":{"decisions":[` + clusters + `]}}`))
	}
	const c1 = `{"clusterName":"c1","reason":""}`
	unlabelled := object([]byte(`{"metadata":{"namespace":"ns","name":"d"}}`))
	for name, x := range map[string]struct {
		now, before *unstructured.Unstructured
		groups      []string
		refused     bool
	}{
		"a new decision":                           {decision("ours", "", ""), nil, nil, true},
		"a forged choice":                          {decision("ours", "", c1), decision("ours", "", ""), nil, true},
		"another group":                            {decision("ours", `,"cluster.open-cluster-management.io/decision-group-index":"1"`, c1), decision("ours", "", c1), nil, true},
		"one taken away":                           {decision("theirs", "", c1), decision("ours", "", c1), nil, true},
		"one put in":                               {decision("ours", "", c1), decision("theirs", "", c1), nil, true},
		"one without a placement":                  {unlabelled, nil, nil, false},
		"one for a placement that is not there":    {decision("gone", "", c1), nil, nil, true},
		"a label of somebody's":                    {decision("ours", `,"x":"y"`, c1), decision("ours", "", c1), nil, false},
		"a scheduler of their own":                 {decision("theirs", "", c1), decision("theirs", "", ""), nil, false},
		"an administrator, or the hub's scheduler": {decision("ours", "", c1), decision("ours", "", ""), []string{"system:masters"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			operation := admission.Create
			if x.before != nil {
				operation = admission.Update
			}
			for _, subresource := range []string{"", "status"} {
				a := admission.NewAttributesRecord(orNil(x.now), orNil(x.before), clusterv1beta1.GroupVersion.WithKind("PlacementDecision"), "ns", "d",
					clusterv1beta1.GroupVersion.WithResource("placementdecisions"), subresource, operation, &metav1.UpdateOptions{}, false, &user.DefaultInfo{Name: "somebody", Groups: x.groups})
				err := plugin.Validate(context.Background(), a, nil)
				if (err != nil) != x.refused || err != nil && !strings.Contains(err.Error(), "experimental-scheduling-disable=true") {
					t.Errorf("%q: got %v, want a refusal: %v", subresource, err, x.refused)
				}
			}
		})
	}
}
