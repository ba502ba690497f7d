package status

import (
	"cmp"
	"slices"
	"strings"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// DefaultMaxCustomClaims is how many claims without a reserved name are reported
// to the hub by default.
const DefaultMaxCustomClaims = 20

// ClaimRules say which claims are reported to the hub.
type ClaimRules struct {
	// ReservedSuffixes of names make them reserved, beside the well-known
	// reserved names.
	ReservedSuffixes []string
	// MaxCustom is how many other claims there may be.
	MaxCustom int
	// WithoutClaims leaves the ClusterClaims out, WithProperties adds the
	// ClusterProperties of about.k8s.io.
	WithoutClaims, WithProperties bool
}

func (r ClaimRules) reserved(name string) bool {
	return slices.Contains(cluster.ReservedClaims(), name) ||
		slices.ContainsFunc(r.ReservedSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

// collect makes the status's claims: the reserved ones by name, then the others
// by name. It leaves out those beyond the limit and returns how many these are.
func (r ClaimRules) collect(claims []*clusterv1alpha1.ClusterClaim) (_ []clusterv1.ManagedClusterClaim, left int) {
	var reserved, custom []clusterv1.ManagedClusterClaim
	for _, c := range claims {
		if _, local := c.Labels[cluster.SpokeOnlyLabel]; local {
			continue
		}
		claim := clusterv1.ManagedClusterClaim{Name: c.Name, Value: c.Spec.Value}
		if r.reserved(c.Name) {
			reserved = append(reserved, claim)
		} else {
			custom = append(custom, claim)
		}
	}
	byName := func(a, b clusterv1.ManagedClusterClaim) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(reserved, byName)
	slices.SortFunc(custom, byName)
	if n := len(custom) - r.MaxCustom; n > 0 {
		custom, left = custom[:r.MaxCustom], n
	}
	return append(reserved, custom...), left
}
