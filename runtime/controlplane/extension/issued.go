package extension

import (
	"crypto/x509"
	"maps"
	"strconv"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// IssuedAtKey is the key of a user's extra information that has the time, in seconds
// since 1970, at which the certificate or the token of a service account was issued that
// the user came with. NeverExpires stands for a token that does not say, which lives
// for ever. Others, such as users whom an administrator impersonates, have none.
const IssuedAtKey = "muster-fleet.io/credential-issued-at"

// NeverExpires is the value of IssuedAtKey for a token without a time.
const NeverExpires = "never-expires"

// WithIssue adds to a user's extra information when the certificate was issued.
func WithIssue(u user.Info, c *x509.Certificate) user.Info {
	return WithIssueTime(u, strconv.FormatInt(cluster.IssuedAt(c.NotBefore).Unix(), 10))
}

// WithIssueTime adds the value of IssuedAtKey to a user's extra information.
func WithIssueTime(u user.Info, value string) user.Info {
	extra := maps.Clone(u.GetExtra())
	if extra == nil {
		extra = map[string][]string{}
	}
	extra[IssuedAtKey] = []string{value}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}
}
