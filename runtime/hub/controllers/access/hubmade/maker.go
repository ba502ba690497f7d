package hubmade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/useraccess"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// afterFailure is when access is asked for again that a cluster could not give.
const afterFailure = 10 * time.Minute

// Maker asks for access with the keys that the hub has made.
type Maker struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
	vault  *Vault
}

// NewMaker makes a maker. live reads past a cache.
func NewMaker(c client.Client, live client.Reader, clk clock.PassiveClock, v *Vault) *Maker {
	return &Maker{client: c, live: live, clock: clk, vault: v}
}

// Users are the users that the hub makes keys for: those that grants name. Nobody
// knows who is in a group.
func Users(c *v1alpha1.LogicalCloud) []string {
	var out []string
	for _, g := range c.Spec.Grants {
		out = append(out, g.Users...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Requests are the requests that the hub has made for a cloud.
func Requests(ctx context.Context, r client.Reader, c *v1alpha1.LogicalCloud) ([]v1alpha1.AccessRequest, error) {
	list := &v1alpha1.AccessRequestList{}
	of := client.MatchingLabels{muster.LogicalCloudLabel: muster.CloudID(c.Namespace, c.Name), muster.HubMadeLabel: "true"}
	if err := r.List(ctx, list, client.InNamespace(c.Namespace), of); err != nil {
		return nil, fmt.Errorf("list the access requests that the hub has made: %w", err)
	}
	return list.Items, nil
}

// holder is who has access where.
type holder struct{ user, cluster string }

func byHolder(requests []v1alpha1.AccessRequest) map[holder][]*v1alpha1.AccessRequest {
	out := map[holder][]*v1alpha1.AccessRequest{}
	for i := range requests {
		r := &requests[i]
		h := holder{r.Spec.User, r.Spec.ManagedCluster}
		out[h] = append(out[h], r)
	}
	for _, of := range out {
		slices.SortFunc(of, func(a, b *v1alpha1.AccessRequest) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
	}
	return out
}

// Sync makes keys and asks for access for all users of a cloud in all of these
// clusters, and withdraws what others have. It returns when to look again; 0 if only
// an event changes anything.
func (m *Maker) Sync(ctx context.Context, c *v1alpha1.LogicalCloud, hubID string, clusters []string) (time.Duration, error) {
	requests, err := Requests(ctx, m.live, c)
	if err != nil {
		return 0, err
	}
	users := Users(c)
	have := byHolder(requests)
	var errs []error
	for h, of := range have {
		if !slices.Contains(users, h.user) || !slices.Contains(clusters, h.cluster) {
			errs = append(errs, m.withdraw(ctx, of))
		}
	}
	if err := m.vault.Keep(ctx, c, users); err != nil {
		return 0, err
	}
	var wake time.Duration
	for _, user := range users {
		ring, err := m.vault.Get(ctx, c, user)
		if err != nil {
			return 0, err
		}
		for _, cluster := range clusters {
			next := decide(have[holder{user, cluster}], ring, m.clock.Now())
			errs = append(errs, m.withdraw(ctx, next.remove))
			if next.ask {
				if ring, err = m.ask(ctx, c, hubID, user, cluster, ring); err != nil {
					errs = append(errs, err)
				}
			}
			if next.wake > 0 && (wake == 0 || next.wake < wake) {
				wake = next.wake
			}
		}
	}
	return wake, errors.Join(errs...)
}

// Forget removes all that the hub has made for a cloud.
func (m *Maker) Forget(ctx context.Context, c *v1alpha1.LogicalCloud) error {
	requests, err := Requests(ctx, m.live, c)
	if err != nil {
		return err
	}
	var all []*v1alpha1.AccessRequest
	for i := range requests {
		all = append(all, &requests[i])
	}
	return errors.Join(m.withdraw(ctx, all), m.vault.Keep(ctx, c, nil))
}

func (m *Maker) withdraw(ctx context.Context, requests []*v1alpha1.AccessRequest) error {
	var errs []error
	for _, r := range requests {
		if !r.DeletionTimestamp.IsZero() {
			continue
		}
		if err := m.client.Delete(ctx, r, client.Preconditions{UID: &r.UID}); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete the access request %s: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}

// ask asks for access with the user's newest key, or with a new one where that was
// withdrawn from the cluster.
func (m *Maker) ask(ctx context.Context, c *v1alpha1.LogicalCloud, hubID, user, cluster string, ring Ring) (Ring, error) {
	mode := useraccess.ModeFor(c)
	usable, err := m.usable(c, cluster, mode, ring)
	if err != nil {
		return ring, err
	}
	if !usable {
		if ring, err = m.vault.Add(ctx, c, user, ring); err != nil {
			return ring, err
		}
	}
	ask := useraccess.Ask{Namespace: c.Namespace, Cloud: c.Name, Cluster: cluster, User: user, HubID: hubID, Mode: mode}
	r, err := ask.Request(ring[0])
	if err != nil {
		return ring, err
	}
	r.Labels = map[string]string{muster.LogicalCloudLabel: muster.CloudID(c.Namespace, c.Name), muster.HubMadeLabel: "true"}
	if err := m.client.Create(ctx, r); err != nil {
		return ring, fmt.Errorf("ask for access of user %q to the cluster %s: %w", user, cluster, err)
	}
	return ring, nil
}

// usable reports whether the newest key may be asked with.
func (m *Maker) usable(c *v1alpha1.LogicalCloud, cluster string, mode v1alpha1.AccessMode, ring Ring) (bool, error) {
	if len(ring) == 0 {
		return false, nil
	}
	var public any = ring[0].Certificate.Public()
	if mode == v1alpha1.AccessToken {
		public = ring[0].Token.PublicKey()
	}
	hash, err := access.KeyHash(public)
	if err != nil {
		return false, err
	}
	_, revoked := c.RevokedUntil(cluster, hash, m.clock.Now())
	return !revoked, nil
}

// step is what to do about a user in a cluster.
type step struct {
	ask    bool
	remove []*v1alpha1.AccessRequest
	wake   time.Duration
}

// decide finds what to do, given the requests for a user in a cluster from the
// oldest to the newest. Access is renewed when a third of it is left. The request
// before goes on until it ends by itself: it has the same key, which deleting it would
// withdraw.
func decide(requests []*v1alpha1.AccessRequest, ring Ring, now time.Time) step {
	var ended []*v1alpha1.AccessRequest
	var renew, retry time.Time
	for _, r := range requests {
		failed := meta.FindStatusCondition(r.Status.Conditions, muster.ConditionFailed)
		offline := failed != nil && failed.Status == metav1.ConditionTrue && failed.Reason == muster.ReasonAgentOffline
		issued := meta.IsStatusConditionTrue(r.Status.Conditions, muster.ConditionIssued) && r.Status.NotAfter != nil
		switch {
		case !r.DeletionTimestamp.IsZero():
		case r.HasEnded() && !offline:
			ended = append(ended, r)
			if failed != nil && failed.Status == metav1.ConditionTrue {
				retry = r.CreationTimestamp.Add(afterFailure)
			}
		case !issued:
			return step{remove: ended} // the answer is an event
		default:
			if _, known := ring.Find(r.Status.KeyHash); known { // else the hub has lost the key
				lifetime := r.Status.NotAfter.Sub(r.CreationTimestamp.Time)
				if at := r.Status.NotAfter.Add(-lifetime / 3); at.After(renew) {
					renew = at
				}
			}
		}
	}
	next := renew
	if retry.After(next) {
		next = retry
	}
	if left := next.Sub(now); !next.IsZero() && left > 0 {
		return step{wake: left}
	}
	return step{ask: true, remove: ended}
}
