// Package cloud renders a logical cloud for one of its clusters: the ManifestWork
// with its namespace, quotas, roles, and the bindings of the keys that have access
// there. It is pure: values in, values out.
package cloud

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Key is a key that has access to one cluster.
type Key struct {
	// Hash is the key's hash.
	Hash string
	// User and Groups are who holds it, as they are known to the hub.
	User   string
	Groups []string
	// Token says that the key's service account has access, too.
	Token bool
	// Since is when it was asked for.
	Since time.Time
}

// keyHash is what a key's hash looks like. It becomes part of names in clusters.
var keyHash = regexp.MustCompile(`^[0-9a-f]{32}$`)

// KeyOf is the key of a request, if it has access or is about to: the request is
// approved, and neither withdrawn nor expired.
func KeyOf(r *v1alpha1.AccessRequest) (Key, bool) {
	is := func(kind string) bool { return meta.IsStatusConditionTrue(r.Status.Conditions, kind) }
	live := r.DeletionTimestamp.IsZero() && is(muster.ConditionApproved) && !is(muster.ConditionRevoked) && !is(muster.ConditionExpired)
	if !live || !keyHash.MatchString(r.Status.KeyHash) {
		return Key{}, false
	}
	return Key{
		Hash: r.Status.KeyHash, User: cmp.Or(r.Spec.User, r.Spec.Requester.Username), Groups: r.Spec.Requester.Groups,
		Token: r.Spec.Mode != v1alpha1.AccessCertificate && r.Spec.Mode != "", Since: r.CreationTimestamp.Time,
	}, true
}

// AccountNamespace is the namespace in clusters with the service accounts of a cloud's
// users; "" for a cloud that allows no tokens.
func AccountNamespace(c *v1alpha1.LogicalCloud, hubID string) string {
	if modes := c.Spec.Access.Modes; len(modes) > 0 && !slices.Contains(modes, v1alpha1.AccessToken) {
		return ""
	}
	return muster.AccountNamespace(hubID, muster.CloudID(c.Namespace, c.Name))
}

// Granted reports whether a grant of the cloud names a user or one of the user's
// groups.
func Granted(c *v1alpha1.LogicalCloud, user string, groups []string) bool {
	return slices.ContainsFunc(c.Spec.Grants, func(g v1alpha1.Grant) bool { return names(g, user, groups) })
}

// names reports whether a grant names a user or one of the groups.
func names(g v1alpha1.Grant, user string, groups []string) bool {
	return slices.Contains(g.Users, user) || slices.ContainsFunc(groups, func(group string) bool { return slices.Contains(g.Groups, group) })
}

// Older reports whether a cloud comes before another one: of two that want the
// same namespace in a cluster, it gets it.
func Older(a, b *v1alpha1.LogicalCloud) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

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
