package status

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	aboutv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/about/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
)

// facts are what the managed cluster claims about itself, in ClusterClaims, in
// ClusterProperties, or in both.
type facts struct {
	claims     *mirror.Mirror[*clusterv1alpha1.ClusterClaim]  // nil when left out
	properties *mirror.Mirror[*aboutv1alpha1.ClusterProperty] // nil when left out

	// looked is closed once it is known what properties there are, or that the
	// cluster does not serve the kind.
	looked     chan struct{}
	lookedOnce sync.Once
	all        chan struct{} // closed when all of it is known
}

func newFacts(o Options) *facts {
	f := &facts{looked: make(chan struct{}), all: make(chan struct{})}
	if !o.Claims.WithoutClaims {
		f.claims = mirror.New(mirror.Options[*clusterv1alpha1.ClusterClaim]{
			Client: o.Local, List: &clusterv1alpha1.ClusterClaimList{}, Clock: o.Clock,
			Report: reporter(o.Log, "cluster claims"),
		})
	}
	if o.Claims.WithProperties {
		report := reporter(o.Log, "cluster properties")
		f.properties = mirror.New(mirror.Options[*aboutv1alpha1.ClusterProperty]{
			Client: o.Local, List: &aboutv1alpha1.ClusterPropertyList{}, Clock: o.Clock,
			Report: func(err error) {
				if err == nil || apierrors.IsNotFound(err) {
					f.lookedOnce.Do(func() { close(f.looked) })
				}
				report(err)
			},
			// Few clusters have the kind, and those that get it can wait.
			Backoff: ptr.To(retry.Restart(2 * time.Minute)),
		})
	}
	return f
}

// run follows the facts until ctx ends.
func (f *facts) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	var first []<-chan struct{}
	if f.claims != nil {
		running.Go(func() { f.claims.Run(ctx) })
		first = append(first, f.claims.Filled())
	}
	if f.properties != nil {
		running.Go(func() { f.properties.Run(ctx) })
		first = append(first, f.looked)
	}
	for _, ch := range first {
		select {
		case <-ch:
		case <-ctx.Done():
			return
		}
	}
	close(f.all)
}

// known is closed once all facts are known.
func (f *facts) known() <-chan struct{} { return f.all }

// notify sets news whenever claims or properties may have changed.
func (f *facts) notify(news loop.Signal) {
	if f.claims != nil {
		f.claims.Notify(news)
	}
	if f.properties != nil {
		f.properties.Notify(news)
	}
}

// objects are the facts, as claims. A property wins over a claim of its name.
func (f *facts) objects() []*clusterv1alpha1.ClusterClaim {
	var claims []*clusterv1alpha1.ClusterClaim
	var properties []*aboutv1alpha1.ClusterProperty
	if f.claims != nil {
		claims = f.claims.Objects()
	}
	if f.properties != nil {
		properties = f.properties.Objects()
	}
	return merged(claims, properties)
}

func merged(claims []*clusterv1alpha1.ClusterClaim, properties []*aboutv1alpha1.ClusterProperty) []*clusterv1alpha1.ClusterClaim {
	names := map[string]bool{}
	all := make([]*clusterv1alpha1.ClusterClaim, 0, len(claims)+len(properties))
	for _, p := range properties {
		// The hub takes no claims without a value, and none that are longer.
		_, local := p.Labels[cluster.SpokeOnlyLabel]
		if n := len(p.Spec.Value); local || n == 0 || n > limits.ClaimValue {
			continue
		}
		names[p.Name] = true
		all = append(all, &clusterv1alpha1.ClusterClaim{ObjectMeta: p.ObjectMeta, Spec: clusterv1alpha1.ClusterClaimSpec{Value: p.Spec.Value}})
	}
	for _, c := range claims {
		if !names[c.Name] {
			all = append(all, c)
		}
	}
	return all
}

// DefaultMaxCustomClaims is how many claims without a reserved name are reported
// to the hub by default.
const DefaultMaxCustomClaims = 20

// ClaimRules say which claims are reported to the hub.
type ClaimRules struct {
	// ReservedSuffixes of names make them reserved, beside the well-known
	// reserved names.
	ReservedSuffixes []string
	// MaxCustom is how many other claims there may be.
	MaxCustom int
	// WithoutClaims leaves the ClusterClaims out, WithProperties adds the
	// ClusterProperties of about.k8s.io.
	WithoutClaims, WithProperties bool
}

func (r ClaimRules) reserved(name string) bool {
	return slices.Contains(cluster.ReservedClaims(), name) ||
		slices.ContainsFunc(r.ReservedSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// collect makes the status's claims: the reserved ones by name, then the others
// by name. It leaves out those beyond the limit and returns how many these are.
func (r ClaimRules) collect(claims []*clusterv1alpha1.ClusterClaim) (_ []clusterv1.ManagedClusterClaim, left int) {
	var reserved, custom []clusterv1.ManagedClusterClaim
	for _, c := range claims {
		if _, local := c.Labels[cluster.SpokeOnlyLabel]; local {
			continue
		}
		claim := clusterv1.ManagedClusterClaim{Name: c.Name, Value: c.Spec.Value}
		if r.reserved(c.Name) {
			reserved = append(reserved, claim)
		} else {
			custom = append(custom, claim)
		}
	}
	byName := func(a, b clusterv1.ManagedClusterClaim) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(reserved, byName)
	slices.SortFunc(custom, byName)
	if n := len(custom) - r.MaxCustom; n > 0 {
		custom, left = custom[:r.MaxCustom], n
	}
	return append(reserved, custom...), left
}

// sum adds up what all nodes have, and what pods may use on those that are
// schedulable.
func sum(nodes []*corev1.Node) (capacity, allocatable clusterv1.ResourceList) {
	capacity, allocatable = clusterv1.ResourceList{}, clusterv1.ResourceList{}
	for _, n := range nodes {
		add(capacity, n.Status.Capacity)
		if !n.Spec.Unschedulable {
			add(allocatable, n.Status.Allocatable)
		}
	}
	return capacity, allocatable
}

func add(total clusterv1.ResourceList, more corev1.ResourceList) {
	for name, quantity := range more {
		q := total[clusterv1.ResourceName(name)]
		q.Add(quantity)
		total[clusterv1.ResourceName(name)] = q
	}
}

// merge is the capacity to report: others may have added quantities of their
// own, which stay.
func merge(old, nodes clusterv1.ResourceList) clusterv1.ResourceList {
	if len(old) == 0 && len(nodes) == 0 {
		return nil
	}
	merged := clusterv1.ResourceList{}
	maps.Copy(merged, old)
	maps.Copy(merged, nodes)
	return merged
}

// stripNode leaves of a node what sum looks at. Nodes are big, and their
// agents report often.
func stripNode(n *corev1.Node) {
	n.Labels, n.Annotations = nil, nil
	n.Spec = corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable}
	n.Status = corev1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable}
}

func sameNode(a, b *corev1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable &&
		sameQuantities(a.Status.Capacity, b.Status.Capacity) && sameQuantities(a.Status.Allocatable, b.Status.Allocatable)
}

func sameQuantities(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		other, ok := b[name]
		if !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}
