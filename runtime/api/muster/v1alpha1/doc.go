// Package v1alpha1 holds the kinds of the API group muster-fleet.io, which are
// muster's own: LogicalCloud, AccessRole, AccessRequest and ClusterCredential give
// users access to groups of clusters, ClusterImport lets the hub install an agent,
// ClusterRegistration lets an agent register by a client ID, WorkPreview asks an agent
// what a work would do, and WorkOverride says how the works of a replica set differ from
// cluster to cluster.
//
// +kubebuilder:object:generate=true
// +groupName=muster-fleet.io
package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// GroupVersion is the group and version of every kind in this package. Package kinds
// adds the kinds to a scheme.
var GroupVersion = schema.GroupVersion{Group: muster.GroupName, Version: "v1alpha1"}
