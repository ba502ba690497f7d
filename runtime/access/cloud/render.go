package cloud

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// MaxKeys is how many keys can have access to one cluster of a cloud. Their hashes
// are in an annotation of the work, and annotations have room for 256 KiB.
const MaxKeys = 5000

// fieldManager owns what a cloud's works write in clusters.
const fieldManager = work.DefaultFieldManager + "-logical-cloud"

// Input is what a cluster's work is made from.
type Input struct {
	Cloud   *v1alpha1.LogicalCloud
	Cluster string
	// HubID is access.HubID of the hub.
	HubID string
	// Catalogue are the AccessRoles that exist, by name.
	Catalogue map[string]*v1alpha1.AccessRole
	// Keys are those that have access to the cluster.
	Keys []Key
	// Accounts is the namespace of the keys' service accounts: AccountNamespace, or
	// in works of an earlier version the cloud's own namespace. Without it there are
	// none.
	Accounts string
	// Adopted says that the namespace was there before the cloud, and is kept in
	// any case.
	Adopted bool
	// Limit is the greatest total size of the manifests, in bytes;
	// work.DefaultManifestLimit when it is 0.
	Limit int
}

// Output is a cluster's work.
type Output struct {
	Work *workv1.ManifestWork
	// LeftOut is how many keys have no access, as the work has no room for them:
	// the youngest ones.
	LeftOut int
}

// Render makes the work of a cluster. Equal inputs make equal works, whatever the
// order of keys.
func Render(in Input) Output {
	roles, _ := rolesOf(in.Cloud, in.Catalogue)
	keys := bound(merged(in.Keys), roles)
	limit := cmp.Or(in.Limit, work.DefaultManifestLimit)
	fit := len(keys)
	if fit > MaxKeys || size(manifests(in, roles, keys)) > limit {
		fit = sort.Search(min(fit, MaxKeys), func(n int) bool { return size(manifests(in, roles, keys[:n+1])) > limit })
	}
	out := Output{LeftOut: len(keys) - fit}
	keys = keys[:fit]
	w := &workv1.ManifestWork{ObjectMeta: Meta(in.Cloud, in.Cluster, muster.CloudWork(in.Cloud.Namespace, in.Cloud.Name))}
	hashes := make([]string, 0, len(keys))
	for _, k := range keys {
		hashes = append(hashes, k.Hash)
	}
	slices.Sort(hashes)
	w.Annotations[muster.BoundKeysAnnotation] = strings.Join(hashes, ",")
	w.Annotations[muster.AccountNamespaceAnnotation] = in.Accounts
	w.Annotations[muster.RetentionAnnotation] = string(Retention(in.Cloud, in.Adopted))
	if in.Adopted {
		w.Annotations[muster.AdoptedAnnotation] = "true"
	}
	w.Spec.Workload.Manifests = manifests(in, roles, keys)
	w.Spec.ManifestConfigs = configs(in)
	w.Spec.DeleteOption = deleteOption(in.Cloud.Spec.Namespace.Name, Retention(in.Cloud, in.Adopted))
	out.Work = w
	return out
}

// Meta is the metadata of a cloud's work.
func Meta(c *v1alpha1.LogicalCloud, cluster, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: cluster, Name: name,
		Labels:      map[string]string{muster.LogicalCloudLabel: muster.CloudID(c.Namespace, c.Name)},
		Annotations: map[string]string{muster.LogicalCloudAnnotation: c.Namespace + "/" + c.Name},
	}
}

// Retention is what becomes of the namespace when a cluster leaves the cloud.
func Retention(c *v1alpha1.LogicalCloud, adopted bool) v1alpha1.OnDelete {
	if !adopted && c.Spec.Namespace.OnDelete == v1alpha1.OnDeleteDelete {
		return v1alpha1.OnDeleteDelete
	}
	return v1alpha1.OnDeleteKeep
}

