package logicalcloud

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/access/cloud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/hub/selection"
)

// situation is all that a pass decides from. Nobody may change the objects in it.
type situation struct {
	cloud     *v1alpha1.LogicalCloud
	hubID     string
	limit     int
	catalogue map[string]*v1alpha1.AccessRole
	selection selection.Selection
	// keys are those with access, by cluster.
	keys map[string][]cloud.Key
	// works and probes are the cloud's, by cluster.
	works, probes map[string]*workv1.ManifestWork
	// hubMade says that the hub has made requests for the cloud.
	hubMade bool
	// takenBy is the other cloud that has the namespace in a cluster, or gets it
	// first, by cluster.
	takenBy map[string]string
}

// works is where the works of clouds are found.
type works struct {
	client.Reader
	// of selects the works of a cloud by its CloudID.
	of func(id string) client.ListOption
}

// liveWorks finds works on the server.
func liveWorks(r client.Reader) works {
	return works{Reader: r, of: func(id string) client.ListOption { return client.MatchingLabels{muster.LogicalCloudLabel: id} }}
}

// hubID is the hub's ID, once it is known.
type hubID struct {
	mu    sync.Mutex
	value string
}

func (h *hubID) get(ctx context.Context, r client.Reader) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.value == "" {
		ns := &corev1.Namespace{}
		if err := r.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, ns); err != nil {
			return "", fmt.Errorf("find out the hub's ID: %w", err)
		}
		h.value = access.HubID(string(ns.UID))
	}
	return h.value, nil
}

func (c *Controller) gather(ctx context.Context, lc *v1alpha1.LogicalCloud) (*situation, error) {
	s := &situation{cloud: lc, limit: c.limit, takenBy: map[string]string{}}
	var err error
	if s.hubID, err = c.hub.get(ctx, c.live); err != nil {
		return nil, err
	}
	if s.works, s.probes, err = c.worksOf(ctx, lc); err != nil {
		return nil, err
	}
	if s.catalogue, err = c.catalogue(ctx, lc); err != nil {
		return nil, err
	}
	if !lc.DeletionTimestamp.IsZero() {
		s.selection.Settled = true // on no cluster
		return s, nil
	}
	if s.selection, err = selection.Of(ctx, c.client, lc.Namespace, placementsOf(lc)); err != nil {
		return nil, err
	}
	if err := c.requests(ctx, s); err != nil {
		return nil, err
	}
	return s, c.contend(ctx, s)
}

// worksOf are the works and probes of a cloud, by cluster.
func (c *Controller) worksOf(ctx context.Context, lc *v1alpha1.LogicalCloud) (works, probes map[string]*workv1.ManifestWork, err error) {
	list := &workv1.ManifestWorkList{}
	if err := c.works.List(ctx, list, c.works.of(muster.CloudID(lc.Namespace, lc.Name)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list the works: %w", err)
	}
	works, probes = map[string]*workv1.ManifestWork{}, map[string]*workv1.ManifestWork{}
	for i := range list.Items {
		switch w := &list.Items[i]; w.Name {
		case muster.CloudWork(lc.Namespace, lc.Name):
			works[w.Namespace] = w
		case muster.CloudProbe(lc.Namespace, lc.Name):
			probes[w.Namespace] = w
		}
	}
	return works, probes, nil
}

// onServer are the works of a cloud that the server has.
func (c *Controller) onServer(ctx context.Context, lc *v1alpha1.LogicalCloud) ([]metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(workv1.GroupVersion.WithKind("ManifestWorkList"))
	if err := c.live.List(ctx, list, client.MatchingLabels{muster.LogicalCloudLabel: muster.CloudID(lc.Namespace, lc.Name)}); err != nil {
		return nil, fmt.Errorf("list the works of the LogicalCloud %s: %w", client.ObjectKeyFromObject(lc), err)
	}
	return list.Items, nil
}

// catalogue are the AccessRoles that the cloud's grants name.
func (c *Controller) catalogue(ctx context.Context, lc *v1alpha1.LogicalCloud) (map[string]*v1alpha1.AccessRole, error) {
	out := map[string]*v1alpha1.AccessRole{}
	for _, name := range rolesOf(lc) {
		role := &v1alpha1.AccessRole{}
		err := c.client.Get(ctx, client.ObjectKey{Name: name}, role, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("read the AccessRole %s: %w", name, err)
		case role.DeletionTimestamp.IsZero():
			out[name] = role
		}
	}
	return out, nil
}

// requests gathers what the cloud's access requests say.
func (c *Controller) requests(ctx context.Context, s *situation) error {
	list := &v1alpha1.AccessRequestList{}
	if err := c.client.List(ctx, list, client.InNamespace(s.cloud.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the access requests: %w", err)
	}
	s.keys = map[string][]cloud.Key{}
	for i := range list.Items {
		r := &list.Items[i]
		if r.Spec.LogicalCloud != s.cloud.Name {
			continue
		}
		s.hubMade = s.hubMade || r.Labels[muster.HubMadeLabel] != ""
		if k, live := cloud.KeyOf(r); live {
			s.keys[r.Spec.ManagedCluster] = append(s.keys[r.Spec.ManagedCluster], k)
		}
	}
	return nil
}

// contend finds the clusters in which another cloud has the namespace: it has a
// work there, or it is selected there and older. A cloud that has it keeps it, so
// that no change of a placement takes away what users work in.
func (c *Controller) contend(ctx context.Context, s *situation) error {
	all := &v1alpha1.LogicalCloudList{}
	if err := c.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the logical clouds: %w", err)
	}
	for i := range all.Items {
		rival := &all.Items[i]
		if rival.UID == s.cloud.UID || rival.Spec.Namespace.Name != s.cloud.Spec.Namespace.Name {
			continue
		}
		name := rival.Namespace + "/" + rival.Name
		theirs, _, err := c.worksOf(ctx, rival)
		if err != nil {
			return err
		}
		for cluster, w := range theirs {
			if own := s.works[cluster]; own == nil || w.CreationTimestamp.Before(&own.CreationTimestamp) {
				s.takenBy[cluster] = name
			}
		}
		if !rival.DeletionTimestamp.IsZero() || !cloud.Older(rival, s.cloud) {
			continue
		}
		wants, err := selection.Of(ctx, c.client, rival.Namespace, placementsOf(rival))
		if err != nil {
			return err
		}
		for cluster, mc := range wants.Clusters {
			if mc.Spec.AcceptsClient() && s.works[cluster] == nil {
				s.takenBy[cluster] = name
			}
		}
	}
	return nil
}
