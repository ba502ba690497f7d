// Package restmapper maps kinds to resources from a table, so that clients of a
// hub or a managed cluster need no discovery: no requests before the first real
// one, and a plan that works while the server is away.
package restmapper

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// Static returns the mapper for the kinds of the wire and for those of Kubernetes'
// kinds that muster's clients use. All callers share it; it is safe for concurrent use.
var Static = sync.OnceValue(func() meta.RESTMapper { return Of(kinds.Wire()) })

// Of returns a mapper for kinds of the wire and for those of Kubernetes' kinds that
// muster's clients use. Any other kind is a *meta.NoKindMatchError.
func Of(wire []kinds.Kind) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, k := range slices.Concat(wire, kinds.Kubernetes()) {
		_, singular := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
		m.AddSpecific(k.GroupVersionKind, k.GroupVersion().WithResource(k.Resource), singular, k.Scope)
	}
	return m
}
