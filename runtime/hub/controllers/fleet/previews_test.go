package fleet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	fleetcontrollers "github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/fleet"
)

func TestPreviewsGoAfterSomeMinutes(t *testing.T) {
	ctx, c := context.Background(), env.Client()
	namespace := testenv.Namespace(t, c)
	preview := func(name string) *musterv1alpha1.WorkPreview {
		p := &musterv1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		p.Spec.WorkName = "w"
		testkit.Must(t, c.Create(ctx, p))
		return p
	}
	young := preview("young")
	now := young.CreationTimestamp.Time
	early := fleetcontrollers.NewPreviews(
		c,
		clocktesting.NewFakePassiveClock(now.Add(muster.PreviewLifetime-time.Second)),
	)
	result, err := early.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(young)})
	if err != nil || result.RequeueAfter != time.Second {
		t.Errorf("before its time: %+v, %v, want to come back after a second", result, err)
	}
	testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(young), young))
	clk := clocktesting.NewFakePassiveClock(now.Add(muster.PreviewLifetime + time.Minute))
	env.StartManager(
		t,
		func(m manager.Manager) error { return fleetcontrollers.NewPreviews(m.GetClient(), clk).Register(m) },
	)
	for _, p := range []*musterv1alpha1.WorkPreview{young, preview("later")} {
		testkit.Eventually(t, func() error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(p), p); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the preview %s is still there (%v)", p.Name, err)
			}
			return nil
		})
	}
}

// The agent learns of previews from its ManagedCluster: once for each that is new, and
// never of an earlier one.
func TestPreviewsAreAnnounced(t *testing.T) {
	ctx, c := context.Background(), env.Client()
	namespace := testenv.Namespace(t, c)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	testkit.Must(t, c.Create(ctx, mc))
	controller := fleetcontrollers.NewPreviews(c, clocktesting.NewFakePassiveClock(time.Now()))
	announce := func(p *musterv1alpha1.WorkPreview) (asked string) {
		t.Helper()
		_, err := controller.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		testkit.Must(t, err)
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(mc), mc))
		return mc.Annotations[muster.PreviewsAskedAnnotation]
	}
	var previews []*musterv1alpha1.WorkPreview
	for _, name := range []string{"a", "b"} {
		p := &musterv1alpha1.WorkPreview{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		p.Spec.WorkName = "w"
		testkit.Must(t, c.Create(ctx, p))
		previews = append(previews, p)
	}
	if asked := announce(previews[1]); asked != previews[1].ResourceVersion {
		t.Errorf("what is announced is %q, want %q", asked, previews[1].ResourceVersion)
	}
	before := mc.ResourceVersion
	if asked := announce(previews[0]); asked != previews[1].ResourceVersion || mc.ResourceVersion != before {
		t.Errorf("an earlier preview is announced: %q", asked)
	}
}
