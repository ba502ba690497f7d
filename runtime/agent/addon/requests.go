package addon

import (
	"context"
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/engine"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

type request = certificatesv1.CertificateSigningRequest

// requests are the certificate requests of all add-ons of the cluster on the hub. They
// are watched only while one is under way: the hub looks at each change of a request
// for each agent that watches. It is safe for concurrent use.
type requests struct {
	*agent

	mu sync.Mutex
	// users are the add-ons that need them.
	users sets.Set[string]
	watch *engine.Watch[*request]
	end   context.CancelFunc
	// made are requests that the watch may not show yet, with their add-ons.
	made map[string]string
}

func newRequests(a *agent) *requests {
	return &requests{agent: a, users: sets.New[string](), made: map[string]string{}}
}

// use watches the requests until release. ok is false until they are known.
func (r *requests) use(addOn string) (ok bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watch == nil {
		ctx, end := context.WithCancel(r.ctx)
		r.watch, err = engine.StartWatch(ctx, &r.places.running, engine.WatchOptions[*request]{
			Client: r.hub, Object: &request{}, List: &certificatesv1.CertificateSigningRequestList{},
			Select: []client.ListOption{
				client.MatchingLabels{cluster.NameLabel: r.ClusterName}, client.HasLabels{cluster.AddOnNameLabel},
			},
			Changed: func(_, now *request) { r.queue.Add(now.Labels[cluster.AddOnNameLabel]) },
			Report:  r.watched,
		})
		if err != nil {
			end()
			return false, err
		}
		r.end = end
	}
	r.users.Insert(addOn)
	return r.watch.IsComplete(), nil
}

// watched takes the reports of the watch: all who wait for it go on when it is
// complete.
func (r *requests) watched(err error) {
	if err != nil {
		r.Log.Debug("cannot watch the add-ons' certificate requests on the hub, trying again", "err", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for addOn := range r.users {
		r.queue.Add(addOn)
	}
}

// release ends the watch when no other add-on needs it.
func (r *requests) release(addOn string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users.Delete(addOn)
	if r.users.Len() == 0 && r.watch != nil {
		r.end()
		r.watch = nil
		clear(r.made)
	}
}

// add notes a request that was just made.
func (r *requests) add(addOn, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made[name] = addOn
}

// find is a request that the agent has made, nil when the hub no longer has it. The
// watch may not show it yet.
func (r *requests) find(ctx context.Context, name string) (*request, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own, ok := r.watch.Get("", name); ok {
		return own, nil
	}
	live := &request{}
	err := r.hub.Get(ctx, client.ObjectKey{Name: name}, live)
	switch {
	case apierrors.IsNotFound(err):
		delete(r.made, name)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the certificate request %s: %w", name, err)
	}
	return live, nil
}

// countOf is how many requests of an add-on the hub has, in any state. Those count
// that agents of the cluster have made: others could keep the add-on from a
// certificate.
func (r *requests) countOf(addOn string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, one := range r.watch.Objects() {
		delete(r.made, one.Name)
		if one.Labels[cluster.AddOnNameLabel] == addOn && registration.MadeByAgent(one, r.ClusterName) {
			n++
		}
	}
	for _, of := range r.made {
		if of == addOn {
			n++
		}
	}
	return n
}