// merged sorts keys by age, and makes one of those that several requests have. A
// key that two users have is the first one's.
func merged(keys []Key) []Key {
	keys = slices.SortedFunc(slices.Values(keys), func(a, b Key) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Hash, b.Hash), cmp.Compare(a.User, b.User))
	})
	var out []Key
	places := map[string]int{}
	for _, k := range keys {
		at, known := places[k.Hash]
		switch {
		case !known:
			places[k.Hash] = len(out)
			out = append(out, k)
		case out[at].User == k.User:
			out[at].Token = out[at].Token || k.Token
			out[at].Groups = slices.Concat(out[at].Groups, k.Groups)
		}
	}
	return out
}

// bound are the keys that have a role.
func bound(keys []Key, roles []*role) []Key {
	return slices.DeleteFunc(keys, func(k Key) bool {
		return !slices.ContainsFunc(roles, func(r *role) bool { return len(r.holders([]Key{k})) > 0 })
	})
}

// manifests are the objects in the order in which they need each other.
func manifests(in Input, roles []*role, keys []Key) []workv1.Manifest {
	objects := []map[string]any{namespace(in)}
	for _, q := range in.Cloud.Spec.Quotas {
		objects = append(objects, quota(in, q))
	}
	objects = append(objects, accountNamespace(in)...)
	for _, k := range keys {
		if k.Token && in.Accounts != "" {
			account := object(in, "v1", "ServiceAccount", in.Accounts, access.ServiceAccount(k.Hash))
			account["automountServiceAccountToken"] = false
			objects = append(objects, account)
		}
	}
	for _, r := range roles {
		objects = append(objects, roleObjects(in, r, r.holders(keys))...)
	}
	out := make([]workv1.Manifest, 0, len(objects))
	for _, o := range objects {
		raw, err := json.Marshal(o)
		if err != nil {
			continue // maps of texts, numbers and rules can be marshalled
		}
		out = append(out, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	return out
}

func size(manifests []workv1.Manifest) (n int) {
	for _, m := range manifests {
		n += m.Size()
	}
	return n
}

// object is an object that says which cloud it is of.
func object(in Input, apiVersion, kind, namespace, name string) map[string]any {
	meta := map[string]any{"name": name, "labels": map[string]any{muster.LogicalCloudLabel: muster.CloudID(in.Cloud.Namespace, in.Cloud.Name)}}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
}

func namespace(in Input) map[string]any {
	o := object(in, "v1", "Namespace", "", in.Cloud.Spec.Namespace.Name)
	labels, annotations := map[string]any{}, map[string]any{}
	for k, v := range in.Cloud.Spec.Namespace.Labels {
		labels[k] = v
	}
	for k, v := range in.Cloud.Spec.Namespace.Annotations {
		annotations[k] = v
	}
	labels[muster.LogicalCloudLabel] = muster.CloudID(in.Cloud.Namespace, in.Cloud.Name)
	for k, v := range belongs(in) {
		annotations[k] = v
	}
	if in.Adopted {
		annotations[muster.AdoptedAnnotation] = "true"
	}
	meta := o["metadata"].(map[string]any)
	meta["labels"], meta["annotations"] = labels, annotations
	return o
}

// belongs are the annotations of a namespace that say whose it is.
func belongs(in Input) map[string]any {
	return map[string]any{
		muster.LogicalCloudAnnotation: in.Cloud.Namespace + "/" + in.Cloud.Name, muster.HubAnnotation: in.HubID,
	}
}

// accountQuota is the name of the quota in the namespace of service accounts.
const accountQuota = "muster-access"

// accountNamespace is the namespace of the keys' service accounts, if it is one of its
// own. No user of the cloud has rights there. Who may make pods or Secrets in the whole
// cluster could still get tokens of the accounts by them, so a quota forbids both.
func accountNamespace(in Input) []map[string]any {
	if in.Accounts == "" || in.Accounts == in.Cloud.Spec.Namespace.Name {
		return nil
	}
	ns := object(in, "v1", "Namespace", "", in.Accounts)
	ns["metadata"].(map[string]any)["annotations"] = belongs(in)
	none := object(in, "v1", "ResourceQuota", in.Accounts, accountQuota)
	none["spec"] = map[string]any{"hard": map[string]any{string(corev1.ResourcePods): "0", string(corev1.ResourceSecrets): "0"}}
	return []map[string]any{ns, none}
}

func quota(in Input, q v1alpha1.CloudQuota) map[string]any {
	o := object(in, "v1", "ResourceQuota", in.Cloud.Spec.Namespace.Name, q.Name)
	spec := corev1.ResourceQuotaSpec{Hard: q.Hard, Scopes: q.Scopes}
	o["spec"] = spec
	return o
}

// roleObjects are a role and its binding.
func roleObjects(in Input, r *role, holders []Key) []map[string]any {
	kind, namespace := "Role", in.Cloud.Spec.Namespace.Name
	if r.scope == v1alpha1.ScopeCluster {
		kind, namespace = "ClusterRole", ""
	}
	rules := r.rules
	if rules == nil {
		rules = []rbacv1.PolicyRule{} // an empty role is written as such
	}
	of := object(in, rbacv1.SchemeGroupVersion.String(), kind, namespace, r.name)
	of["rules"] = rules
	binding := object(in, rbacv1.SchemeGroupVersion.String(), kind+"Binding", namespace, r.name)
	binding["roleRef"] = map[string]any{"apiGroup": rbacv1.GroupName, "kind": kind, "name": r.name}
	binding["subjects"] = subjects(holders, in.Accounts)
	return []map[string]any{of, binding}
}

// configs have all objects applied on the server, so that what a cloud does not
// say any more goes away again, such as a label of the namespace.
func configs(in Input) []workv1.ManifestConfigOption {
	namespace := in.Cloud.Spec.Namespace.Name
	ids := []workv1.ResourceIdentifier{
		{Resource: "namespaces", Name: namespace},
		{Resource: "resourcequotas", Namespace: namespace, Name: "*"},
		{Group: rbacv1.GroupName, Resource: "roles", Namespace: namespace, Name: "*"},
		{Group: rbacv1.GroupName, Resource: "rolebindings", Namespace: namespace, Name: "*"},
		{Group: rbacv1.GroupName, Resource: "clusterroles", Name: "*"},
		{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Name: "*"},
	}
	if in.Accounts != "" {
		ids = append(ids, workv1.ResourceIdentifier{Resource: "serviceaccounts", Namespace: in.Accounts, Name: "*"})
	}
	if in.Accounts != namespace && in.Accounts != "" {
		ids = append(ids, workv1.ResourceIdentifier{Resource: "namespaces", Name: in.Accounts},
			workv1.ResourceIdentifier{Resource: "resourcequotas", Namespace: in.Accounts, Name: accountQuota})
	}
	var out []workv1.ManifestConfigOption
	for _, id := range ids {
		out = append(out, workv1.ManifestConfigOption{
			ResourceIdentifier: id, FeedbackScrapeType: workv1.FeedbackScrapeTypePoll,
			UpdateStrategy: &workv1.UpdateStrategy{
				Type:            workv1.UpdateStrategyTypeServerSideApply,
				ServerSideApply: &workv1.ServerSideApplyConfig{Force: true, FieldManager: fieldManager},
			},
		})
	}
	return out
}

// deleteOption keeps the namespace, or has it deleted with all that is in it.
func deleteOption(namespace string, retention v1alpha1.OnDelete) *workv1.DeleteOption {
	if retention == v1alpha1.OnDeleteDelete {
		return &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyTypeForeground}
	}
	return &workv1.DeleteOption{
		PropagationPolicy: workv1.DeletePropagationPolicyTypeSelectivelyOrphan,
		SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Resource: "namespaces", Name: namespace}}},
	}
}

