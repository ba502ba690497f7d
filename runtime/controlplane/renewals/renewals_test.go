package renewals_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/kubernetes/pkg/apis/coordination"
	coordinationconversion "k8s.io/kubernetes/pkg/apis/coordination/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/renewals"
)

const (
	key    = "/leases/one/beat"
	period = time.Minute
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// kept is a store of one lease.
type kept struct {
	storage.Interface
	mu     sync.Mutex
	object *coordination.Lease
	next   int
	fail   error // of a write that arrives

	afterRead func() // is called when a read has its answer, and does not return it yet
}

// answered calls afterRead, once.
func (k *kept) answered() {
	if f := k.afterRead; f != nil {
		k.afterRead = nil
		f()
	}
}

func (k *kept) write(l *coordination.Lease) *coordination.Lease {
	k.next++
	k.object = l.DeepCopy()
	k.object.ResourceVersion = strconv.Itoa(k.next)
	return k.object.DeepCopy()
}

func (k *kept) Create(_ context.Context, _ string, obj, out runtime.Object, _ uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	*out.(*coordination.Lease) = *k.write(obj.(*coordination.Lease))
	return k.fail
}

func (k *kept) Get(_ context.Context, _ string, _ storage.GetOptions, out runtime.Object) error {
	defer k.answered()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.object == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	*out.(*coordination.Lease) = *k.object.DeepCopy()
	return nil
}

func (k *kept) GetList(_ context.Context, _ string, _ storage.ListOptions, out runtime.Object) error {
	defer k.answered()
	k.mu.Lock()
	defer k.mu.Unlock()
	out.(*coordination.LeaseList).Items = []coordination.Lease{*k.object.DeepCopy()}
	return nil
}

func (k *kept) Delete(
	context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc, runtime.Object,
	storage.DeleteOptions,
) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.object = nil
	return k.fail
}

func (k *kept) GuaranteedUpdate(
	_ context.Context, _ string, out runtime.Object, _ bool, _ *storage.Preconditions,
	update storage.UpdateFunc, _ runtime.Object,
) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.object == nil {
		return storage.NewKeyNotFoundError(key, 0)
	}
	updated, _, err := update(k.object.DeepCopy(), storage.ResponseMeta{})
	if err != nil {
		return err
	}
	*out.(*coordination.Lease) = *k.write(updated.(*coordination.Lease))
	return k.fail
}

// world is a server with the one lease.
type world struct {
	*testing.T
	clock *clocktesting.FakePassiveClock
	below *kept
	store storage.Interface
	serve http.Handler
	plain atomic.Bool
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, clock: clocktesting.NewFakePassiveClock(noon), below: &kept{}}
	w.plain.Store(true)
	leases := renewals.New(func(_, name string) bool { return name == "beat" }, w.plain.Load, w.clock)
	w.store = leases.Store(w.below)
	w.serve = leases.Handler(http.HandlerFunc(w.update))
	w.create("u")
	return w
}

// create makes the lease, with a renewal of noon.
func (w *world) create(uid types.UID) {
	w.Helper()
	lease := &coordination.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "one", Name: "beat", UID: uid, Labels: map[string]string{"a": "b"},
	}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: noon}
	testkit.Must(w.T, w.store.Create(w.Context(), key, lease, &coordination.Lease{}, 0))
}

// update stores the lease of a request as the API server does.
func (w *world) update(answer http.ResponseWriter, r *http.Request) {
	sent := &coordinationv1.Lease{}
	if err := json.NewDecoder(r.Body).Decode(sent); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	next := &coordination.Lease{}
	testkit.Must(w.T, coordinationconversion.Convert_v1_Lease_To_coordination_Lease(sent, next, nil))
	out := &coordination.Lease{}
	replace := func(existing runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
		if existing.(*coordination.Lease).ResourceVersion != sent.ResourceVersion {
			return nil, nil, errConflict
		}
		return next, nil, nil
	}
	err := w.store.GuaranteedUpdate(r.Context(), key, out, false, nil, replace, nil)
	switch {
	case errors.Is(err, errConflict):
		answer.WriteHeader(http.StatusConflict)
	case storage.IsNotFound(err):
		answer.WriteHeader(http.StatusNotFound)
	case err != nil:
		answer.WriteHeader(http.StatusInternalServerError)
	default:
		_ = json.NewEncoder(answer).Encode(versioned(w.T, out))
	}
}

var errConflict = errors.New("conflict")

