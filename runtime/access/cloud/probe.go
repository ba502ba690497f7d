package cloud

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// What a probe reports of a namespace.
const (
	probeCloud   = "cloud"
	probeHub     = "hub"
	probeAdopted = "adopted"
)

// Probe is a work that finds out whether a cluster has the cloud's namespace and the
// one of its users' service accounts, and whose they are. It changes nothing there. A
// work can't refuse: it would take over a namespace that exists, and delete it in the
// end.
func Probe(c *v1alpha1.LogicalCloud, hubID, cluster string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{
		ObjectMeta: Meta(c, cluster, muster.CloudProbe(c.Namespace, c.Name)),
		Spec:       workv1.ManifestWorkSpec{DeleteOption: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeOrphan}},
	}
	lookAt(w, c.Spec.Namespace.Name)
	if accounts := AccountNamespace(c, hubID); accounts != "" {
		lookAt(w, accounts)
	}
	return w
}

// lookAt adds a namespace to a probe.
func lookAt(w *workv1.ManifestWork, name string) {
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
	if err != nil {
		raw = []byte("{}") // a map of texts can be marshalled
	}
	path := func(name, field, key string) workv1.JSONPath {
		return workv1.JSONPath{Name: name, Path: ".metadata." + field + "." + strings.ReplaceAll(key, ".", `\.`)}
	}
	w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	w.Spec.ManifestConfigs = append(w.Spec.ManifestConfigs, workv1.ManifestConfigOption{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "namespaces", Name: name},
		FeedbackScrapeType: workv1.FeedbackScrapeTypePoll,
		UpdateStrategy:     &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeReadOnly},
		FeedbackRules: []workv1.FeedbackRule{{Type: workv1.FeedbackTypeJSONPaths, JSONPaths: []workv1.JSONPath{
			path(probeCloud, "labels", muster.LogicalCloudLabel),
			path(probeHub, "annotations", muster.HubAnnotation),
			path(probeAdopted, "annotations", muster.AdoptedAnnotation),
		}}},
	})
}

// Found is what a probe has found of a namespace.
type Found struct {
	// Answered says that the agent has looked.
	Answered bool
	// Exists says that the namespace is there.
	Exists bool
	// CloudID and HubID say which cloud, and which hub, it belongs to, if any.
	CloudID, HubID string
	// Adopted says that it was there before that cloud.
	Adopted bool
}

// Of reports whether the namespace is a cloud's own, left from an earlier time.
func (f Found) Of(c *v1alpha1.LogicalCloud, hubID string) bool {
	return f.Exists && f.CloudID == muster.CloudID(c.Namespace, c.Name) && f.HubID == hubID
}

// ReadProbe reads in the status of a probe what it has found of a namespace. An agent
// that says nothing of the single namespaces means all of them.
func ReadProbe(w *workv1.ManifestWork, namespace string) Found {
	available := meta.FindStatusCondition(w.Status.Conditions, work.ConditionAvailable)
	if available == nil || available.ObservedGeneration != w.Generation || available.Status == metav1.ConditionUnknown {
		return Found{}
	}
	found := Found{Answered: true, Exists: available.Status == metav1.ConditionTrue}
	manifests := w.Status.ResourceStatus.Manifests
	at := slices.IndexFunc(manifests, func(m workv1.ManifestCondition) bool { return m.ResourceMeta.Name == namespace })
	if at < 0 {
		return found
	}
	if own := meta.FindStatusCondition(manifests[at].Conditions, work.ConditionAvailable); own != nil {
		found.Answered, found.Exists = own.Status != metav1.ConditionUnknown, own.Status == metav1.ConditionTrue
	}
	for _, v := range manifests[at].StatusFeedbacks.Values {
		if v.Value.String == nil {
			continue
		}
		switch v.Name {
		case probeCloud:
			found.CloudID = *v.Value.String
		case probeHub:
			found.HubID = *v.Value.String
		case probeAdopted:
			found.Adopted = *v.Value.String == "true"
		}
	}
	return found
}
