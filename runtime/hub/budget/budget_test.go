package budget

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

var (
	root      = &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	agent     = &user.DefaultInfo{Name: cluster.CommonName("paris", "a"), Groups: []string{cluster.Group("paris")}}
	other     = &user.DefaultInfo{Name: cluster.CommonName("rome", "a"), Groups: []string{cluster.Group("rome")}}
	addOn     = &user.DefaultInfo{Name: cluster.UserPrefix + "cluster:paris:addon:x:agent:y", Groups: []string{cluster.UserPrefix + "cluster:paris:addon:x"}}
	alice     = &user.DefaultInfo{Name: "alice"}
	account   = &user.DefaultInfo{Name: "system:serviceaccount:shop:a"}
	account2  = &user.DefaultInfo{Name: "system:serviceaccount:shop:b"}
	bootstrap = &user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{cluster.BootstrapGroup}}
	own       = &user.DefaultInfo{Name: "system:serviceaccount:paris:a"}
	plain     = &user.DefaultInfo{Name: "bob", Groups: []string{"open-cluster-management:admins"}}
	manager   = &user.DefaultInfo{Name: addon.ManagerUser, Groups: []string{addon.ManagerGroup}}
)

// owners know the namespace of one cluster.
var owners = Owners{IsCluster: func(namespace string) bool { return namespace == "paris" }}

func TestOwnersOf(t *testing.T) {
	for _, x := range []struct {
		user user.Info
		want Name
	}{
		{root, Name{}}, {manager, Name{}},
		{agent, Name{OfCluster, "paris"}}, {addOn, Name{OfCluster, "paris"}}, {other, Name{OfCluster, "rome"}},
		{bootstrap, Name{OfToken, "system:bootstrap:abcdef"}},
		{account, Name{OfUser, "system:serviceaccounts:shop"}}, {account2, Name{OfUser, "system:serviceaccounts:shop"}},
		{alice, Name{OfUser, "alice"}}, {own, Name{OfCluster, "paris"}}, {plain, Name{OfUser, "bob"}},
	} {
		if got, limited := owners.Of(x.user); got != x.want || limited != (x.want != Name{}) {
			t.Errorf("%s: the owner is %+v, limited: %v, want %+v", x.user.GetName(), got, limited, x.want)
		}
	}
}

// store is a store of some size, in which each namespace holds the same.
type store struct {
	size   extension.StoreSize
	kept   extension.Kept
	counts int
	err    error
}

func (s *store) Size(context.Context) (extension.StoreSize, error) { return s.size, nil }
func (s *store) Kept(context.Context, string) (extension.Kept, error) {
	s.counts++
	return s.kept, s.err
}

// books are budgets with small limits, a store and a clock.
type books struct {
	*Budgets
	store *store
	clock *clocktesting.FakeClock
}

func newBooks(change func(*Limits)) books {
	small := Owner{Written: Rate{10000, 1000}, Default: Kind{Creations: Rate{3, 1}, Object: 1000, Objects: 100, Bytes: 100000}, Full: 0.5}
	limits := Limits{Cluster: small, Token: small, User: small}
	if change != nil {
		change(&limits)
	}
	clk := clocktesting.NewFakeClock(time.Unix(1000000, 0))
	s := &store{size: extension.StoreSize{Quota: 100 * mib}}
	b := books{New(limits, owners, clk), s, clk}
	b.SetStore(s)
	return b
}

var configMaps = schema.GroupResource{Resource: "configmaps"}

func creation(u user.Info, size int) extension.Write {
	return extension.Write{
		User: u, Resource: configMaps, Key: "/registry/configmaps/paris/a", Namespace: "paris", Name: "a", Creates: true, Size: size,
	}
}

func update(u user.Info, before, size int) extension.Write {
	w := creation(u, size)
	w.Creates, w.Before = false, before
	return w
}

