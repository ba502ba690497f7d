package controlplane_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
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
	const prefix, label = "aggregation-", "example.org/aggregation"
	red, blue := map[string]string{label: "red"}, map[string]string{label: "blue"}
	client := admin(t, shared)
	all := client.RbacV1().ClusterRoles()
	create := func(r *rbacv1.ClusterRole) error {
		r.Name = prefix + r.Name
		t.Cleanup(func() { _ = all.Delete(context.Background(), r.Name, metav1.DeleteOptions{}) })
		_, err := all.Create(t.Context(), r, metav1.CreateOptions{})
		return err
	}
	update := func(r *rbacv1.ClusterRole) error {
		now, err := all.Get(t.Context(), prefix+r.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Labels, now.AggregationRule = r.Labels, r.AggregationRule
		_, err = all.Update(t.Context(), now, metav1.UpdateOptions{})
		return err
	}
	remove := func(name string) error { return all.Delete(t.Context(), prefix+name, metav1.DeleteOptions{}) }
	testkit.Must(t, create(clusterRole("all", nil, map[string]string{label: "green"}, red)))
	factory := informers.NewSharedInformerFactory(client, 0)
	roles, err := controlplane.NewAggregatedRoles(factory.Rbac().V1().ClusterRoles())
	testkit.Must(t, err)
	var mu sync.Mutex
	var heard []string
	hear := func(what string) func(any) {
		return func(o any) {
			mu.Lock()
			defer mu.Unlock()
			if r, ok := o.(*rbacv1.ClusterRole); ok && strings.HasPrefix(r.Name, prefix) {
				heard = append(heard, what+" "+strings.TrimPrefix(r.Name, prefix))
			}
		}
	}
	_, err = roles.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: hear("add"), DeleteFunc: hear("delete"),
		UpdateFunc: func(_, now any) { hear("update")(now) },
	})
	testkit.Must(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
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
		{func() error { return update(clusterRole("other", map[string]string{label: "blue", "a": "b"})) },
			[]string{"update other"}},
		{func() error { return update(clusterRole("new", nil)) }, []string{"delete new"}},
		{func() error { return remove("other") }, nil},
		{func() error { return create(clusterRole("last", red)) }, []string{"add last"}},
		{func() error { return remove("last") }, []string{"delete last"}},
	} {
		if step.do != nil {
			testkit.Must(t, step.do())
		}
		// What comes after it is heard after it.
		testkit.Must(t, create(clusterRole("marker", red)))
		testkit.Must(t, remove("marker"))
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
