// Package hubinfo names what a hub publishes about itself in the namespace
// kube-public. Every client that reaches the hub may read it.
package hubinfo

import (
	"slices"
	"strings"
)

const (
	// ClusterInfo is the config map that says where the hub is and how to
	// verify it, as a kubeconfig under the key "kubeconfig".
	ClusterInfo = "cluster-info"

	// Name is the config map that lists what a muster hub can do beyond an
	// upstream one. An upstream hub has none.
	Name = "muster-hub-info"
	// FeaturesKey is its entry with the features, separated by commas.
	FeaturesKey = "features"
	// VersionKey is its entry with the hub's version.
	VersionKey = "version"
	// HubIDKey is its entry with the hub's short name in the subjects of users'
	// certificates, as in package access.
	HubIDKey = "hubID"
)

// BoundBootstrapApproval is the feature of a hub that takes bootstrap tokens
// bound to one cluster and approves the certificate request made with one by
// itself, while the cluster is accepted and has not joined.
const BoundBootstrapApproval = "BoundBootstrapApproval"

// Rejoin is the feature of a hub that lets a cluster which has joined before join
// again with a bound bootstrap token whose Secret says so, once.
const Rejoin = "Rejoin"

// TokenScope is the feature of a hub that labels the clusters created with a
// bootstrap token, counts them, and refuses more than the token allows.
const TokenScope = "TokenScope"

// SpreadPolicy says that a hub spreads clusters as placements ask. It has the name
// of TokenScope on the wire, as every hub with the one has the other.
const SpreadPolicy = TokenScope

// PreferNoSelect is the feature of a hub for whose placements the taint effect of
// that name is a preference. A preview of a placement depends on it.
const PreferNoSelect = "PreferNoSelect"

// FleetSnapshot is the feature of a hub that serves, at SnapshotPath, all that
// placements are decided by.
const FleetSnapshot = "FleetSnapshot"

// SnapshotPath is where a hub with the feature FleetSnapshot serves it.
const SnapshotPath = "/fleet/snapshot"

// StorePath is where a hub answers administrators how full its store is, by a Store.
const StorePath = "/fleet/store"

// Store is how full a hub's store is, in bytes.
type Store struct {
	// InUse is what objects and their recent versions take, File what the store takes
	// on the disk, and Quota how large the file may grow.
	InUse int64 `json:"inUseBytes"`
	File  int64 `json:"fileBytes"`
	Quota int64 `json:"quotaBytes"`
	// Filling is whether so much is in use that clusters and bootstrap tokens can
	// create nothing.
	Filling bool `json:"filling"`
}

// ClusterRegistration is the feature of a hub at which agents can register by a
// client ID, without knowing their cluster's name.
const ClusterRegistration = "ClusterRegistration"

// ClusterImport is the feature of a hub that installs agents through kubeconfigs.
const ClusterImport = "ClusterImport"

// UserAccess is the feature of a hub with logical clouds and access requests.
const UserAccess = "UserAccess"

// EndpointPropagation is the feature of a hub that publishes a new URL to its agents
// and CA.
const EndpointPropagation = "EndpointPropagation"

// Has reports whether the config map's data lists a feature.
func Has(data map[string]string, feature string) bool {
	return slices.Contains(strings.Split(data[FeaturesKey], ","), feature)
}
