package clusterimport

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// A hub that is killed between two writes never asks for a kubeconfig again that it has
// used: what was done with it is on record before it goes.
func TestKilledBetweenTheRecordAndTheKubeconfig(t *testing.T) {
	killed := errors.New("killed")
	for name, x := range map[string]struct {
		// writes is how many writes of the status the hub lives through.
		writes int
		// deletes says that it lives through the deletion of the Secret.
		deletes bool
		// kept says that the Secret is there when it is killed.
		kept bool
	}{
		"before the record":       {writes: 0, deletes: true, kept: true},
		"before the deletion":     {writes: 1, deletes: false, kept: true},
		"before the last report":  {writes: 1, deletes: true, kept: false},
		"after all that is to do": {writes: 2, deletes: true, kept: false},
	} {
		t.Run(name, func(t *testing.T) {
			imp := &v1alpha1.ClusterImport{
				Spec: v1alpha1.ClusterImportSpec{KubeconfigSecret: "paris", Redeploy: 2, Rejoin: 3},
			}
			imp.Name, imp.UID, imp.Generation, imp.Finalizers = "paris", "u", 1, []string{muster.ImportFinalizer}
			imp.Spec.Endpoint = v1alpha1.HubEndpoint{Server: "https://hub", CABundle: []byte("ca")}
			mc := &clusterv1.ManagedCluster{Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}
			mc.Name = "paris"
			mc.Status.Conditions = []metav1.Condition{{Type: cluster.ConditionJoined, Status: metav1.ConditionTrue}}
			secret, published := &corev1.Secret{}, &corev1.ConfigMap{}
			secret.Namespace, secret.Name = muster.ImportNamespace, "paris"
			published.Namespace, published.Name = metav1.NamespacePublic, hubinfo.ClusterInfo
			alive := fake.NewClientBuilder().WithScheme(api.Scheme()).WithStatusSubresource(imp).
				WithObjects(imp, mc, secret, published).Build()
			left := x.writes
			dying := interceptor.NewClient(alive, interceptor.Funcs{
				SubResourcePatch: func(
					ctx context.Context, c client.Client, of string, o client.Object, p client.Patch,
					opts ...client.SubResourcePatchOption,
				) error {
					if left--; left < 0 {
						return killed
					}
					return c.SubResource(of).Patch(ctx, o, p, opts...)
				},
				Delete: func(
					ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption,
				) error {
					if !x.deletes {
						return killed
					}
					return c.Delete(ctx, o, opts...)
				},
			})
			controller := func(c client.Client) *Controller {
				clk := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
				return NewController(c, alive, events.NewFakeRecorder(100), clk, Options{})
			}
			key := client.ObjectKey{Name: "paris"}
			is := func() *v1alpha1.ClusterImport {
				t.Helper()
				now := &v1alpha1.ClusterImport{}
				if err := alive.Get(t.Context(), key, now); err != nil {
					t.Fatal(err)
				}
				return now
			}

			hub := controller(dying)
			j := &job{imp: is(), status: &v1alpha1.ClusterImportStatus{}, cluster: mc, secret: secret}
			if err := alive.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
				t.Fatal(err)
			}
			to, err := hub.endpointOf(t.Context(), imp)
			if err != nil {
				t.Fatal(err)
			}
			_, hash, err := render(imp, to, nil)
			if err != nil {
				t.Fatal(err)
			}
			j.status.AppliedHash, j.status.Redeployed = hash, 2
			hub.set(j, muster.ConditionAgentInstalled, yes, muster.ReasonInstalled, "It runs.")
			if _, err := hub.conclude(t.Context(), j, true, true); err != nil {
				t.Fatal(err)
			}
			if err := hub.settle(t.Context(), j); errors.Is(err, killed) != (x.writes < 2) {
				t.Fatal(err)
			}
			err = alive.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
			if kept := !apierrors.IsNotFound(err); kept != x.kept {
				t.Fatalf("the kubeconfig is kept: %t, %v", kept, err)
			}
			if x.kept {
				return // and will be used once more
			}

			if _, err := controller(alive).Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			now := is().Status
			if now.AppliedHash != hash || now.Redeployed != 2 || now.Rejoined != 3 {
				t.Errorf("the record is lost: %+v", now)
			}
			for condition, reason := range map[string]string{
				muster.ConditionKubeconfigUsable: muster.ReasonForgotten,
				muster.ConditionAgentInstalled:   muster.ReasonInstalled,
				muster.ConditionJoined:           muster.ReasonClusterJoined,
			} {
				if c := meta.FindStatusCondition(now.Conditions, condition); c == nil || c.Reason != reason {
					t.Errorf("%s is %+v, want %s", condition, c, reason)
				}
			}
		})
	}
}