// charge expects a status code, 0 for none, and words of the message.
func (b books) charge(t *testing.T, what string, w extension.Write, code int, words ...string) {
	t.Helper()
	err := b.Charge(context.Background(), w)
	var status apierrors.APIStatus
	switch {
	case code == 0 && err == nil:
		return
	case code == 0 || !errors.As(err, &status) || int(status.Status().Code) != code:
		t.Fatalf("%s: got %v, want the code %d", what, err, code)
	}
	for _, x := range words {
		if !strings.Contains(err.Error(), x) {
			t.Errorf("%s: the message %q lacks %q", what, err, x)
		}
	}
}

func TestCreationsHaveARate(t *testing.T) {
	b := newBooks(nil)
	for range 2 {
		b.charge(t, "a creation", creation(agent, 10), 0)
	}
	b.charge(t, "an add-on's creation", creation(addOn, 10), 0)
	b.charge(t, "one too many", creation(agent, 10), http.StatusTooManyRequests, "the managed cluster paris", "configmaps", "3 at once", "try again in 1 seconds")
	b.charge(t, "another add-on, after it", creation(addOn, 10), http.StatusTooManyRequests)
	secret := creation(agent, 10)
	secret.Resource.Resource = "secrets"
	for what, w := range map[string]extension.Write{
		"another cluster": creation(other, 10), "an administrator": creation(root, 10), "another kind": secret,
		"an update": update(agent, 20, 20), "a user": creation(alice, 10), "the add-on manager": creation(manager, 10),
	} {
		b.charge(t, what, w, 0)
	}
	b.clock.Step(time.Second)
	b.charge(t, "after a second", creation(agent, 10), 0)
	b.charge(t, "and once more", creation(agent, 10), http.StatusTooManyRequests)
}

func TestBytesWrittenHaveARate(t *testing.T) {
	b := newBooks(func(l *Limits) { l.Cluster.Default.Object, l.Cluster.Default.Bytes = 0, 10*mib })
	b.charge(t, "an update", update(agent, 9000, 9000), 0)
	b.charge(t, "a larger one than what is left", update(agent, 9000, 9000), 0)
	b.charge(t, "the next one", update(agent, 10, 10), http.StatusTooManyRequests, "bytes written", "try again in 9 seconds")
	b.charge(t, "one that makes an object smaller", update(agent, 10, 5), 0)
	deletion := update(agent, 10, 60)
	deletion.Deletes = true
	b.charge(t, "a deletion", deletion, 0)
	b.charge(t, "the administrator", update(root, 9000, 9000), 0)
	b.clock.Step(9 * time.Second)
	b.charge(t, "after nine seconds", update(agent, 10, 10), 0)
	if err := b.Charge(context.Background(), update(agent, 9000, 1<<20)); err != nil {
		t.Fatal(err)
	}
	err := b.Charge(context.Background(), update(agent, 10, 10))
	if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds != int(maxRetry.Seconds()) {
		t.Errorf("a client is asked to wait %d seconds by %v, want the longest time, %s", seconds, err, maxRetry)
	}
}

func TestObjectsHaveAGreatestSize(t *testing.T) {
	b := newBooks(nil)
	b.charge(t, "an object of that size", creation(agent, 1000), 0)
	b.charge(t, "a larger one", creation(agent, 1001), http.StatusForbidden, "1001 bytes", "the managed cluster paris", "at most 1000", "managed fields")
	b.charge(t, "one that grows over it", update(agent, 10, 1100), http.StatusForbidden)
	b.charge(t, "a large one that gets smaller", update(agent, 9000, 8000), 0)
	b.charge(t, "a large one that gets a finalizer", update(agent, 1500, 1600), 0)
	b.charge(t, "the administrator's", creation(root, 1<<20), 0)
}

