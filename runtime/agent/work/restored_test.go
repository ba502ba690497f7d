package work_test

import (
	"context"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work"
	apiwork "github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

// binding gives the group of a key rights in the fixture's namespace.
func (f *fixture) binding(key string) string {
	return fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: key-%s, namespace: TARGET},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
		subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "muster-key:%s"}]}`, key, key)
}

// A hub that was restored from a backup has the work of that time, as another
// object. What was bound since then is removed, though no deletion of it was ever
// seen.
func TestBindingsThatARestoredHubDoesNotNameAreRemoved(t *testing.T) {
	f := newFixture(t)
	ctx := context.Background()
	mw := f.create("cloud", nil, f.manifest(f.binding("old")), f.manifest(f.binding("new")))
	f.wait(mw, apiwork.ConditionAvailable, metav1.ConditionTrue)
	f.stop()
	mw.Finalizers = nil
	f.must(f.client.Update(ctx, mw))
	f.must(f.client.Delete(ctx, mw))
	f.gone(mw)
	restored := f.create("cloud", nil, f.manifest(f.binding("old")))
	f.start(work.Options{})
	f.wait(restored, apiwork.ConditionAvailable, metav1.ConditionTrue)
	testenv.Eventually(t, func() error {
		err := f.client.Get(ctx, client.ObjectKey{Namespace: f.target, Name: "key-new"}, &rbacv1.RoleBinding{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the binding of the new key: %v", err)
		}
		return nil
	})
	f.must(f.client.Get(ctx, client.ObjectKey{Namespace: f.target, Name: "key-old"}, &rbacv1.RoleBinding{}))
}
