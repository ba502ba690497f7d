package admission

import (
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
)

const workGroup = work.GroupName

// metadataOf is the object of a request; an empty one where there is none.
func metadataOf(o runtime.Object) *unstructured.Unstructured {
	if u, ok := o.(*unstructured.Unstructured); ok && u != nil {
		return u
	}
	return &unstructured.Unstructured{Object: map[string]any{}}
}

// isAgent reports whether a user is the agent of a cluster.
func isAgent(u user.Info) bool { return len(cluster.AgentClusters(u.GetGroups())) > 0 }

// sameBut reports whether a work changes in nothing but what anybody may write,
// which is the wish to have it applied again, or an agent, which are finalizers.
func sameBut(now, before *unstructured.Unstructured, agent bool) bool {
	plain := func(o *unstructured.Unstructured) map[string]string {
		annotations := maps.Clone(o.GetAnnotations())
		delete(annotations, work.ReplayAnnotation)
		return annotations
	}
	return apiequality.Semantic.DeepEqual(now.Object["spec"], before.Object["spec"]) &&
		maps.Equal(now.GetLabels(), before.GetLabels()) && maps.Equal(plain(now), plain(before)) &&
		apiequality.Semantic.DeepEqual(now.GetOwnerReferences(), before.GetOwnerReferences()) &&
		(agent || slices.Equal(now.GetFinalizers(), before.GetFinalizers()))
}
