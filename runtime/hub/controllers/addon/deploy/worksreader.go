package deploy

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// worksReader is where the works of add-ons are found.
type worksReader struct {
	client.Reader
	// hostedFor selects the works of an add-on that are hosted elsewhere.
	hostedFor func(a *v1alpha1.ManagedClusterAddOn) client.ListOption
}

// liveWorks finds works on the server.
func liveWorks(r client.Reader) worksReader {
	return worksReader{Reader: r, hostedFor: func(a *v1alpha1.ManagedClusterAddOn) client.ListOption {
		return client.MatchingLabels{cluster.AddOnNameLabel: a.Name, addon.AddOnNamespaceLabel: a.Namespace}
	}}
}

// own are the works of an add-on in its own cluster. Nobody may change them.
func (r worksReader) own(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) ([]*workv1.ManifestWork, error) {
	return r.list(ctx, a, func(w *workv1.ManifestWork) works.Place { return works.Place{AddOn: a} },
		client.InNamespace(a.Namespace), client.MatchingLabels{cluster.AddOnNameLabel: a.Name})
}

// away are the works of an add-on in hosting clusters.
func (r worksReader) away(ctx context.Context, a *v1alpha1.ManagedClusterAddOn) ([]*workv1.ManifestWork, error) {
	return r.list(ctx, a, func(w *workv1.ManifestWork) works.Place { return works.Place{AddOn: a, Host: w.Namespace} }, r.hostedFor(a))
}

// list are the works that the options select, as far as they are the add-on's in a
// place.
func (r worksReader) list(
	ctx context.Context, a *v1alpha1.ManagedClusterAddOn, place func(*workv1.ManifestWork) works.Place, options ...client.ListOption,
) ([]*workv1.ManifestWork, error) {
	list := &workv1.ManifestWorkList{}
	if err := r.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("list the works of the add-on %s of the cluster %s: %w", a.Name, a.Namespace, err)
	}
	var out []*workv1.ManifestWork
	for i := range list.Items {
		if w := &list.Items[i]; place(w).Owns(w) {
			out = append(out, w)
		}
	}
	return out, nil
}
