package registration_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testfleet"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/registration/clientid"
)

// leftover is a cluster that was created for a registration.
func leftover(w *testworld.World, change func(*clusterv1.ManagedCluster)) *clusterv1.ManagedCluster {
	w.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "left-" + string(uuid.NewUUID()[:8]), Labels: map[string]string{muster.RegistrationLabel: "agent-x"},
	}}
	if change != nil {
		change(mc)
	}
	w.Make(mc)
	return mc
}

func isGoneAfter(w *testworld.World, mc *clusterv1.ManagedCluster, after time.Duration) (gone bool) {
	w.Helper()
	clk := clocktesting.NewFakePassiveClock(mc.CreationTimestamp.Add(after))
	w.Reconcile(clientid.NewLeftovers(w.Client, w.Client, clk), types.NamespacedName{Name: mc.Name})
	err := w.Get(context.Background(), client.ObjectKeyFromObject(mc), mc)
	w.Must(client.IgnoreNotFound(err))
	return apierrors.IsNotFound(err)
}

func TestClusterThatNeverCameFurtherGoes(t *testing.T) {
	w := env.World(t)
	mc := leftover(w, nil)
	if isGoneAfter(w, mc, clientid.KeepUnused-time.Second) {
		t.Fatal("it is gone too early")
	}
	if !isGoneAfter(w, mc, clientid.KeepUnused) {
		t.Error("it is still there")
	}
}

func TestClusterThatCameFurtherStays(t *testing.T) {
	ctx := context.Background()
	for name, change := range map[string]func(*testworld.World, *clusterv1.ManagedCluster){
		"its agent waits for an approval": func(w *testworld.World, mc *clusterv1.ManagedCluster) {
			r, _ := testfleet.CertificateRequest(w, mc.Name, "a")
			w.Make(r)
		},
		"somebody has labelled it": func(w *testworld.World, mc *clusterv1.ManagedCluster) {
			w.Must(w.Patch(ctx, mc, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"env":"prod"}}}`)), client.FieldOwner("kubectl-label")))
		},
		"it has joined": func(w *testworld.World, mc *clusterv1.ManagedCluster) {
			mc.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()}}
			w.Must(w.Status().Update(ctx, mc))
		},
		"the hub has accepted it": func(w *testworld.World, mc *clusterv1.ManagedCluster) {
			mc.Spec.HubAcceptsClient = ptr.To(true)
			w.Must(w.Update(ctx, mc))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := env.World(t)
			mc := leftover(w, nil)
			change(w, mc)
			if isGoneAfter(w, mc, 10*clientid.KeepUnused) {
				t.Error("it is gone")
			}
		})
	}
}

// An agent with a certificate waits for its acceptance without any request.
func TestClusterWithAnApprovedRequestIsNobodysLeftover(t *testing.T) {
	w := env.World(t)
	mc := leftover(w, nil)
	r, _ := testfleet.CertificateRequest(t, mc.Name, "a")
	w.Make(r)
	w.Must(testfleet.Approve(context.Background(), testfleet.Clientset(t, env.Config("muster-test")), r))
	if isGoneAfter(w, mc, time.Minute) || mc.Labels[muster.RegistrationLabel] != "" {
		t.Errorf("the labels are %v", mc.Labels)
	}
}

func TestRegistrationsGoWhenNobodyNeedsThem(t *testing.T) {
	w, ctx := env.World(t), context.Background()
	there := leftover(w, nil)
	for name, x := range map[string]struct {
		cluster string // of the answer; empty when it was refused
		after   time.Duration
		gone    bool
	}{
		"answered a moment ago":                {there.Name, time.Minute, false},
		"answered long ago":                    {there.Name, clientid.KeepAnswered + time.Minute, true},
		"answered with a cluster that is gone": {"gone", time.Second, true},
		"refused long ago":                     {"", clientid.KeepRefused + time.Second, true},
	} {
		r := &musterv1alpha1.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{Name: string(uuid.NewUUID())},
			Spec:       musterv1alpha1.ClusterRegistrationSpec{ClientID: "x", ClusterUID: "u"},
		}
		w.Make(r)
		answer := metav1.Condition{Type: muster.ConditionRegistered, Status: metav1.ConditionFalse, Reason: muster.ReasonProofRequired, LastTransitionTime: r.CreationTimestamp}
		if x.cluster != "" {
			answer.Status, answer.Reason, r.Status.ClusterName = metav1.ConditionTrue, muster.ReasonRegistered, x.cluster
		}
		r.Status.Conditions = []metav1.Condition{answer}
		w.Must(w.Status().Update(ctx, r))
		c := clientid.NewController(w.Client, w.Client, w.Client, events.NewFakeRecorder(9), clocktesting.NewFakePassiveClock(r.CreationTimestamp.Add(x.after)))
		result := w.Reconcile(c, client.ObjectKeyFromObject(r))
		err := w.Get(ctx, client.ObjectKeyFromObject(r), r)
		w.Must(client.IgnoreNotFound(err))
		if apierrors.IsNotFound(err) != x.gone || !x.gone && result.RequeueAfter <= 0 {
			t.Errorf("%s: gone is %v, looked at again in %s", name, apierrors.IsNotFound(err), result.RequeueAfter)
		}
	}
}
