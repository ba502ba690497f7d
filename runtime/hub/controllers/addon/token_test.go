package addon_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit/testworld"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/addon/token"
)

const tokenForHub = "kubernetes.io/kube-apiserver-client"

// fixture is an add-on in a cluster, of any manager.
type tokenFixture struct {
	*testworld.World
	key        types.NamespacedName
	controller *token.Controller
	writes     *testkit.Writes
}

func newTokenFixture(t testing.TB) *tokenFixture {
	t.Helper()
	c, writes := env.Counting(t)
	f := &tokenFixture{World: env.World(t), writes: writes, controller: token.NewController(c, c, clocktesting.NewFakePassiveClock(noon))}
	f.key = types.NamespacedName{Namespace: f.Namespace(), Name: "a"}
	f.Make(f.cluster())
	f.Make(&v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: f.key.Name}})
	return f
}

func (f *tokenFixture) cluster() *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: f.key.Namespace}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: ptr.To(true)}}
}

func (f *tokenFixture) addOn() *v1alpha1.ManagedClusterAddOn {
	f.Helper()
	a := &v1alpha1.ManagedClusterAddOn{}
	f.Must(f.Get(context.Background(), f.key, a))
	return a
}

// drives sets the driver, and a registration for a signer.
func (f *tokenFixture) drives(driver, signer string) {
	f.Helper()
	a := f.addOn()
	a.Status.KubeClientDriver, a.Status.Registrations = driver, []v1alpha1.RegistrationConfig{{SignerName: signer}}
	f.Must(f.Status().Update(context.Background(), a))
}

func (f *tokenFixture) pass() int64 {
	f.Helper()
	return f.writes.During(func() { f.Reconcile(f.controller, f.key) })
}

func (f *tokenFixture) condition() string {
	f.Helper()
	c := meta.FindStatusCondition(f.addOn().Status.Conditions, "TokenInfrastructureReady")
	if c == nil {
		return ""
	}
	return strings.Join([]string{string(c.Status), c.Reason, c.Message}, "/")
}

func (f *tokenFixture) account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: "a-agent"}}
}

func (f *tokenFixture) role() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: f.key.Namespace, Name: "a-token-role"}
}

func (f *tokenFixture) there() []client.Object {
	return []client.Object{f.account(), &rbacv1.Role{ObjectMeta: f.role()}, &rbacv1.RoleBinding{ObjectMeta: f.role()}}
}

func (f *tokenFixture) mustBeThere(want bool) {
	f.Helper()
	for _, o := range f.there() {
		err := f.Get(context.Background(), client.ObjectKeyFromObject(o), o)
		f.Must(client.IgnoreNotFound(err))
		if there := err == nil; there != want {
			f.Errorf("the %T is there: %v, want %v", o, there, want)
		}
		if labels := o.GetLabels(); want && (labels["addon.open-cluster-management.io/name"] != "a" || labels["addon.open-cluster-management.io/token-infrastructure"] != "true") {
			f.Errorf("the %T has the labels %v", o, labels)
		}
	}
}

func (f *tokenFixture) uid() types.UID {
	f.Helper()
	s := f.account()
	f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(s), s))
	return s.UID
}

func (f *tokenFixture) ready() string {
	f.Helper()
	return fmt.Sprintf("True/TokenInfrastructureReady/ServiceAccount %s/a-agent (UID: %s) is ready", f.key.Namespace, f.uid())
}