func TestAStoreThatFillsUpTakesOnlyWhatKeepsItGoing(t *testing.T) {
	b := newBooks(func(l *Limits) {
		for _, o := range []*Owner{&l.Cluster, &l.Token, &l.User} {
			o.Written, o.Default = Rate{10 * mib, mib}, Kind{Creations: Rate{100, 1}}
		}
		l.User.Full = 0.75
	})
	deletion := update(agent, 50000, 50060)
	deletion.Deletes = true
	for _, x := range []struct {
		what                string
		write               extension.Write
		half, threeQuarters int // codes with so much in use
	}{
		{"an agent creates", creation(agent, 10), http.StatusInsufficientStorage, http.StatusInsufficientStorage},
		{"a token creates", creation(bootstrap, 10), http.StatusInsufficientStorage, http.StatusInsufficientStorage},
		{"a user creates", creation(alice, 10), 0, http.StatusInsufficientStorage},
		{"an agent lets an object grow", update(agent, 5000, 5010), http.StatusInsufficientStorage, http.StatusInsufficientStorage},
		{"an agent renews a lease", update(agent, 400, 410), 0, 0},
		{"an agent makes an object smaller", update(agent, 50000, 40000), 0, 0},
		{"an agent deletes", deletion, 0, 0},
		{"an administrator creates", creation(root, 1<<20), 0, 0},
		{"the add-on manager creates", creation(manager, 1000), 0, 0},
	} {
		b.store.size.InUse = 50 * mib
		b.clock.Step(sizeAge)
		b.charge(t, x.what+" with half in use", x.write, 0)
		b.store.size.InUse = 51 * mib
		b.charge(t, x.what+" before it is known", x.write, 0)
		b.clock.Step(sizeAge)
		b.charge(t, x.what+" with more than half in use", x.write, x.half)
		b.store.size.InUse = 76 * mib
		b.clock.Step(sizeAge)
		b.charge(t, x.what+" with more than three quarters in use", x.write, x.threeQuarters)
	}
	b.charge(t, "the message", creation(agent, 10), http.StatusInsufficientStorage, "76 MiB of its quota of 100 MiB", "above 50 %", "the managed cluster paris", "delete what is not needed")
}

func TestWhatANamespaceHoldsIsBounded(t *testing.T) {
	b := newBooks(func(l *Limits) {
		l.Cluster.Written, l.Cluster.Default = Rate{mib, mib}, Kind{Creations: Rate{1000, 1000}, Objects: 40, Bytes: 1 << 20}
	})
	b.store.kept.Objects = 39 // from before the hub started
	for range 10 {
		b.charge(t, "the first quarter", creation(agent, 10), 0)
	}
	if b.store.counts != 0 {
		t.Errorf("the namespace was counted %d times before a quarter of the budget was used", b.store.counts)
	}
	b.charge(t, "the 40th", creation(agent, 10), 0)
	for range 5 {
		b.charge(t, "one too many", creation(agent, 10), http.StatusForbidden, "configmaps in the namespace paris", "41 of 40 objects", "delete those")
	}
	b.charge(t, "an update", update(agent, 10, 20), 0)
	b.charge(t, "the administrator", creation(root, 10), 0)
	if b.store.counts != 1 {
		t.Errorf("the namespace was counted %d times, want once in ten seconds", b.store.counts)
	}
	b.store.kept.Objects = 20 // somebody has deleted some
	b.clock.Step(recountAfter)
	b.charge(t, "after a deletion", creation(agent, 10), 0)
	b.store.err = errors.New("no answer")
	for range 20 {
		_ = b.Charge(context.Background(), creation(agent, 10))
	}
	b.clock.Step(recountAfter)
	b.charge(t, "a store that does not answer", creation(agent, 10), http.StatusTooManyRequests, "can't be counted")
}

func TestReportsOnOthersObjectsHaveRoomForEach(t *testing.T) {
	b := newBooks(func(l *Limits) {
		l.Cluster.Written, l.Cluster.Default = Rate{mib, mib}, Kind{Objects: 2, Bytes: 1000, Reported: true}
	})
	// The specs make room for reports of 5000 bytes.
	b.store.kept = extension.Kept{Objects: 10, Bytes: 6000 + 10*reportBytes - 100 + 5000, SpecBytes: 5000}
	b.charge(t, "a report that leaves no room", update(agent, 100, 200), 0)
	b.charge(t, "one beyond it", update(agent, 1000, 3000), http.StatusForbidden, "outside their specs")
	b.charge(t, "a smaller one", update(agent, 3000, 2000), 0)
	b.charge(t, "what has room then", update(agent, 100, 1000), 0)
}

