package crud

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

var (
	_ list.ListResource              = (*listResource[kube.Object])(nil)
	_ list.ListResourceWithConfigure = (*listResource[kube.Object])(nil)
)

// List says how the objects of one kind are listed as resources.
type List[T kube.Object] struct {
	// Type is the resource's type without "muster_". Plural is what its objects are
	// called.
	Type, Plural string
	// About is what readers should know of this list beyond what all have in common.
	About string
	// Objects is an empty list of the kind.
	Objects runtime.Object
	// Adopt makes the resource of an object, as its import does.
	Adopt func(T) (Model, error)
	// NamespaceAttribute is the resource's attribute for the object's namespace; empty
	// where it has none.
	NamespaceAttribute string
	// Within, where it is set, are the namespace and the fields of all objects.
	Within kube.ListOptions

	// Without are attributes that are secret, and are left out.
	Without []string

	// Needs says what a hub needs to serve the kind; empty where every hub does. One
	// without the kind has no such objects.
	Needs string

	// What follows may be nil.

	// Is leaves out objects that are no such resource at all.
	Is func(T) bool
	// Managed tells whether a resource in Terraform manages the object. If nil, the
	// provider's mark and its field manager tell.
	Managed func(T) bool
	// Generated tells what the hub or a controller makes and keeps itself, beyond
	// what owner references tell.
	Generated func(T) bool
	// Made is Generated for kinds whose owner references don't tell.
	Made func(T) bool
	// Cluster is the name of the cluster that the object is about. It allows to list
	// those of the clusters in a set.
	Cluster func(T) string
	// Sets are the cluster sets that the object names itself.
	Sets func(T) []string
	// Describe says in a few words what people want to know of the object.
	Describe func(T) string
}

// listResource lists the objects of one kind.
type listResource[T kube.Object] struct {
	Resource
	kind List[T]
}

// NewList is the list resource of a kind.
func NewList[T kube.Object](kind List[T]) list.ListResource { return &listResource[T]{kind: kind} }

// Metadata implements list.ListResource.
func (r *listResource[T]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind.Type
}

// inTerraform tells by the provider's mark on an object, and by its fields.
func inTerraform(object kube.Object) bool {
	return OwnerMark(object) != "" || !FieldsOf(object, hub.FieldManager).None()
}

func (k List[T]) managed(object T) bool {
	if k.Managed != nil {
		return k.Managed(object)
	}
	return inTerraform(object)
}

func (k List[T]) generated(object T) bool {
	if k.Made != nil {
		return k.Made(object)
	}
	return len(object.GetOwnerReferences()) > 0 || (k.Generated != nil && k.Generated(object))
}

// title is the object's name for people.
func (k List[T]) title(object T) string {
	title := object.GetName()
	if k.NamespaceAttribute != "" {
		title = object.GetNamespace() + "/" + title
	}
	if k.Describe != nil {
		if text := k.Describe(object); text != "" {
			title += " (" + text + ")"
		}
	}
	return title
}

// Count says how many: "1 object", "3 objects".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// SetsOfCluster is the set in which the cluster's label puts it.
func SetsOfCluster(object *clusterv1.ManagedCluster) []string {
	return []string{object.Labels[cluster.ClusterSetLabel]}
}

// DescribeCluster tells the cluster's set and how far it has come.
func DescribeCluster(object *clusterv1.ManagedCluster) string {
	var words []string
	if set := object.Labels[cluster.ClusterSetLabel]; set != "" {
		words = append(words, "set "+set)
	}
	joined := meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionJoined)
	switch {
	case !object.Spec.AcceptsClient():
		words = append(words, "not accepted")
	case !joined:
		words = append(words, "not joined")
	case !meta.IsStatusConditionTrue(object.Status.Conditions, cluster.ConditionAvailable):
		words = append(words, "not available")
	default:
		words = append(words, "available")
	}
	return strings.Join(words, ", ")
}