// The agent of the cluster, and none of another one, gets tokens of this service
// account, and of no other.
func TestAnAgentGetsTokensOfItsServiceAccount(t *testing.T) {
	f := newTokenFixture(t)
	f.drives("token", tokenForHub)
	if n := f.pass(); n != 4 {
		t.Errorf("%d writes, want three objects and a status", n)
	}
	f.mustBeThere(true)
	if got := f.condition(); got != f.ready() {
		t.Errorf("the condition is %q", got)
	}
	if uid, err := registration.ServiceAccountUID(f.condition()); err != nil || uid != f.uid() {
		t.Errorf("agents read the UID %q (%v)", uid, err)
	}
	if n := f.pass(); n != 0 {
		t.Errorf("%d writes although nothing has changed", n)
	}
	other := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.key.Namespace, Name: "other"}}
	f.Make(other)
	ask := func(cluster string, account *corev1.ServiceAccount) error {
		config := env.Config("test")
		config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:open-cluster-management:" + cluster + ":agent", Groups: []string{"system:open-cluster-management:" + cluster, "system:authenticated"},
		}
		return env.ClientFor(t, config).SubResource("token").Create(context.Background(), account, &authenticationv1.TokenRequest{})
	}
	f.Eventually(func() error { return ask(f.key.Namespace, f.account()) }) // the authorizer learns of roles by a watch
	for name, err := range map[string]error{
		"another cluster's agent": ask("another", f.account()),
		"another service account": ask(f.key.Namespace, other),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyTokensNeedAServiceAccount(t *testing.T) {
	for name, x := range map[string]struct{ driver, signer string }{
		"csr":           {"csr", tokenForHub},
		"no driver":     {"", tokenForHub},
		"only a signer": {"token", "example.org/signer"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTokenFixture(t)
			f.drives(x.driver, x.signer)
			if n := f.pass(); n != 0 {
				t.Errorf("%d writes", n)
			}
			f.drives("token", tokenForHub)
			f.pass()
			f.mustBeThere(true)
			f.drives(x.driver, x.signer)
			f.pass()
			f.mustBeThere(false)
			if got := f.condition(); got != "" {
				t.Errorf("the condition is still %q", got)
			}
		})
	}
}

// What of somebody else's has one of the names is neither taken over nor deleted.
func TestAServiceAccountOfSomebodyElseStays(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"no labels":          nil,
		"another add-on's":   {"addon.open-cluster-management.io/name": "other", "addon.open-cluster-management.io/token-infrastructure": "true"},
		"half of the labels": {"addon.open-cluster-management.io/name": "a"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTokenFixture(t)
			theirs := f.account()
			theirs.Labels = labels
			f.Make(theirs)
			f.drives("token", tokenForHub)
			if _, err := f.controller.Reconcile(context.Background(), reconcile.Request{NamespacedName: f.key}); err == nil {
				t.Error("no error, and so it is not tried again")
			}
			want := "False/TokenInfrastructureApplyFailed/Failed to apply token infrastructure: the ServiceAccount " + f.key.Namespace + "/a-agent exists and is not the add-on's"
			if got := f.condition(); !strings.HasPrefix(got, want) {
				t.Errorf("the condition is %q, want %q", got, want)
			}
			f.drives("csr", tokenForHub)
			f.pass()
			f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(theirs), theirs))
			if !theirs.DeletionTimestamp.IsZero() || len(theirs.Labels) != len(labels) {
				t.Errorf("it is changed: %+v", theirs.ObjectMeta)
			}
		})
	}
}

// An add-on in a namespace that is no cluster's, such as a tenant's, gets no service
// account, and one whose cluster is gone has none any more.
func TestAnAddOnWithoutAClusterGetsNothing(t *testing.T) {
	f := newTokenFixture(t)
	f.drives("token", tokenForHub)
	f.pass()
	f.mustBeThere(true)
	f.Remove(f.cluster())
	f.pass()
	f.mustBeThere(false)
	if got := f.condition(); got != "" {
		t.Errorf("the condition is %q", got)
	}
	if n := f.pass(); n != 0 {
		t.Errorf("%d writes though nothing has changed", n)
	}
}

// A denied cluster's add-ons have no service accounts, and have others when the cluster is
// accepted again.
func TestADeniedClusterHasNoServiceAccounts(t *testing.T) {
	f := newTokenFixture(t)
	f.drives("token", tokenForHub)
	f.pass()
	first := f.uid()
	accept := func(yes bool) {
		mc := f.cluster()
		f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(mc), mc))
		mc.Spec.HubAcceptsClient = &yes
		f.Must(f.Update(context.Background(), mc))
		f.pass()
	}
	accept(false)
	f.mustBeThere(false)
	if got := f.condition(); got != "" {
		t.Errorf("the condition is %q", got)
	}
	accept(true)
	f.mustBeThere(true)
	if f.uid() == first {
		t.Error("the service account is the one from before")
	}
}

