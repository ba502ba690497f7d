package addon_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/hubinfo"
	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
)

// asks counts an agent's requests for add-ons.
type asks struct{ lists, watches atomic.Int32 }

func (a *asks) wrap(next http.RoundTripper) http.RoundTripper {
	return testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/managedclusteraddons") {
			if r.URL.Query().Get("watch") != "" {
				a.watches.Add(1)
			} else {
				a.lists.Add(1)
			}
		}
		return next.RoundTrip(r)
	})
}

// announcing has the hub say that it announces add-ons, which it does not do yet.
func announcing(t *testing.T) (*fixture, *asks) {
	f, a := newFixture(t), &asks{}
	f.wrapHub = a.wrap
	f.silent.Store(true)
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: hubinfo.Name}}
	info.Data = map[string]string{hubinfo.FeaturesKey: hubinfo.Rejoin + "," + hubinfo.AddOnAnnouncement}
	f.must(f.Create(f.ctx, info))
	t.Cleanup(func() { f.must(f.Delete(f.ctx, info)) })
	return f, a
}

func (f *fixture) announceAddOns() {
	f.silent.Store(false)
	f.changed <- struct{}{}
}

// waits waits until the agent has nothing to do but to hear of an add-on.
func (f *fixture) waits(a *asks, lists int32) {
	f.t.Helper()
	f.eventually(func() error {
		if got := a.lists.Load(); got != lists || !f.clock.HasWaiters() {
			return fmt.Errorf("the agent has listed the add-ons %d times, want %d, and waits: %t",
				got, lists, f.clock.HasWaiters())
		}
		return nil
	})
	if n := a.watches.Load(); n != 0 {
		f.t.Errorf("the agent watches add-ons, %d times", n)
	}
}

func TestAnAgentWithoutAddOnsWatchesNone(t *testing.T) {
	f, a := announcing(t)
	f.start()
	f.waits(a, 1)
	f.changed <- struct{}{} // of something else
	m := f.addOn("a", forHub(registration.User(f.hub, "a", "worker")))
	f.waits(a, 1)
	f.announceAddOns()
	f.stored("a-hub-kubeconfig", nil)

	// What it has to look after it knows without being told.
	f.silent.Store(true)
	f.stop()
	before := a.watches.Load()
	f.start()
	f.eventually(func() error {
		if a.watches.Load() == before {
			return errors.New("with an add-on, the agent does not watch")
		}
		return nil
	})
	f.stop()
	f.must(f.Delete(f.ctx, m))
	f.start()
	f.removed(f.install, "a-hub-kubeconfig")
}

// A hub whose announcement never comes is asked once an hour.
func TestAnAddOnThatIsNotAnnouncedIsFound(t *testing.T) {
	f, a := announcing(t)
	f.start()
	f.waits(a, 1)
	f.addOn("a", forHub(registration.User(f.hub, "a", "worker")))
	f.clock.Step(time.Hour)
	f.storedLater("a-hub-kubeconfig", nil)
}

// An upstream hub, or an older one, announces nothing.
func TestAHubThatAnnouncesNothingIsWatched(t *testing.T) {
	f := newFixture(t)
	f.silent.Store(true)
	f.start()
	f.addOn("a", forHub(registration.User(f.hub, "a", "worker")))
	f.stored("a-hub-kubeconfig", nil)
}
