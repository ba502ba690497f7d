package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/restmapper"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// crowd is a server with many cluster sets, which counts requests.
type crowd struct {
	sets       int
	bytes      int  // of each set
	noLists    bool // there is no right to list
	gets       int
	lists      int
	mu         sync.Mutex
	generation string // a label of all sets
	client     *kube.Client
	clock      *testclock.FakeClock
}

func newCrowd(t *testing.T, c *crowd) *crowd {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	scheme := runtime.NewScheme()
	kinds.AddToScheme(scheme, kinds.Provider())
	testkit.Must(t, corev1.AddToScheme(scheme))
	c.clock = testclock.NewFakeClock(time.Now())
	client, err := kube.New(&rest.Config{Host: server.URL, QPS: -1}, kube.Options{Scheme: scheme, Mapper: restmapper.Static(), Clock: c.clock})
	testkit.Must(t, err)
	c.client = client
	return c
}

func (c *crowd) set(i int) clusterv1beta2.ManagedClusterSet {
	var set clusterv1beta2.ManagedClusterSet
	set.Name = nameOf(i)
	set.Labels = map[string]string{"generation": c.generation}
	set.Annotations = map[string]string{"filling": strings.Repeat("x", c.bytes)}
	return set
}

func nameOf(i int) string { return fmt.Sprintf("set-%06d", i) }

// ServeHTTP implements http.Handler.
func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	index, err := strconv.Atoi(strings.TrimPrefix(name, "set-"))
	switch {
	case r.Method != http.MethodGet:
		c.generation = "written"
		_ = json.NewEncoder(w).Encode(c.set(index))
	case name == "managedclustersets" || name == "secrets":
		c.lists++
		if c.noLists {
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "")
			return
		}
		c.page(w, r)
	case err == nil && index < c.sets:
		c.gets++
		_ = json.NewEncoder(w).Encode(c.set(index))
	default:
		c.gets++
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, name)
	}
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, name string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason: reason, Code: int32(code), Details: &metav1.StatusDetails{Name: name},
	})
}

func (c *crowd) page(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	var list clusterv1beta2.ManagedClusterSetList
	to := min(from+limit, c.sets)
	for i := from; i < to; i++ {
		list.Items = append(list.Items, c.set(i))
	}
	if to < c.sets {
		list.Continue, list.RemainingItemCount = strconv.Itoa(to), ptr.To(int64(c.sets-to))
	}
	_ = json.NewEncoder(w).Encode(list)
}

// lookUp looks up the sets from one number to before another, ten at a time.
func (c *crowd) lookUp(t *testing.T, from, to int) {
	t.Helper()
	var looking sync.WaitGroup
	next := make(chan int)
	for range 10 {
		looking.Go(func() {
			for i := range next {
				set := &clusterv1beta2.ManagedClusterSet{}
				if err := c.client.Lookup(t.Context(), set, "", nameOf(i)); err != nil || set.Name != nameOf(i) {
					t.Errorf("got %q, %v", set.Name, err)
				}
			}
		})
	}
	for i := from; i < to; i++ {
		next <- i
	}
	close(next)
	looking.Wait()
}

func TestLookupsListWhenThatIsLessWork(t *testing.T) {
	for name, test := range map[string]struct {
		crowd       *crowd
		wanted      int
		gets, lists int // at most
		least       int // gets
	}{
		"one object of a large hub":       {&crowd{sets: 100_000}, 1, 1, 0, 1},
		"a few":                           {&crowd{sets: 500}, 16, 16, 0, 16},
		"all of a small hub":              {&crowd{sets: 500}, 500, 26, 1, 16},
		"one more than fit into a page":   {&crowd{sets: 502}, 502, 28, 1, 16},
		"all of a large hub":              {&crowd{sets: 2000}, 2000, 300, 6, 16},
		"some of a very large hub":        {&crowd{sets: 100_000}, 1000, 1000, 1, 400},
		"large objects":                   {&crowd{sets: 200, bytes: 200 << 10}, 40, 40, 0, 40},
		"without the right to list":       {&crowd{sets: 100, noLists: true}, 100, 100, 1, 100},
		"objects that fill half a page":   {&crowd{sets: 100, bytes: 40 << 10}, 100, 40, 2, 16},
		"objects far from the first page": {&crowd{sets: 10_000}, 17, 17, 1, 16},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, test.crowd)
			from := 0
			if strings.Contains(name, "far from") {
				from = 9000
			}
			c.lookUp(t, from, from+test.wanted)
			if c.gets > test.gets || c.lists > test.lists || c.gets < test.least {
				t.Errorf("%d objects took %d gets and %d lists; want at most %d and %d", test.wanted, c.gets, c.lists, test.gets, test.lists)
			}
		})
	}
}

