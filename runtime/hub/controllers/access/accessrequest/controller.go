// Package accessrequest answers AccessRequests: it approves those that a grant of
// their logical cloud covers, has the cluster's agent issue what they ask for,
// checks and hands on what the agent answers, ends it in time, and takes it back
// when the request, the grant, the cloud or the cluster is gone.
//
// A pass gathers facts, decides from them alone (decide.go, wait.go, answer.go),
// and writes. Nothing is remembered between passes, and nothing is polled: what a
// request waits for is watched, and only the end of access is a matter of time.
package accessrequest

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/apply"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/controllers/access/hubmade"
	"github.com/muster-fleet/terraform-provider-muster/runtime/patch"
)

const (
	// workers is how many requests are reconciled at a time.
	workers = 5
	// longestWait is the longest time until a request is looked at again for which
	// time alone changes something: timers don't count while a machine sleeps.
	longestWait = time.Hour
)

// Controller reconciles AccessRequests.
type Controller struct {
	client client.Client
	// live reads from the server, works from the cache of clouds' works.
	live, works client.Reader
	events      events.EventRecorder
	clock       clock.PassiveClock
	// revoking has the withdrawn keys of a cloud written by one worker at a time.
	revoking keymutex.KeyMutex
	hub      func(context.Context) (string, error) // its ID
}

// NewController makes the controller. live reads past the cache.
func NewController(c client.Client, live client.Reader, recorder events.EventRecorder, clk clock.PassiveClock) *Controller {
	return &Controller{client: c, live: live, works: live, events: recorder, clock: clk, revoking: keymutex.NewHashed(0), hub: hubmade.HubID(live)}
}

// Reconcile takes one request a step further.
func (c *Controller) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	request := &v1alpha1.AccessRequest{}
	if err := c.client.Get(ctx, r.NamespacedName, request); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	request = request.DeepCopy()
	if !request.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(request, muster.AccessFinalizer) {
			return reconcile.Result{}, nil
		}
		return c.finalize(ctx, request)
	}
	if !controllerutil.ContainsFinalizer(request, muster.AccessFinalizer) {
		_, err := patch.Object(ctx, c.client, request, func() bool { return controllerutil.AddFinalizer(request, muster.AccessFinalizer) })
		return reconcile.Result{}, err // the write leads here again
	}
	f, err := c.gather(ctx, request)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("gather what the AccessRequest %s depends on: %w", r.NamespacedName, err)
	}
	o := decide(f)
	if o.over {
		return reconcile.Result{}, apply.Delete(ctx, c.client, request)
	}
	if o.ask && f.credential == nil {
		if err := c.ask(ctx, f); err != nil {
			return reconcile.Result{}, err
		}
	}
	// First the status: what the agent has issued is not to be lost.
	if err := c.report(ctx, request, f.hubID, o); err != nil {
		return reconcile.Result{}, err
	}
	if o.drop {
		if err := apply.Delete(ctx, c.client, f.credential); err != nil {
			return reconcile.Result{}, err
		}
	}
	if request.HasEnded() {
		if err := c.forgetOldest(ctx, request); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: soon(o.recheck)}, nil
}

// soon is when to look again; 0 for never.
func soon(after time.Duration) time.Duration {
	if after <= 0 {
		return 0
	}
	return min(after, longestWait)
}

// report writes a request's status, and reports what is new in it.
func (c *Controller) report(ctx context.Context, r *v1alpha1.AccessRequest, hubID string, o *outcome) error {
	written, err := patch.Status(ctx, c.client, r, func() bool {
		if apiequality.Semantic.DeepEqual(r.Status, o.status) {
			return false
		}
		r.Status = o.status
		return true
	})
	if err != nil {
		return fmt.Errorf("report on the AccessRequest %s: %w", client.ObjectKeyFromObject(r), err)
	}
	if written {
		c.record(r, hubID, o.events)
	}
	return nil
}