// When another agent has taken over the cluster, the service account whose tokens the
// former one has goes, and another one is made a moment later.
func TestATakeOverReplacesServiceAccounts(t *testing.T) {
	f := newTokenFixture(t)
	f.drives("token", tokenForHub)
	f.pass()
	first := f.uid()
	mc, now := f.cluster(), time.Now()
	f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(mc), mc))
	mc.Annotations, _ = cluster.TakeOver(nil, "b", now, now)
	f.Must(f.Update(context.Background(), mc))
	clock := clocktesting.NewFakePassiveClock(now)
	c, _ := env.Counting(t)
	f.controller = token.NewController(c, c, clock)
	if again := f.Reconcile(f.controller, f.key).RequeueAfter; again <= 0 || again > 3*time.Second {
		t.Errorf("the next look is in %s", again)
	}
	f.mustBeThere(false)
	clock.SetTime(now.Add(time.Minute))
	f.pass()
	f.mustBeThere(true)
	if f.uid() == first {
		t.Error("the service account is the one from before")
	}
	// One that the hub did not get to in time is replaced as well.
	mc.Annotations, _ = cluster.TakeOver(nil, "c", now.Add(time.Hour), now.Add(time.Hour))
	f.Must(f.Update(context.Background(), mc))
	clock.SetTime(now.Add(2 * time.Hour))
	f.pass()
	f.mustBeThere(false)
}

// What runs before the deletion may need the hub.
func TestAServiceAccountStaysUntilTheAddOnIsGone(t *testing.T) {
	f := newTokenFixture(t)
	f.drives("token", tokenForHub)
	f.pass()
	a := f.addOn()
	a.Finalizers = []string{"example.org/holding"}
	f.Must(f.Update(context.Background(), a))
	f.Must(f.Delete(context.Background(), a))
	f.pass()
	f.mustBeThere(true)
	f.Remove(a)
	f.pass()
	f.mustBeThere(false)
}

// What others delete or change is made again, and its new UID told; what has outlived
// its add-on while the hub was down is removed.
func TestServiceAccountsAreWatched(t *testing.T) {
	f, gone := newTokenFixture(t), newTokenFixture(t)
	gone.drives("token", tokenForHub)
	gone.pass()
	gone.Remove(gone.addOn())
	f.drives("token", tokenForHub)
	env.StartManager(t, func(m manager.Manager) error {
		return token.NewController(m.GetClient(), m.GetAPIReader(), clocktesting.NewFakePassiveClock(noon)).Register(m)
	})
	f.Eventually(func() error {
		if got := f.condition(); !strings.HasPrefix(got, "True/") {
			return errors.New(got)
		}
		return nil
	})
	before := f.condition()
	f.Must(f.Delete(context.Background(), f.account()))
	role := &rbacv1.Role{ObjectMeta: f.role()}
	f.Must(f.Get(context.Background(), client.ObjectKeyFromObject(role), role))
	role.Rules[0].ResourceNames = nil // all service accounts
	f.Must(f.Update(context.Background(), role))
	f.Eventually(func() error {
		if got := f.condition(); got == before || !strings.HasPrefix(got, "True/") {
			return fmt.Errorf("the condition is %q", got)
		}
		if err := f.Get(context.Background(), client.ObjectKeyFromObject(role), role); err != nil || len(role.Rules[0].ResourceNames) != 1 {
			return fmt.Errorf("the role is %+v (%w)", role.Rules, err)
		}
		return nil
	})
	if got := f.condition(); got != f.ready() {
		t.Errorf("the condition is %q", got)
	}
	f.Eventually(func() error {
		for _, o := range gone.there() {
			if err := f.Get(context.Background(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the %T of an add-on that is gone is still there (%w)", o, err)
			}
		}
		return nil
	})
	f.Remove(f.cluster())
	f.mustBeWithout()
	f.Make(f.cluster())
	f.Eventually(func() error {
		if got := f.condition(); !strings.HasPrefix(got, "True/") {
			return fmt.Errorf("the cluster is back, and the condition is %q", got)
		}
		return nil
	})
	f.drives("csr", tokenForHub)
	f.mustBeWithout()
}

// mustBeWithout waits until the add-on has no service account any more.
func (f *tokenFixture) mustBeWithout() {
	f.Helper()
	f.Eventually(func() error {
		if got := f.condition(); got != "" {
			return errors.New(got)
		}
		return nil
	})
	f.mustBeThere(false)
}
