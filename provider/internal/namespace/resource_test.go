package namespace

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

func TestWhichNamespacesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		name   string
		labels map[string]string
		want   string
	}{
		"free":                {name: "fleet"},
		"free, with labels":   {name: "fleet", labels: map[string]string{"team": "shop"}},
		"begins like another": {name: "kubeflow"},
		"default":             {name: "default", want: "everybody's"},
		"of Kubernetes":       {name: "kube-anything", want: "Kubernetes' own"},
		"of the hub":          {name: cluster.Namespace, want: "the hub's and the agents' own"},
		"of the agents":       {name: cluster.AgentNamespace, want: "the hub's and the agents' own"},
		"of a cluster":        {name: "paris", labels: map[string]string{cluster.NameLabel: "paris"}, want: `belongs to the managed cluster "paris"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := refused(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: test.name, Labels: test.labels}})
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestADeletionThatLastsSaysWhatHoldsIt(t *testing.T) {
	since := metav1.NewTime(time.Now().Add(-time.Minute))
	object := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet", DeletionTimestamp: &since, Finalizers: []string{"example.com/mine"}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes", "example.com/theirs"}},
		Status: corev1.NamespaceStatus{Conditions: []corev1.NamespaceCondition{
			{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Reason: "ResourcesDiscovered", Message: "all found"},
			{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue, Reason: "SomeFinalizersRemain", Message: "example.com/wait in 1 resource instances", LastTransitionTime: since},
		}},
	}
	got := hub.DescribeDeletion(object, time.Now())
	for _, want := range []string{"asked for 60s ago", "Finalizer example.com/mine", "Finalizer example.com/theirs", "NamespaceFinalizersRemaining (SomeFinalizersRemain, for 60s): example.com/wait in 1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	for _, unwanted := range []string{"all found", "Finalizer kubernetes"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("%q is in:\n%s", unwanted, got)
		}
	}
}