// record leaves events. They name who asked, for which user and where, the key and the end,
// and never a token.
func (c *Controller) record(r *v1alpha1.AccessRequest, hubID string, all []note) {
	for _, e := range all {
		about := fmt.Sprintf("requester %q, user %q, subject %q, cluster %q", r.Spec.Requester.Username, r.Spec.User, access.CommonName(hubID, r.Spec.User), r.Spec.ManagedCluster)
		if r.Status.KeyHash != "" {
			about += ", key " + r.Status.KeyHash
		}
		if r.Status.Serial != "" {
			about += ", serial " + r.Status.Serial
		}
		if r.Status.NotAfter != nil {
			about += ", until " + stamp(r.Status.NotAfter.Time)
		}
		c.events.Eventf(r, nil, e.kind, e.reason, e.action, "%s", text.Cut(about+": "+e.message, limits.EventNote))
	}
}

// ask makes the credential that the cluster's agent answers.
func (c *Controller) ask(ctx context.Context, f *facts) error {
	want := wanted(f)
	if issued := meta.FindStatusCondition(f.request.Status.Conditions, muster.ConditionIssued); issued != nil && issued.Reason == muster.ReasonWaitingForAgent {
		// It was made before, and the cache may have yet to hear of it.
		have, err := apply.Read(ctx, c.live, client.ObjectKeyFromObject(want), &v1alpha1.ClusterCredential{})
		if err != nil || have != nil {
			return err
		}
	}
	err := c.client.Create(ctx, want)
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache has yet to hear of it
	}
	return patch.Explain(err, "ask the agent of the cluster %s", want.Namespace)
}

// wanted is the credential of a request.
func wanted(f *facts) *v1alpha1.ClusterCredential {
	r := f.request
	return &v1alpha1.ClusterCredential{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Spec.ManagedCluster, Name: muster.Credential(string(r.UID)),
			Labels:      map[string]string{muster.LogicalCloudLabel: muster.CloudID(r.Namespace, r.Spec.LogicalCloud)},
			Annotations: map[string]string{muster.LogicalCloudAnnotation: r.Namespace + "/" + r.Spec.LogicalCloud},
		},
		Spec: v1alpha1.ClusterCredentialSpec{
			AccessRequest: v1alpha1.RequestReference{Namespace: r.Namespace, Name: r.Name, UID: r.UID},
			HubID:         f.hubID, Requester: r.Spec.Requester.Username, User: r.Spec.User, Namespace: f.cloud.Spec.Namespace.Name,
			Mode: r.Spec.Mode, Request: r.Spec.Request, SealTo: r.Spec.SealTo, ExpirationSeconds: r.Spec.ExpirationSeconds,
		},
	}
}

const (
	// maxRevoked is how many withdrawn keys a cloud remembers. When there are as
	// many, further requests stay until the first of them has ended.
	maxRevoked = 1000
	// maxRecords is how many requests of a user for a cluster are kept that have
	// ended.
	maxRecords = 50
)

// finalize takes back what a deleted request gave, and lets it go. It goes at once
// when nothing was handed out: then nobody has a certificate of the key.
func (c *Controller) finalize(ctx context.Context, r *v1alpha1.AccessRequest) (reconcile.Result, error) {
	f, err := c.gather(ctx, r)
	if err != nil {
		return reconcile.Result{}, err
	}
	o := &outcome{status: *r.Status.DeepCopy()}
	ended := o.is(muster.ConditionRevoked) || o.is(muster.ConditionExpired) || r.Status.NotAfter == nil || !f.now.Before(r.Status.NotAfter.Time)
	if !ended && !f.shared {
		// At once: from now on the cloud's work is rendered without the key, and a
		// new request must not bring it back.
		room, err := c.remember(ctx, f)
		if err != nil {
			return reconcile.Result{}, err
		}
		o.status.Certificate, o.status.SealedToken, o.status.Endpoints = nil, nil, nil
		switch {
		case room > 0:
			o.recheck = room
			o.set(f.now, muster.ConditionRevoked, metav1.ConditionFalse, muster.ReasonTooManyRevoked,
				fmt.Sprintf("the logical cloud remembers %d withdrawn keys, and no more; this request stays until one of them has ended", maxRevoked))
		case !f.withdrawn():
			o.pend(f)
		default:
			ended = true
			o.record(corev1.EventTypeNormal, muster.ConditionRevoked, "Revoke", "the request was deleted, and the rights are withdrawn in the cluster")
		}
		if !ended {
			return reconcile.Result{RequeueAfter: soon(o.recheck)}, c.report(ctx, r, f.hubID, o)
		}
	}
	if f.credential != nil {
		if err := apply.Delete(ctx, c.client, f.credential); err != nil {
			return reconcile.Result{}, err
		}
	}
	written, err := patch.Object(ctx, c.client, r, func() bool { return controllerutil.RemoveFinalizer(r, muster.AccessFinalizer) })
	if err == nil && written {
		c.record(r, f.hubID, o.events)
	}
	return reconcile.Result{}, err
}

