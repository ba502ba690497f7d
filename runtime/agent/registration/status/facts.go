package status

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/retry"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/loop"
	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/registration/mirror"
	aboutv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/about/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
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