func versioned(t *testing.T, l *coordination.Lease) *coordinationv1.Lease {
	out := &coordinationv1.Lease{}
	testkit.Must(t, coordinationconversion.Convert_coordination_Lease_To_v1_Lease(l, out, nil))
	out.APIVersion, out.Kind = "coordination.k8s.io/v1", "Lease"
	return out
}

// read is the lease as a client reads it, and stored whether the store has it so.
func (w *world) read() (lease *coordinationv1.Lease, stored bool) {
	w.Helper()
	out, list := &coordination.Lease{}, &coordination.LeaseList{}
	testkit.Must(w.T, w.store.Get(w.Context(), key, storage.GetOptions{}, out))
	testkit.Must(w.T, w.store.GetList(w.Context(), "/leases", storage.ListOptions{}, list))
	if !list.Items[0].Spec.RenewTime.Equal(out.Spec.RenewTime) {
		w.Errorf("a list has the renewal of %v, and the object %v", list.Items[0].Spec.RenewTime, out.Spec.RenewTime)
	}
	return versioned(w.T, out), w.below.object.Spec.RenewTime.Equal(out.Spec.RenewTime)
}

// put sends a lease, and returns the status of the answer and the lease in it.
func (w *world) put(l *coordinationv1.Lease, change ...func(*http.Request)) (int, *coordinationv1.Lease) {
	w.Helper()
	body, err := json.Marshal(l)
	testkit.Must(w.T, err)
	return w.send(body, change...)
}

func (w *world) send(body []byte, change ...func(*http.Request)) (int, *coordinationv1.Lease) {
	const url = "https://hub/apis/coordination.k8s.io/v1/namespaces/one/leases/beat"
	r := httptest.NewRequest(http.MethodPut, url, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r = r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{
		IsResourceRequest: true, Verb: "update", APIGroup: "coordination.k8s.io", APIVersion: "v1", Resource: "leases",
		Namespace: "one", Name: "beat",
	}))
	for _, f := range change {
		f(r)
	}
	answer := httptest.NewRecorder()
	w.serve.ServeHTTP(answer, r)
	lease := &coordinationv1.Lease{}
	if answer.Code == http.StatusOK {
		testkit.Must(w.T, json.Unmarshal(answer.Body.Bytes(), lease))
	}
	return answer.Code, lease
}

// beat renews the lease a period later, and reports whether that was stored.
func (w *world) beat() bool {
	w.Helper()
	w.clock.SetTime(w.clock.Now().Add(period))
	lease, _ := w.read()
	return w.renewed(lease, w.clock.Now())
}

// renewed renews a lease at a time, and reports whether that was stored.
func (w *world) renewed(lease *coordinationv1.Lease, at time.Time) bool {
	w.Helper()
	lease.Spec.RenewTime = &metav1.MicroTime{Time: at}
	code, answer := w.put(lease)
	got, stored := w.read()
	if code != http.StatusOK || !answer.Spec.RenewTime.Time.Equal(at) || !got.Spec.RenewTime.Time.Equal(at) ||
		answer.ResourceVersion != got.ResourceVersion {
		w.Errorf("the renewal of %v was answered by %d, %v, and then there is %v", at, code, answer, got)
	}
	return stored
}

// begin renews the lease until the next two renewals are kept in memory.
func (w *world) begin() {
	w.Helper()
	for n, want := range []bool{true, true, false, false, true} {
		if got := w.beat(); got != want {
			w.Fatalf("renewal %d was stored: %v, want %v", n, got, want)
		}
	}
}

// due is a world whose next renewal is due and would be kept in memory, with the lease and the
// number of writes until then.
func due(t *testing.T) (w *world, lease *coordinationv1.Lease, writes int) {
	w = newWorld(t)
	w.begin()
	w.clock.SetTime(w.clock.Now().Add(period))
	lease, _ = w.read()
	return w, lease, w.below.next
}

func TestTwoOfThreeRenewalsAreNotStored(t *testing.T) {
	w := newWorld(t)
	w.begin()
	writes := w.below.next
	for range 30 {
		w.beat()
	}
	if got := w.below.next - writes; got != 10 {
		t.Errorf("30 renewals were written %d times, want 10", got)
	}
}