// remember notes on the cloud that a key is withdrawn from a cluster. Certificates
// of earlier requests with the key may live longer than this one's, so it is noted
// for as long as the cloud lets any live. room is how long it takes until there is
// room for it.
func (c *Controller) remember(ctx context.Context, f *facts) (room time.Duration, _ error) {
	if f.cloud == nil {
		return 0, nil
	}
	key := client.ObjectKeyFromObject(f.cloud)
	until := f.now.Add(time.Duration(f.cloud.Spec.Access.MaxLifetimeSeconds) * time.Second)
	if f.request.Status.NotAfter.After(until) {
		until = f.request.Status.NotAfter.Time
	}
	entry := v1alpha1.RevokedKey{KeyHash: f.request.Status.KeyHash, ManagedCluster: f.request.Spec.ManagedCluster, Until: metav1.NewTime(until)}
	if slices.ContainsFunc(f.cloud.Status.RevokedKeys, func(k v1alpha1.RevokedKey) bool { return same(k, entry) }) {
		return 0, nil
	}
	c.revoking.LockKey(key.String())
	defer func() { _ = c.revoking.UnlockKey(key.String()) }() // fails only for keys that nobody locked
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lc := &v1alpha1.LogicalCloud{}
		if err := c.live.Get(ctx, key, lc); err != nil {
			return client.IgnoreNotFound(err)
		}
		_, err := patch.Status(ctx, c.client, lc, func() bool {
			var changed bool
			lc.Status.RevokedKeys, changed, room = revoke(lc.Status.RevokedKeys, entry, f.now)
			return changed
		})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("note on the LogicalCloud %s that a key is withdrawn: %w", key, err)
	}
	return room, nil
}

func same(a, b v1alpha1.RevokedKey) bool {
	return a.KeyHash == b.KeyHash && a.ManagedCluster == b.ManagedCluster
}

// revoke adds a key to the withdrawn ones and leaves out those that have ended.
func revoke(keys []v1alpha1.RevokedKey, entry v1alpha1.RevokedKey, now time.Time) (out []v1alpha1.RevokedKey, changed bool, room time.Duration) {
	for _, k := range keys {
		if same(k, entry) {
			return keys, false, 0
		}
		if now.Before(k.Until.Time) {
			out = append(out, k)
		}
	}
	if len(out) < maxRevoked {
		return append(out, entry), true, 0
	}
	first := slices.MinFunc(out, func(a, b v1alpha1.RevokedKey) int { return a.Until.Compare(b.Until.Time) })
	return out, len(out) != len(keys), max(first.Until.Sub(now), time.Second)
}

// forgetOldest deletes the oldest records of a user for a cluster beyond those that
// are kept, so that many short requests don't fill the store.
func (c *Controller) forgetOldest(ctx context.Context, r *v1alpha1.AccessRequest) error {
	beside, err := c.beside(ctx, r)
	if err != nil {
		return err
	}
	var records []*v1alpha1.AccessRequest
	for i := range beside {
		if other := &beside[i]; other.Spec.User == r.Spec.User && other.DeletionTimestamp == nil && other.HasEnded() {
			records = append(records, other)
		}
	}
	if len(records) <= maxRecords {
		return nil
	}
	slices.SortFunc(records, func(a, b *v1alpha1.AccessRequest) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	for _, old := range records[:len(records)-maxRecords] {
		if err := apply.Delete(ctx, c.client, old.DeepCopy()); err != nil {
			return err
		}
	}
	return nil
}
