package hub_test

import (
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub"
)

// A hub that accepts clusters by itself is not alone: Terraform, clusteradm and
// manifests of accepted clusters do so at the same time.
func TestAcceptedBySeveralAtOnce(t *testing.T) {
	ctx := context.Background()
	c := otherHub(t, hub.Options{AutoApprove: []string{"somebody"}}, "")
	isIn := func(t *testing.T, name string) {
		t.Helper()
		testkit.Eventually(t, func() error {
			mc := newCluster(name)
			if err := c.Get(ctx, client.ObjectKeyFromObject(mc), mc); err != nil {
				return err
			}
			if !meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, cluster.ConditionHubAccepted, metav1.ConditionTrue) {
				return fmt.Errorf("the cluster %s has the conditions %+v", name, mc.Status.Conditions)
			}
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: cluster.WorkBindingName(name)}}
			return c.Get(ctx, client.ObjectKeyFromObject(binding), binding)
		})
	}
	t.Run("created accepted", func(t *testing.T) {
		mc := newCluster("born")
		mc.Spec.HubAcceptsClient = ptr.To(true)
		testkit.Must(t, c.Create(ctx, mc))
		isIn(t, "born")
	})
	t.Run("accepted a little after it was created", func(t *testing.T) {
		// The reads in between spread the acceptances over the time that the hub
		// takes to accept a cluster itself.
		const clusters = 80
		var group errgroup.Group
		group.SetLimit(4)
		for i := range clusters {
			group.Go(func() error {
				mc := newCluster(fmt.Sprintf("both-%d", i))
				if err := c.Create(ctx, mc); err != nil {
					return err
				}
				for range i % 8 {
					if err := c.Get(ctx, client.ObjectKeyFromObject(mc), newCluster("")); err != nil {
						return err
					}
				}
				return c.Patch(ctx, mc, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":true}}`)))
			})
		}
		testkit.Must(t, group.Wait())
		for i := range clusters {
			isIn(t, fmt.Sprintf("both-%d", i))
		}
	})
}