func TestTheDefaultLimitsLeaveRoomForHonestLoads(t *testing.T) {
	b := newBooks(func(l *Limits) { *l = Default() })
	of := func(group, resource string, w extension.Write) extension.Write {
		w.Resource = schema.GroupResource{Group: group, Resource: resource}
		w.Key = "/registry/" + w.Resource.String() + "/paris/a"
		return w
	}
	for range 500 { // add-ons
		request := of("certificates.k8s.io", "certificatesigningrequests", creation(agent, 3500))
		request.Namespace = ""
		for what, w := range map[string]extension.Write{
			"a certificate request": request,
			"the status":            of("addon.open-cluster-management.io", "managedclusteraddons", update(agent, 1500, 3000)),
			"a lease":               of("coordination.k8s.io", "leases", creation(addOn, 500)),
			"an event":              of("", "events", creation(addOn, 1500)),
		} {
			b.charge(t, what, w, 0)
		}
	}
	b.charge(t, "the status of 300 manifests with feedback", of("work.open-cluster-management.io", "manifestworks", update(agent, 400000, 1400000)), 0)
	for range 600 {
		b.charge(t, "a heartbeat", of("coordination.k8s.io", "leases", update(agent, 450, 450)), 0)
		b.clock.Step(100 * time.Millisecond)
	}
	for range 2000 {
		joining := of(cluster.GroupName, "managedclusters", creation(bootstrap, 1500))
		joining.Namespace = ""
		b.charge(t, "a cluster that joins", joining, 0)
	}
	for range 100000 {
		b.charge(t, "an administrator's work", of("work.open-cluster-management.io", "manifestworks", creation(root, 5000)), 0)
	}
}

func TestBucketsAreForgotten(t *testing.T) {
	b := newBooks(nil)
	b.charge(t, "a creation", creation(agent, 10), 0)
	b.clock.Step(sweepEvery)
	b.charge(t, "another cluster's", creation(other, 10), 0)
	for key := range b.buckets {
		if strings.Contains(key, "paris") {
			t.Errorf("the bucket %s is left", key)
		}
	}
}

func TestLargeObjectsAreChangedOneAfterTheOther(t *testing.T) {
	b, ctx := newBooks(nil), context.Background()
	hold := func(u user.Info, bytes int) func() {
		t.Helper()
		release, err := b.Hold(ctx, u, bytes)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	release := hold(agent, mib) // more than all at a time, and alone then
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Hold(gone, addOn, 100*kib); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a second large object of the same cluster: %v", err)
	}
	for _, x := range []func(){hold(addOn, freeChange), hold(other, mib), hold(root, mib), hold(root, mib)} {
		x()
	}
	release()
	hold(addOn, 100*kib)()
	if len(b.changes) != 0 {
		t.Errorf("%d owners are left", len(b.changes))
	}
}

// Three replicas write to one store. What one has counted others add to, so it is counted
// again, and an owner that goes round gets no more than with one.
func TestReplicasShareWhatANamespaceMayHold(t *testing.T) {
	many := func(l *Limits) { l.Cluster.Default.Creations = Rate{1000, 1000}; l.Cluster.Written = Rate{1e6, 1e6} }
	replicas := []books{newBooks(many), newBooks(many), newBooks(many)}
	shared := replicas[0].store
	for _, r := range replicas {
		r.Shared = true
		r.SetStore(shared)
	}
	for range 200 {
		for _, r := range replicas {
			if r.Charge(context.Background(), creation(agent, 10)) == nil {
				shared.kept.Objects++
			}
			r.clock.Step(recountAfter)
		}
	}
	if shared.kept.Objects != 100 {
		t.Errorf("the store has %d objects of a budget of 100", shared.kept.Objects)
	}
}
