package hub_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// watched is a part of a hub that an upstream agent keeps a cache of.
type watched struct {
	resource  schema.GroupVersionResource
	namespace string
	selection metav1.ListOptions
}

// bootstrapWatches are what upstream's agent watches until it has a
// certificate, and agentWatches what it and the work agent watch from then on.
// A cache that can't be filled ends the agent after ten minutes.
func bootstrapWatches(name string) []watched {
	return []watched{
		{schema.GroupVersionResource{Group: clustersGroup, Version: "v1", Resource: "managedclusters"}, "", metav1.ListOptions{FieldSelector: "metadata.name=" + name}},
		{schema.GroupVersionResource{Group: requestsGroup, Version: "v1", Resource: "certificatesigningrequests"}, "", metav1.ListOptions{LabelSelector: cluster.NameLabel + "=" + name}},
	}
}

func agentWatches(name string) []watched {
	return append(bootstrapWatches(name),
		watched{schema.GroupVersionResource{Group: addOnsGroup, Version: "v1beta1", Resource: "managedclusteraddons"}, name, metav1.ListOptions{}},
		watched{schema.GroupVersionResource{Group: worksGroup, Version: "v1", Resource: "manifestworks"}, name, metav1.ListOptions{}},
	)
}

// informers are client-go's ordinary caches of what is watched, filled.
func informers(t testing.TB, config *rest.Config, all []watched) map[string]cache.SharedIndexInformer {
	t.Helper()
	objects, err := dynamic.NewForConfig(config)
	testkit.Must(t, err)
	caches := map[string]cache.SharedIndexInformer{}
	for _, x := range all {
		f := dynamicinformer.NewFilteredDynamicSharedInformerFactory(objects, 10*time.Minute, x.namespace, func(o *metav1.ListOptions) {
			o.FieldSelector, o.LabelSelector = x.selection.FieldSelector, x.selection.LabelSelector
		})
		caches[x.resource.Resource] = f.ForResource(x.resource).Informer()
		f.Start(t.Context().Done())
	}
	for what, c := range caches {
		testkit.Eventually(t, func() error {
			if !c.HasSynced() {
				return fmt.Errorf("the cache of %s is not filled", what)
			}
			return nil
		})
	}
	return caches
}

// cached is an object in a cache.
type cached struct{ *unstructured.Unstructured }

// text is a field of the object, "" when it is not there.
func (c cached) text(path ...string) string {
	s, _, _ := unstructured.NestedString(c.Object, path...)
	return s
}

// conditionIs says how a condition differs from what it should be.
func (c cached) conditionIs(kind string, status metav1.ConditionStatus, reason, message string) error {
	var o struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Object, &o); err != nil {
		return err
	}
	return conditionIs(o.Status.Conditions, kind, status, reason, message)
}

// sees waits until a cache holds an object in a state.
func sees(t testing.TB, c cache.SharedIndexInformer, key string, state func(cached) error) {
	t.Helper()
	testkit.Eventually(t, func() error {
		o, ok, err := c.GetStore().GetByKey(key)
		if err != nil || !ok {
			return fmt.Errorf("%q is not in the cache (%w)", key, err)
		}
		return state(cached{o.(*unstructured.Unstructured)})
	})
}

// Agents of different ages fill their caches in different ways: the newer ones
// with a watch that begins with all objects, the older ones with a list.
func TestUpstreamAgentsFillTheirCaches(t *testing.T) {
	name := clusterName(t, "watching")
	config := joined(t, name, "a")
	objects, err := dynamic.NewForConfig(config)
	testkit.Must(t, err)
	ways := map[string]func(*testing.T, dynamic.ResourceInterface, metav1.ListOptions){
		"a watch":          fillsByWatch,
		"a list and watch": fillsByList,
	}
	for _, x := range agentWatches(name) {
		for way, fills := range ways {
			t.Run(x.resource.Resource+" by "+way, func(t *testing.T) {
				x.selection.TimeoutSeconds = ptr.To(int64(30))
				fills(t, objects.Resource(x.resource).Namespace(x.namespace), x.selection)
			})
		}
	}
}

// fillsByWatch checks that a watch sends what there is, and a bookmark that says
// so.
func fillsByWatch(t *testing.T, r dynamic.ResourceInterface, o metav1.ListOptions) {
	o.SendInitialEvents, o.AllowWatchBookmarks, o.ResourceVersionMatch = ptr.To(true), true, metav1.ResourceVersionMatchNotOlderThan
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout)
	defer cancel()
	w, err := r.Watch(ctx, o)
	testkit.Must(t, err)
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Added {
			continue
		}
		object, err := meta.Accessor(e.Object)
		testkit.Must(t, err)
		if e.Type != watch.Bookmark || object.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" || object.GetResourceVersion() == "" {
			t.Errorf("got %s %+v, want the bookmark after all objects", e.Type, e.Object)
		}
		return
	}
	t.Error("the watch ended before the bookmark")
}

// fillsByList checks that a watch goes on where a list from the server's cache
// ends.
func fillsByList(t *testing.T, r dynamic.ResourceInterface, o metav1.ListOptions) {
	o.ResourceVersion = "0"
	list, err := r.List(t.Context(), o)
	testkit.Must(t, err)
	if list.GetResourceVersion() == "" || list.GetResourceVersion() == "0" {
		t.Fatalf("the list has the version %q", list.GetResourceVersion())
	}
	o.ResourceVersion, o.AllowWatchBookmarks, o.TimeoutSeconds = list.GetResourceVersion(), true, ptr.To(int64(1))
	w, err := r.Watch(t.Context(), o)
	testkit.Must(t, err)
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error || e.Type == watch.Added {
			t.Errorf("the watch after the list sends %s %+v", e.Type, e.Object)
		}
	}
}