func TestWhatIsMoreThanTheNextRenewalIsStored(t *testing.T) {
	for name, change := range map[string]func(w *world, l *coordinationv1.Lease) time.Time{
		"after a silence": func(w *world, _ *coordinationv1.Lease) time.Time {
			w.clock.SetTime(w.clock.Now().Add(2 * period))
			return w.clock.Now()
		},
		"to an old time": func(w *world, _ *coordinationv1.Lease) time.Time { return w.clock.Now().Add(-2 * period) },
		"by a moved clock": func(w *world, _ *coordinationv1.Lease) time.Time {
			return w.clock.Now().Add(40 * time.Second)
		},
		"a label": func(w *world, l *coordinationv1.Lease) time.Time {
			l.Labels["a"] = "c"
			return w.clock.Now()
		},
		"an annotation": func(w *world, l *coordinationv1.Lease) time.Time {
			l.Annotations = map[string]string{"proof": "x"}
			return w.clock.Now()
		},
		"the holder": func(w *world, l *coordinationv1.Lease) time.Time {
			l.Spec.HolderIdentity = new(string)
			return w.clock.Now()
		},
		"the duration": func(w *world, l *coordinationv1.Lease) time.Time {
			l.Spec.LeaseDurationSeconds = new(int32)
			return w.clock.Now()
		},
		"managed fields": func(w *world, l *coordinationv1.Lease) time.Time {
			l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a"}}
			return w.clock.Now()
		},
		"with policies": func(w *world, _ *coordinationv1.Lease) time.Time {
			w.plain.Store(false)
			return w.clock.Now()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, lease, writes := due(t)
			w.renewed(lease, change(w, lease))
			if got := w.below.next - writes; got != 1 {
				t.Errorf("it was written %d times, want once", got)
			}
		})
	}
}

// What is not written as JSON of a lease, or asks for more than a write, is left to the API's own
// handlers, with its body.
func TestOtherRequestsAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"dry run":       func(r *http.Request) { r.URL.RawQuery = "dryRun=All" },
		"field manager": func(r *http.Request) { r.URL.RawQuery = "fieldManager=me" },
		"a table": func(r *http.Request) {
			r.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		},
		"an encoding":   func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") },
		"another type":  func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"no length":     func(r *http.Request) { r.ContentLength = -1 },
		"another verb":  func(r *http.Request) { info(r).Verb = "patch" },
		"a subresource": func(r *http.Request) { info(r).Subresource = "status" },
		"another version": func(r *http.Request) {
			info(r).APIVersion = "v1beta1"
		},
		"another kind":      func(r *http.Request) { info(r).Resource = "leasecandidates" },
		"another name":      func(r *http.Request) { info(r).Name = "other" },
		"another namespace": func(r *http.Request) { info(r).Namespace = "two" },
	} {
		t.Run(name, func(t *testing.T) {
			w, lease, writes := due(t)
			lease.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now()}
			if code, _ := w.put(lease, change); code != http.StatusOK || w.below.next != writes+1 {
				t.Errorf("the answer is %d, after %d writes", code, w.below.next-writes)
			}
		})
	}
	for name, change := range map[string]func(string) string{
		"an unknown field": func(s string) string { return strings.Replace(s, `"spec":{`, `"spec":{"extra":1,`, 1) },
		"a field twice":    func(s string) string { return strings.Replace(s, `"kind":`, `"kind":"Lease","kind":`, 1) },
		"long":             func(s string) string { return s + strings.Repeat(" ", 20<<10) },
		"another kind":     func(s string) string { return strings.Replace(s, `"Lease"`, `"Pod"`, 1) },
	} {
		t.Run("a body with "+name, func(t *testing.T) {
			w, lease, writes := due(t)
			lease.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now()}
			body, err := json.Marshal(lease)
			testkit.Must(t, err)
			if code, _ := w.send([]byte(change(string(body)))); code != http.StatusOK || w.below.next != writes+1 {
				t.Errorf("the answer is %d, after %d writes", code, w.below.next-writes)
			}
		})
	}
}

func info(r *http.Request) *request.RequestInfo {
	i, _ := request.RequestInfoFrom(r.Context())
	return i
}

// A write of something else has the newest renewal, and refuses who has not read it.
func TestWritesKeepTheNewestRenewal(t *testing.T) {
	w := newWorld(t)
	w.begin()
	w.beat()
	before, stored := w.read()
	if stored {
		t.Fatal("the renewal was stored")
	}
	w.change(labelled)
	after, _ := w.read()
	if !after.Spec.RenewTime.Equal(before.Spec.RenewTime) || after.Labels["new"] != "label" {
		t.Errorf("after another write there is %v, want the renewal of %v", after, before.Spec.RenewTime)
	}
	before.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now().Add(time.Second)}
	if code, _ := w.put(before); code != http.StatusConflict {
		t.Errorf("a renewal of the version before is answered by %d, want a conflict", code)
	}
}