// generation is what a lookup says of a set.
func (c *crowd) generationOf(t *testing.T, i int) string {
	t.Helper()
	set := &clusterv1beta2.ManagedClusterSet{}
	testkit.Must(t, c.client.Lookup(t.Context(), set, "", nameOf(i)))
	return set.Labels["generation"]
}

func TestALookupIsNeverOlderThanAWrite(t *testing.T) {
	for name, write := range map[string]func(c *crowd, set *clusterv1beta2.ManagedClusterSet) error{
		"apply": func(c *crowd, set *clusterv1beta2.ManagedClusterSet) error {
			return c.client.Apply(t.Context(), set, kube.ApplyOptions{Manager: "m"})
		},
		"apply of the status": func(c *crowd, set *clusterv1beta2.ManagedClusterSet) error {
			return c.client.ApplyStatus(t.Context(), set, kube.ApplyOptions{Manager: "m"})
		},
		"patch": func(c *crowd, set *clusterv1beta2.ManagedClusterSet) error {
			return c.client.MergePatch(t.Context(), set, "m", map[string]any{})
		},
		"update of a subresource": func(c *crowd, set *clusterv1beta2.ManagedClusterSet) error {
			return c.client.UpdateSubresource(t.Context(), set, "status", "m")
		},
		"delete": func(c *crowd, set *clusterv1beta2.ManagedClusterSet) error {
			_, err := c.client.Delete(t.Context(), set, "", set.Name, "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, &crowd{sets: 100, generation: "first"})
			c.lookUp(t, 0, 20) // the others are listed now
			written := &clusterv1beta2.ManagedClusterSet{}
			written.Name = nameOf(50)
			testkit.Must(t, write(c, written))
			if got := c.generationOf(t, 50); got != "written" {
				t.Errorf("after the write the lookup says %q", got)
			}
			if got := c.generationOf(t, 51); got != "first" {
				t.Errorf("a set that was not written is %q: it was not answered from the list", got)
			}
		})
	}
}

func TestALookupIsSecondsOldAtMost(t *testing.T) {
	c := newCrowd(t, &crowd{sets: 100, generation: "first"})
	c.lookUp(t, 0, 20)
	c.generation = "second"
	if got := c.generationOf(t, 50); got != "first" {
		t.Errorf("got %q: it was not answered from the list", got)
	}
	if got := c.generationOf(t, 50); got != "second" {
		t.Errorf("the second lookup of a set says %q", got)
	}
	c.clock.Step(21 * time.Second)
	if got := c.generationOf(t, 51); got != "second" {
		t.Errorf("after 21 seconds a lookup says %q", got)
	}
}

func TestAnAbsentObjectIsLookedForOnTheServer(t *testing.T) {
	c := newCrowd(t, &crowd{sets: 100})
	c.lookUp(t, 0, 20)
	before := c.gets
	err := c.client.Lookup(t.Context(), &clusterv1beta2.ManagedClusterSet{}, "", "absent")
	if !kube.IsNotFound(err, "absent") || c.gets != before+1 {
		t.Errorf("got %v after %d gets", err, c.gets-before)
	}
}

func TestSecretsAreNeverListed(t *testing.T) {
	c := newCrowd(t, &crowd{sets: 100})
	for range 100 {
		_ = c.client.Lookup(t.Context(), &corev1.Secret{}, "kube-system", "absent")
	}
	if c.lists != 0 || c.gets != 100 {
		t.Errorf("%d gets, %d lists", c.gets, c.lists)
	}
}
