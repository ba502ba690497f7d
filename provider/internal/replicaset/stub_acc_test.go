package replicaset_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
)

// replicaSetHub is a hub that holds one replica set, shop/web, whose controller is
// the test: it reports when and what the test wants, which a real one would not.
type replicaSetHub struct {
	url string

	mu       sync.Mutex
	created  *sync.Cond // for those who wait until there is an object
	version  int
	object   *workv1alpha1.ManifestWorkReplicaSet
	works    []workv1.ManifestWork
	watchers map[chan []byte]bool
}

func newReplicaSetHub(t *testing.T) *replicaSetHub {
	t.Helper()
	h := &replicaSetHub{version: 100, watchers: map[chan []byte]bool{}}
	h.created = sync.NewCond(&h.mu)
	api := httptest.NewServer(h)
	t.Cleanup(func() {
		h.mu.Lock()
		for watcher := range h.watchers {
			close(watcher)
		}
		h.watchers = map[chan []byte]bool{}
		h.mu.Unlock()
		api.Close()
	})
	h.url = api.URL
	return h
}

func (h *replicaSetHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const group = "/apis/work.open-cluster-management.io/"
	at := strings.TrimPrefix(r.URL.Path, group)
	switch {
	case at == "v1/manifestworks" && r.URL.Query().Get("labelSelector") == "work.open-cluster-management.io/manifestworkreplicaset=shop.web":
		h.mu.Lock()
		defer h.mu.Unlock()
		reply(w, http.StatusOK, &workv1.ManifestWorkList{
			TypeMeta: metav1.TypeMeta{APIVersion: "work.open-cluster-management.io/v1", Kind: "ManifestWorkList"}, Items: h.works,
		})
	case r.URL.Path == "/apis/cluster.open-cluster-management.io/v1/managedclusters":
		paris := clusterv1.ManagedCluster{}
		paris.Name = "paris" // about which nothing is known
		reply(w, http.StatusOK, &clusterv1.ManagedClusterList{
			TypeMeta: metav1.TypeMeta{APIVersion: "cluster.open-cluster-management.io/v1", Kind: "ManagedClusterList"}, Items: []clusterv1.ManagedCluster{paris},
		})
	case at == "v1alpha1/namespaces/shop/manifestworkreplicasets" && r.URL.Query().Get("watch") != "":
		h.watch(w, r)
	case at == "v1alpha1/namespaces/shop/manifestworkreplicasets/web":
		h.serveObject(w, r)
	default:
		http.Error(w, "unexpected "+r.Method+" "+r.URL.String(), http.StatusTeapot)
	}
}

func (h *replicaSetHub) serveObject(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case r.Method == http.MethodPatch:
		wanted := &workv1alpha1.ManifestWorkReplicaSet{}
		if err := json.NewDecoder(r.Body).Decode(wanted); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.URL.Query().Get("dryRun") != "" {
			reply(w, http.StatusOK, wanted)
			return
		}
		h.Apply(wanted)
	case h.object == nil:
		reply(w, http.StatusNotFound, &metav1.Status{
			Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound, Details: &metav1.StatusDetails{Name: "web", Kind: "manifestworkreplicasets"},
		})
		return
	case r.Method == http.MethodDelete && len(h.object.Finalizers) > 0:
		now := metav1.NewTime(time.Now())
		h.object.DeletionTimestamp = &now
		h.changed("MODIFIED")
	case r.Method == http.MethodDelete:
		h.changed("DELETED")
		h.object = nil
		reply(w, http.StatusOK, &metav1.Status{Status: "Success"})
		return
	}
	reply(w, http.StatusOK, h.object)
}

