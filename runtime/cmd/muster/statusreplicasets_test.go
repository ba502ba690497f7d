package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

func TestStatusNamesClustersThatReplicaSetsLeaveOut(t *testing.T) {
	const problem = "placement p: its decisions name clusters that get nothing: c1: not accepted by the hub"
	set := func(name, message string) *workv1alpha1.ManifestWorkReplicaSet {
		s := &workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
		s.Status.Conditions = []metav1.Condition{{Type: "PlacementVerified", Status: metav1.ConditionTrue, Message: message}}
		return s
	}
	b := func() *fake.ClientBuilder {
		return fake.NewClientBuilder().WithScheme(api.Scheme()).WithObjects(set("web", problem), set("fine", ""))
	}
	var out bytes.Buffer
	if err := printStatus(t, &out, b().Build()); err != nil {
		t.Fatal(err)
	}
	if said := squeezed(out.String()); !strings.Contains(said, "team/web "+problem+"\n") || strings.Contains(said, "team/fine placement") {
		t.Errorf("it says\n%s", said)
	}
	out.Reset()
	refusing := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, ok := list.(*workv1alpha1.ManifestWorkReplicaSetList); ok {
			return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
		}
		return c.List(ctx, list, options...)
	}}
	if err := printStatus(t, &out, b().WithInterceptorFuncs(refusing).Build()); err != nil {
		t.Fatal(err)
	}
	if said := out.String(); !strings.Contains(said, "not shown: the replica sets, which you may not list") {
		t.Errorf("it says\n%s", said)
	}
}