// change has another client change the lease.
func (w *world) change(f storage.UpdateFunc) {
	w.Helper()
	testkit.Must(w.T, w.store.GuaranteedUpdate(w.Context(), key, &coordination.Lease{}, false, nil, f, nil))
}

func labelled(existing runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	existing.(*coordination.Lease).Labels["new"] = "label"
	return existing, nil, nil
}

// A read that a write overtakes has the renewals from before it began.
func TestReadsBesideAWriteHaveTheNewestRenewal(t *testing.T) {
	w := newWorld(t)
	w.begin()
	w.beat()
	want, _ := w.read()
	one, all := &coordination.Lease{}, &coordination.LeaseList{}
	w.below.afterRead = func() { w.change(labelled) }
	testkit.Must(t, w.store.Get(t.Context(), key, storage.GetOptions{}, one))
	if !one.Spec.RenewTime.Equal(want.Spec.RenewTime) || one.ResourceVersion != want.ResourceVersion {
		t.Errorf("the object has the renewal of %v, want %v", one.Spec.RenewTime, want.Spec.RenewTime)
	}
	for w.beat() { // until one is kept in memory
	}
	want, _ = w.read()
	w.below.afterRead = func() { w.change(labelled) }
	testkit.Must(t, w.store.GetList(t.Context(), "/leases", storage.ListOptions{}, all))
	got := &all.Items[0]
	if !got.Spec.RenewTime.Equal(want.Spec.RenewTime) || got.ResourceVersion != want.ResourceVersion {
		t.Errorf("the list has the renewal of %v, want %v", got.Spec.RenewTime, want.Spec.RenewTime)
	}
}

// A write that failed may have arrived: nothing is taken into memory on top of it.
func TestRenewalsAreStoredAfterAWriteThatFailed(t *testing.T) {
	w := newWorld(t)
	w.begin()
	w.beat()
	before, _ := w.read()
	w.below.fail = errors.New("no answer in time")
	if err := w.store.GuaranteedUpdate(t.Context(), key, &coordination.Lease{}, false, nil, labelled, nil); err == nil {
		t.Fatal("it did not fail")
	}
	w.below.fail = nil
	before.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now().Add(period)}
	if code, _ := w.put(before); code != http.StatusConflict {
		t.Errorf("a renewal of the version before is answered by %d, want a conflict", code)
	}
	if !w.beat() {
		t.Error("the first renewal after it was not stored")
	}
}

func TestALeaseThatWasDeletedIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.begin()
	w.beat()
	before, _ := w.read()
	testkit.Must(t, w.store.Delete(t.Context(), key, &coordination.Lease{}, nil, nil, nil, storage.DeleteOptions{}))
	before.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now().Add(period)}
	if code, _ := w.put(before); code != http.StatusNotFound {
		t.Errorf("a renewal after the deletion is answered by %d, want not found", code)
	}
	w.create("v")
	if got, _ := w.read(); !got.Spec.RenewTime.Time.Equal(noon) {
		t.Errorf("the new lease has the renewal of %v", got.Spec.RenewTime)
	}
	if !w.beat() {
		t.Error("its first renewal was not stored")
	}
}

// Of the holder's renewals and others' writes at once none is lost.
func TestConcurrentWritesLoseNothing(t *testing.T) {
	w := newWorld(t)
	w.begin()
	lease, _ := w.read()
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 200 {
				w.change(counted)
			}
		})
	}
	acknowledged := lease.Spec.RenewTime
	for range 2000 {
		if lease.Spec.RenewTime.Before(acknowledged) {
			t.Fatalf("the renewal of %v was answered, and then there is that of %v", acknowledged, lease.Spec.RenewTime)
		}
		sent := lease.DeepCopy()
		sent.Spec.RenewTime = &metav1.MicroTime{Time: lease.Spec.RenewTime.Add(time.Millisecond)}
		if code, _ := w.put(sent); code == http.StatusOK {
			acknowledged = sent.Spec.RenewTime
		}
		out := &coordination.Lease{}
		testkit.Must(t, w.store.Get(t.Context(), key, storage.GetOptions{}, out))
		lease = versioned(t, out)
	}
	writers.Wait()
	if lease, _ = w.read(); len(lease.Annotations["n"]) != 800 || lease.Spec.RenewTime.Before(acknowledged) {
		t.Errorf("after 800 writes and the renewal of %v there are %d marks and %v",
			acknowledged, len(lease.Annotations["n"]), lease.Spec.RenewTime)
	}
}

func counted(existing runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	l := existing.(*coordination.Lease)
	l.Annotations = map[string]string{"n": l.Annotations["n"] + "x"}
	return l, nil, nil
}
