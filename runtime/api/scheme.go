// Package api makes the scheme of the hub, the agent and the commands. The API's
// types are in the packages below it, one for each group and version, and package
// kinds lists them.
package api

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// Scheme is what NewScheme makes, shared by all callers: a scheme takes a quarter of a
// megabyte. It is safe for concurrent use as long as nobody adds to it.
var Scheme = sync.OnceValue(NewScheme)

// NewScheme makes a scheme with every kind of the wire and all of Kubernetes' own kinds,
// for callers that add to it. The provider has a smaller one.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	kinds.AddToScheme(scheme, kinds.Wire())
	return scheme
}
