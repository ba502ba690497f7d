package admission

import (
	"context"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// Whatever is written as a ManagedCluster: it is refused in words, or what is
// stored keeps the rules, and nothing else of it has changed.
func FuzzManagedCluster(f *testing.F) {
	for _, x := range []struct{ now, before string }{
		{`{"metadata":{"name":"paris"}}`, ``},
		{`{"metadata":{"name":"paris","labels":{"cluster.open-cluster-management.io/clusterset":"blue"}},"spec":{"hubAcceptsClient":true}}`, ``},
		{`{"metadata":{"name":"paris"},"spec":{"taints":[{"key":"a","effect":"NoSelect","timeAdded":"2026-01-01T00:00:00Z"},{"key":"a","effect":"NoSelect"}]}}`, ``},
		{`{"metadata":{"name":"paris"},"spec":{"taints":[{"key":"a","effect":"NoSelect"}]}}`, `{"metadata":{"name":"paris"},"spec":{"taints":[{"key":"a","effect":"NoSelect","timeAdded":"2026-01-01T00:00:00Z"}]}}`},
		{`{"metadata":{"name":"paris"},"spec":{"hubAcceptsClient":true}}`, `{"metadata":{"name":"paris"},"spec":{"hubAcceptsClient":false}}`},
		{`{"metadata":{"name":"A_B"},"spec":{"managedClusterClientConfigs":[{"url":"http://x"}]}}`, ``},
		{`{"metadata":{"name":"rome","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["x"]}}`, `{"metadata":{"name":"rome","finalizers":["x","y"]}}`},
		{`{"metadata":[],"spec":"x"}`, `{}`},
		{`{"metadata":{"labels":"x"},"spec":{"taints":{"a":1}}}`, ``},
		{`{"spec":null}`, `{"metadata":null}`},
	} {
		for _, allow := range []bool{true, false} {
			f.Add([]byte(x.now), []byte(x.before), allow, "")
			f.Add([]byte(x.now), []byte(x.before), allow, "paris")
		}
	}
	known := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := known.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lima"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}); err != nil {
		f.Fatal(err)
	}
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data, oldData []byte, allow bool, bound string) {
		now, before := object(data), object(oldData)
		if now == nil {
			return
		}
		s := decided(allow)
		s.namespaces, s.secrets = corelisters.NewNamespaceLister(known), corelisters.NewSecretLister(known)
		s.client = fake.NewClientset()
		clk := clocktesting.NewFakePassiveClock(at)
		p := managedClusters{server: s, clock: clk, defaultSet: true, cleanResources: true}
		var groups []string
		if bound != "" {
			groups = []string{cluster.BoundBootstrapGroup(bound)}
		}
		resource := clusterv1.GroupVersion.WithResource("managedclusters")
		sent := now.DeepCopy()
		a := attributes(now, before, resource, groups...)
		if err := p.Admit(context.Background(), a, nil); err != nil {
			mustExplain(t, err)
			return
		}
		// A write of what was read changes nothing.
		again := now.DeepCopy()
		if err := p.Admit(context.Background(), attributes(again, now.DeepCopy(), resource, groups...), nil); err != nil {
			t.Errorf("written back, it is refused: %v", err)
		}
		if !reflect.DeepEqual(again, now) {
			t.Errorf("written back, it becomes %v, and was %v", again, now)
		}
		if err := p.Validate(context.Background(), a, nil); err != nil {
			mustExplain(t, err)
			return
		}
		mc := as[clusterv1.ManagedCluster](t, now)
		var was clusterv1.ManagedCluster
		if before != nil {
			was = as[clusterv1.ManagedCluster](t, before)
		}
		for _, c := range mc.Spec.ManagedClusterClientConfigs {
			if u, err := url.Parse(c.URL); err != nil || u.Scheme != "https" {
				t.Errorf("let in with the address %q", c.URL)
			}
		}
		if !allow && mc.Spec.AcceptsClient() && !was.Spec.AcceptsClient() {
			t.Error("accepted by one who may not")
		}
		if set := mc.Labels[cluster.ClusterSetLabel]; !allow && set != was.Labels[cluster.ClusterSetLabel] {
			t.Errorf("moved to the set %q by one who may not", set)
		}
		if bound != "" && mc.Name != bound {
			t.Errorf("a token for %q has written %q", bound, mc.Name)
		}
		if mc.Spec.AcceptsClient() && !was.Spec.AcceptsClient() && mc.Name == "lima" {
			t.Error("accepted while its namespace is going")
		}
		if !reflect.DeepEqual(rest(now), rest(sent)) {
			t.Errorf("what was sent as %v is stored as %v", sent, now)
		}
		checkTaints(t, mc.Spec.Taints, was.Spec.Taints, before == nil, at)
		checkCompletion(t, &mc, as[clusterv1.ManagedCluster](t, sent).Finalizers, before == nil)
	})
}

// rest is an object without what admission may complete, and without fields
// that say nothing.
func rest(u *unstructured.Unstructured) any {
	o := u.DeepCopy().Object
	unstructured.RemoveNestedField(o, "metadata", "labels", cluster.ClusterSetLabel)
	unstructured.RemoveNestedField(o, "metadata", "finalizers")
	unstructured.RemoveNestedField(o, "spec", "taints")
	return meaningful(o)
}

func meaningful(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, v := range m {
		if v = meaningful(v); v != nil {
			out[k] = v
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// checkTaints checks that a taint's time is when it came or changed, and stays.
func checkTaints(t *testing.T, now, before []clusterv1.Taint, create bool, at time.Time) {
	t.Helper()
	for _, taint := range now {
		stays := slices.ContainsFunc(before, func(o clusterv1.Taint) bool {
			return o.Key == taint.Key && o.Value == taint.Value && o.Effect == taint.Effect && o.TimeAdded.Equal(taint.TimeAdded)
		})
		if stays && !create {
			continue
		}
		if taint.TimeAdded == nil || !taint.TimeAdded.Time.Equal(at) {
			t.Errorf("the taint %+v does not have the time %s, and is not one of %+v", taint, at, before)
		}
	}
}

// checkCompletion checks that what the controllers rely on is there.
func checkCompletion(t *testing.T, mc *clusterv1.ManagedCluster, sent []string, create bool) {
	t.Helper()
	if mc.DeletionTimestamp != nil {
		if !slices.Equal(mc.Finalizers, sent) {
			t.Errorf("the deleted cluster has the finalizers %q instead of %q", mc.Finalizers, sent)
		}
		return
	}
	if mc.Labels[cluster.ClusterSetLabel] == "" {
		t.Error("let in without a set")
	}
	if create && !slices.ContainsFunc(mc.Spec.Taints, isUnreachable) {
		t.Error("not unreachable although nobody has heard of it")
	}
	if create && !slices.Contains(mc.Finalizers, cluster.ResourceCleanupFinalizer) || mc.Spec.AcceptsClient() && !slices.Contains(mc.Finalizers, cluster.APIResourceCleanupFinalizer) {
		t.Errorf("let in with the finalizers %q", mc.Finalizers)
	}
	if create && len(validation.IsDNS1123Label(mc.Name)) > 0 {
		t.Errorf("let in with the name %q", mc.Name)
	}
}
