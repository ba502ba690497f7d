package controlplane_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

func clusterRole(name string, labels map[string]string, selects ...map[string]string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	for _, s := range selects {
		if r.AggregationRule == nil {
			r.AggregationRule = &rbacv1.AggregationRule{}
		}
		r.AggregationRule.ClusterRoleSelectors = append(
			r.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: s})
	}
	return r
}

// The controller that aggregates cluster roles does nothing for those of managed clusters.
func TestAggregationHearsOfWhatItConcerns(t *testing.T) {
	red, blue := map[string]string{"color": "red"}, map[string]string{"color": "blue"}
	client := fake.NewClientset(clusterRole("all", nil, map[string]string{"color": "green"}, red))
	factory := informers.NewSharedInformerFactory(client, 0)
	roles, err := controlplane.NewAggregatedRoles(factory.Rbac().V1().ClusterRoles())
	testkit.Must(t, err)
	var mu sync.Mutex
	var heard []string
	hear := func(what string) func(any) {
		return func(o any) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, what+" "+o.(*rbacv1.ClusterRole).Name)
		}
	}
	_, err = roles.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: hear("add"), DeleteFunc: hear("delete"),
		UpdateFunc: func(_, now any) { hear("update")(now) },
	})
	testkit.Must(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	all, version := client.RbacV1().ClusterRoles(), 0
	versioned := func(r *rbacv1.ClusterRole) *rbacv1.ClusterRole {
		version++
		r.ResourceVersion = fmt.Sprint(version)
		return r
	}
	create := func(r *rbacv1.ClusterRole) error {
		_, err := all.Create(t.Context(), versioned(r), metav1.CreateOptions{})
		return err
	}
	update := func(r *rbacv1.ClusterRole) error {
		_, err := all.Update(t.Context(), versioned(r), metav1.UpdateOptions{})
		return err
	}
	for _, step := range []struct {
		do   func() error
		want []string
	}{
		{nil, []string{"add all"}},
		{func() error { return create(clusterRole("one", red)) }, []string{"add one"}},
		{func() error { return create(clusterRole("other", blue)) }, nil},
		{func() error { return update(clusterRole("one", nil)) }, []string{"delete one"}},
		{func() error { return update(clusterRole("one", blue)) }, nil},
		{func() error { return create(clusterRole("new", nil, blue)) }, []string{"add new"}},
		{func() error { return update(clusterRole("other", blue)) }, []string{"update other"}},
		{func() error { return update(clusterRole("new", nil)) }, []string{"delete new"}},
		{func() error { return all.Delete(t.Context(), "other", metav1.DeleteOptions{}) }, nil},
		{func() error { return create(clusterRole("last", red)) }, []string{"add last"}},
		{func() error { return all.Delete(t.Context(), "last", metav1.DeleteOptions{}) }, []string{"delete last"}},
	} {
		if step.do != nil {
			testkit.Must(t, step.do())
		}
		// What comes after it is heard after it.
		marker := clusterRole("marker", red)
		testkit.Must(t, create(marker))
		testkit.Must(t, all.Delete(t.Context(), marker.Name, metav1.DeleteOptions{}))
		testkit.Eventually(t, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(heard, "delete marker") {
				return errors.New("the marker is not heard of yet")
			}
			return nil
		})
		mu.Lock()
		got := slices.DeleteFunc(heard, func(s string) bool { return s == "add marker" || s == "delete marker" })
		heard = nil
		mu.Unlock()
		if !slices.Equal(got, step.want) {
			t.Errorf("it hears %q, want %q", got, step.want)
		}
	}
}