func (h *replicaSetHub) Apply(wanted *workv1alpha1.ManifestWorkReplicaSet) {
	switch {
	case h.object == nil:
		wanted.UID, wanted.Generation = types.UID(strconv.Itoa(h.version)), 1
		h.object = wanted
		h.changed("ADDED")
		h.created.Broadcast()
	case !reflect.DeepEqual(h.object.Spec, wanted.Spec) || !reflect.DeepEqual(h.object.Labels, wanted.Labels):
		if !reflect.DeepEqual(h.object.Spec, wanted.Spec) {
			h.object.Generation++
		}
		h.object.Spec, h.object.Labels = wanted.Spec, wanted.Labels
		h.changed("MODIFIED")
	}
}

// changed tells the watchers. The caller holds the lock.
func (h *replicaSetHub) changed(event string) {
	h.version++
	h.object.ResourceVersion = strconv.Itoa(h.version)
	h.object.APIVersion, h.object.Kind = "work.open-cluster-management.io/v1alpha1", "ManifestWorkReplicaSet"
	line := h.event(event)
	for watcher := range h.watchers {
		watcher <- line
	}
}

func (h *replicaSetHub) event(kind string) []byte {
	line, err := json.Marshal(map[string]any{"type": kind, "object": h.object})
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}

func (h *replicaSetHub) watch(w http.ResponseWriter, r *http.Request) {
	watcher := make(chan []byte, 100)
	h.mu.Lock()
	h.watchers[watcher] = true
	if h.object != nil && h.object.ResourceVersion != r.URL.Query().Get("resourceVersion") {
		watcher <- h.event("MODIFIED")
	}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.watchers, watcher)
		h.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case line, open := <-watcher:
			if !open {
				return
			}
			_, _ = w.Write(line)
			w.(http.Flusher).Flush()
		}
	}
}

// report plays the controller: total works, and PlacementRolledOut with what the
// generation is noted as.
func (h *replicaSetHub) report(status metav1.ConditionStatus, generation func(present int64) int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.object == nil { // on a slow machine it is not created yet
		h.created.Wait()
	}
	reason := "Progressing"
	if status == metav1.ConditionTrue {
		reason = "Complete"
	}
	summary := workv1alpha1.ManifestWorkReplicaSetSummary{Total: 2, Applied: 2, Available: 1, Degraded: 1}
	h.object.Status = workv1alpha1.ManifestWorkReplicaSetStatus{
		Summary:           summary,
		PlacementsSummary: []workv1alpha1.PlacementSummary{{Name: "europe", AvailableDecisionGroups: "1 (2 / 2 clusters applied)", Summary: summary}},
		Conditions: []metav1.Condition{{
			Type: "PlacementRolledOut", Status: status, Reason: reason, ObservedGeneration: generation(h.object.Generation),
			LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second)),
		}},
	}
	h.changed("MODIFIED")
}

// present notes the generation, as muster's hub does; unnoted doesn't, as
// upstream's.
func present(generation int64) int64 { return generation }

func unnoted(int64) int64 { return 0 }

// change changes the object as somebody else would.
func (h *replicaSetHub) change(change func(*workv1alpha1.ManifestWorkReplicaSet)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h.object)
	h.changed("MODIFIED")
}

// remove deletes the object as somebody else would.
func (h *replicaSetHub) remove() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed("DELETED")
	h.object = nil
}

// config is a replica set on this hub.
func (h *replicaSetHub) config(body string) string {
	return fmt.Sprintf("provider \"muster\" {\n  host = %q\n}\n", h.url) + replicaSetConfig("shop", body)
}

func reply(w http.ResponseWriter, code int, body any) {
	if status, ok := body.(*metav1.Status); ok {
		status.APIVersion, status.Kind = "v1", "Status"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// workIn is a work of the replica set in a cluster.
func workIn(cluster string, conditions ...metav1.Condition) workv1.ManifestWork {
	w := workv1.ManifestWork{}
	w.Namespace, w.Name, w.Generation = cluster, "web-x", 2
	w.Status.Conditions = conditions
	return w
}

// said is a condition that an agent reports.
func said(kind string, status metav1.ConditionStatus) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, ObservedGeneration: 2, Reason: "Why", Message: "the reason"}
}
