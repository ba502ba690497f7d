package admission

import (
	"errors"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/utils/clock"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// Limits of the certificate requests of one cluster that bootstrap identities
// may have on the hub, in any state. Upstream's agents make no further request,
// not even to renew, when there are cluster.MaxPendingRequests of their cluster
// from any user. So the identities that can ask for any cluster together stay
// below that number.
const (
	perIdentity = 5
	together    = 8
)

// settling is how long an admitted request counts that the cache does not show
// yet. After that time the cache shows it, or a later check has refused it.
const settling = 10 * time.Second

// byCluster indexes certificate requests by the cluster in their label.
const byCluster = "cluster"

// requestLimits counts the certificate requests in the server's own cache, and
// the admitted ones that the cache does not show yet.
type requestLimits struct {
	clock   clock.PassiveClock
	indexer cache.Indexer

	mu      sync.Mutex
	arrived []arrival // in the order of their times
}

// arrival is an admitted request.
type arrival struct {
	at                 time.Time
	name, cluster, who string
	// unbound is whether the requester may ask for any cluster.
	unbound bool
}

// SetExternalKubeInformerFactory is called by the API server before it serves.
func (l *requestLimits) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	informer := f.Certificates().V1().CertificateSigningRequests().Informer()
	if err := informer.AddIndexers(cache.Indexers{byCluster: clusterOf}); err != nil {
		return // ValidateInitialization tells
	}
	l.indexer = informer.GetIndexer()
}

// ValidateInitialization fails the server's start when the cache is missing.
func (l *requestLimits) ValidateInitialization() error {
	if l.indexer == nil {
		return errors.New("there is no cache of certificate requests")
	}
	return nil
}

func clusterOf(o any) ([]string, error) {
	r, ok := o.(*certificatesv1.CertificateSigningRequest)
	if !ok || r.Labels[cluster.NameLabel] == "" {
		return nil, nil
	}
	if _, addOn := r.Labels[cluster.AddOnNameLabel]; addOn {
		return nil, nil
	}
	return []string{r.Labels[cluster.NameLabel]}, nil
}

// room explains why a bootstrap identity may have no further request of a
// cluster on the hub. An identity that is bound to the cluster has a count of
// its own.
func (l *requestLimits) room(who user.Info, r *certificates.CertificateSigningRequest, dryRun bool) error {
	name := r.Labels[cluster.NameLabel]
	if name == "" || !isBootstrap(who) {
		return nil
	}
	cached, err := l.indexer.ByIndex(byCluster, name)
	if err != nil {
		return fmt.Errorf("count the certificate requests of the cluster %s: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget()
	mine, all, seen := 0, 0, map[string]bool{}
	count := func(requester string, unbound bool) {
		if requester == who.GetName() {
			mine++
		}
		if unbound {
			all++
		}
	}
	for _, o := range cached {
		r := o.(*certificatesv1.CertificateSigningRequest)
		seen[r.Name] = true
		count(r.Spec.Username, unbound(&user.DefaultInfo{Name: r.Spec.Username, Groups: r.Spec.Groups}))
	}
	for _, a := range l.arrived {
		if a.cluster == name && !seen[a.name] {
			count(a.who, a.unbound)
		}
	}
	if mine >= perIdentity || unbound(who) && all >= together {
		return fmt.Errorf("the hub has %d certificate requests of the cluster %q from user %q, and %d from all that may register any cluster, and takes no more than %d and %d: delete those that are of no use with \"kubectl delete csr -l %s=%s\", or use a token that is bound to the cluster",
			mine, name, who.GetName(), all, perIdentity, together, cluster.NameLabel, name)
	}
	if !dryRun {
		l.arrived = append(l.arrived, arrival{at: l.clock.Now(), name: r.Name, cluster: name, who: who.GetName(), unbound: unbound(who)})
	}
	return nil
}

// unbound reports whether a user may ask for the certificates of any cluster.
func unbound(who user.Info) bool {
	return isBootstrap(who) && len(cluster.BoundClusters(who.GetGroups())) == 0
}

// forget removes the arrivals that the cache shows by now.
func (l *requestLimits) forget() {
	old := l.clock.Now().Add(-settling)
	for len(l.arrived) > 0 && l.arrived[0].at.Before(old) {
		l.arrived = l.arrived[1:]
	}
}
