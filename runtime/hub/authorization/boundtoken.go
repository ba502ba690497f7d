// Package authorization decides what agents, their add-ons and bound bootstrap tokens may do.
// RBAC cannot express it: a rule by name does not cover creation, and none
// looks at selectors. It must not import the controllers.
package authorization

import (
	"context"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// BoundBootstrapTokens is the authorizer of bootstrap tokens that are bound to
// clusters. It has no opinion about other users, and never denies.
func BoundBootstrapTokens() extension.Authorizer {
	return extension.Authorizer{Name: "BoundBootstrapToken", Authorizer: authorizer.AuthorizerFunc(authorize)}
}

func authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser() == nil || !a.IsResourceRequest() {
		return authorizer.DecisionNoOpinion, "", nil
	}
	bound := cluster.BoundClusters(a.GetUser().GetGroups())
	for _, c := range bound {
		if allowed(c, a) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	if len(bound) > 0 {
		return authorizer.DecisionNoOpinion, "the bootstrap token is bound to " + strings.Join(bound, ", "), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// allowed lists everything that an agent needs from its first call until it has
// a certificate of its own. Admission checks the content of what is created.
func allowed(bound string, a authorizer.Attributes) bool {
	switch verb := a.GetVerb(); a.GetAPIGroup() {
	case cluster.GroupName:
		switch a.GetResource() + "/" + a.GetSubresource() {
		case "managedclusters/":
			// The name of a list or watch is the one in its field selector. The
			// name of a new object is not known yet.
			return verb == "create" || a.GetName() == bound && (verb == "get" || verb == "list" || verb == "watch")
		case "managedclustersets/join":
			return verb == "create" && a.GetName() == cluster.DefaultSet
		}
	case certificatesv1.GroupName:
		if a.GetResource() != "certificatesigningrequests" || a.GetSubresource() != "" {
			return false
		}
		return verb == "create" || (verb == "list" || verb == "watch") && selects(a, bound)
	case muster.GroupName:
		// The name is random, and only who created one knows it.
		return a.GetResource() == "clusterregistrations" && a.GetSubresource() == "" && (verb == "create" || verb == "get")
	case "":
		// These are public: the address of the hub, and its certificate.
		return a.GetResource() == "configmaps" && a.GetSubresource() == "" && verb == "get" && a.GetNamespace() == "kube-public"
	}
	return false
}

// selects reports whether a list or watch is limited to the objects of one
// cluster.
func selects(a authorizer.Attributes, name string) bool {
	requirements, err := a.GetLabelSelector()
	if err != nil {
		return false
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if r.Key() == cluster.NameLabel && r.Values().Len() == 1 && r.Values().Has(name) {
				return true
			}
		}
	}
	return false
}