// maxRoleName is how long the name of a role may be before its end becomes a hash.
const maxRoleName = 200

// role is what grants give in a cluster, under one name.
type role struct {
	name  string
	scope v1alpha1.GrantScope
	rules []rbacv1.PolicyRule
	// grants are those that give it.
	grants []v1alpha1.Grant
}

// rolesOf are the roles of a cloud in the order of its grants, and what is wrong
// with some of them. Such a role stands empty and is bound to nobody: as long as it
// is in the work, its application means that the rights are gone.
func rolesOf(c *v1alpha1.LogicalCloud, catalogue map[string]*v1alpha1.AccessRole) (roles []*role, problems []string) {
	id := muster.CloudID(c.Namespace, c.Name)
	for _, g := range c.Spec.Grants {
		rules, problem := rulesOf(g, catalogue)
		if problem != "" {
			if !slices.Contains(problems, problem) {
				problems = append(problems, problem)
			}
			g.Users, g.Groups = nil, nil
		}
		name, scope := roleName(id, g), v1alpha1.ScopeNamespace
		if g.Scope == v1alpha1.ScopeCluster {
			scope = g.Scope
		} else {
			rules = slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return len(r.NonResourceURLs) > 0 }) // a Role can't have them
		}
		at := slices.IndexFunc(roles, func(r *role) bool { return r.name == name && r.scope == scope })
		if at < 0 {
			roles = append(roles, &role{name: name, scope: scope, rules: rules})
			at = len(roles) - 1
		}
		roles[at].grants = append(roles[at].grants, g)
	}
	return roles, problems
}

