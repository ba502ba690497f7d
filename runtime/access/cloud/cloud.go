// Package cloud renders a logical cloud for one of its clusters: the ManifestWork
// with its namespace, quotas, roles, and the bindings of the keys that have access
// there. It is pure: values in, values out.
package cloud

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
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