// rulesOf are the rules that a grant gives.
func rulesOf(g v1alpha1.Grant, catalogue map[string]*v1alpha1.AccessRole) (rules []rbacv1.PolicyRule, problem string) {
	if g.Role == "" {
		return g.Rules, ""
	}
	found, ok := catalogue[g.Role]
	switch {
	case !ok:
		return nil, fmt.Sprintf("there is no AccessRole %q", g.Role)
	case g.Scope == v1alpha1.ScopeCluster && !found.ClusterScopeAllowed:
		return nil, fmt.Sprintf("the AccessRole %q may not be granted with the scope Cluster", g.Role)
	}
	return found.Rules, ""
}

// roleName names the role of a grant. In the cloud's namespace the role's own name
// suffices; roles of the whole cluster say whose they are.
func roleName(cloudID string, g v1alpha1.Grant) string {
	name := "muster:"
	if g.Scope == v1alpha1.ScopeCluster {
		name += cloudID + ":"
	}
	if g.Role == "" {
		return name + "rules-" + shortHash(g.Rules)
	}
	if name += g.Role; len(name) > maxRoleName {
		return name[:maxRoleName] + "-" + shortHash(g.Role)
	}
	return name
}

func shortHash(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		text = []byte(err.Error()) // rules and names can be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:16]
}

// holders are the keys that have a role.
func (r *role) holders(keys []Key) []Key {
	return slices.DeleteFunc(slices.Clone(keys), func(k Key) bool {
		return !slices.ContainsFunc(r.grants, func(g v1alpha1.Grant) bool { return names(g, k.User, k.Groups) })
	})
}

// subjects are the groups of keys, and their service accounts in a namespace, if there
// is one.
func subjects(keys []Key, accounts string) []any {
	out := make([]any, 0, len(keys)) // not nil: a binding of nobody says so
	for _, k := range keys {
		out = append(out, map[string]any{"kind": rbacv1.GroupKind, "apiGroup": rbacv1.GroupName, "name": access.KeyGroup(k.Hash)})
		if k.Token && accounts != "" {
			out = append(out, map[string]any{"kind": rbacv1.ServiceAccountKind, "namespace": accounts, "name": access.ServiceAccount(k.Hash)})
		}
	}
	return out
}

// Problems say which grants of a cloud can't be given.
func Problems(c *v1alpha1.LogicalCloud, catalogue map[string]*v1alpha1.AccessRole) []string {
	_, problems := rolesOf(c, catalogue)
	return problems
}
