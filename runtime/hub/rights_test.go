package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/internal/testenv"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// cell is one question: may the identity do this here?
type cell struct{ verb, group, resource, subresource, namespace, name string }

func (c cell) String() string {
	resource := c.resource
	if c.subresource != "" {
		resource += "/" + c.subresource
	}
	where := ""
	if c.namespace != "" {
		where = " in " + c.namespace
	}
	return fmt.Sprintf("%s %s.%s %q%s", c.verb, resource, c.group, c.name, where)
}

// right is what an identity may do: the verbs on a resource, in a namespace or
// cluster-wide, on one name or ("*") on any.
type right struct {
	verbs            string
	group, resource  string // resource/subresource
	namespace, named string
}

func (r right) covers(c cell) bool {
	resource := c.resource
	if c.subresource != "" {
		resource += "/" + c.subresource
	}
	return slices.Contains(strings.Split(r.verbs, ","), c.verb) && r.group == c.group && r.resource == resource &&
		(r.namespace == "*" || r.namespace == c.namespace) && (r.named == "*" || r.named == c.name)
}

// Every identity that a fleet knows, every verb, every resource that a hub
// serves and that has to do with the fleet: what is allowed is listed here, and
// all else must be refused.
func TestRights(t *testing.T) {
	ctx := context.Background()
	own, other := clusterName(t, "own"), clusterName(t, "other")
	denied, pending := clusterName(t, "denied"), clusterName(t, "pending")
	c := clientFor(t, admin)
	for _, name := range []string{own, other, denied} {
		mc := newCluster(name)
		mc.Spec.HubAcceptsClient = ptr.To(true)
		must(t, c.Create(ctx, mc))
		waitForCluster(t, name, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionTrue, cluster.ReasonHubAccepted))
	}
	must(t, c.Create(ctx, newCluster(pending)))
	accept(t, denied, false)
	waitForCluster(t, denied, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionFalse, cluster.ReasonHubDenied))

	const (
		clusters = "cluster.open-cluster-management.io"
		works    = "work.open-cluster-management.io"
		addOns   = "addon.open-cluster-management.io"
		register = "register.open-cluster-management.io"
		requests = "certificates.k8s.io"
	)
	// Everybody may read where the hub is, who they are not included.
	public := []right{
		{"get", "", "configmaps", "kube-public", "cluster-info"},
		{"get", "", "configmaps", "kube-public", "muster-hub-info"},
	}
	agent := func(name string) []string {
		return []string{cluster.CommonName(name, "a"), cluster.Group(name), cluster.ManagedClustersGroup, "system:authenticated"}
	}
	identities := map[string]struct {
		user   []string // and its groups
		rights []right
	}{
		"anonymous":     {[]string{"system:anonymous", "system:unauthenticated"}, nil},
		"authenticated": {[]string{"somebody", "system:authenticated"}, nil},
		"bootstrap": {[]string{"system:bootstrap:abcdef", cluster.BootstrapGroup, "system:bootstrappers", "system:authenticated"}, []right{
			{"get", "", "configmaps", "*", "*"},
			{"create,get,list,watch", requests, "certificatesigningrequests", "", "*"},
			{"create,get,list,watch", clusters, "managedclusters", "", "*"},
			{"create", clusters, "managedclustersets/join", "", "*"},
		}},
		"bound bootstrap": {[]string{"system:bootstrap:abcdef", cluster.BoundBootstrapGroup(own), "system:bootstrappers", "system:authenticated"}, []right{
			{"get", "", "configmaps", "kube-public", "*"},
			// Lists and watches only with the cluster's label, which a review by name has not.
			{"create", requests, "certificatesigningrequests", "", "*"},
			// What may be created is admission's to decide: a name is not known yet.
			{"create", clusters, "managedclusters", "", "*"},
			{"get,list,watch", clusters, "managedclusters", "", own},
			{"create", clusters, "managedclustersets/join", "", "default"},
		}},
		"pending agent": {agent(pending), nil},
		"agent": {agent(own), []right{
			{"create,get,list,watch", requests, "certificatesigningrequests", "", "*"},
			{"renew", register, "managedclusters/clientcertificates", "", "*"},
			{"get,list,update,watch", clusters, "managedclusters", "", own},
			{"patch,update", clusters, "managedclusters/status", "", own},
			{"get,list,update,watch", "coordination.k8s.io", "leases", own, "*"},
			{"get,list,watch", addOns, "managedclusteraddons", own, "*"},
			{"patch,update", addOns, "managedclusteraddons/status", own, "*"},
			{"create,patch,update", "", "events", own, "*"},
			{"create,patch,update", "events.k8s.io", "events", own, "*"},
			{"get,list,patch,update,watch", works, "manifestworks", own, "*"},
			{"patch,update", works, "manifestworks/status", own, "*"},
		}},
		"denied agent": {agent(denied), []right{{"get,list,watch", clusters, "managedclusters", "", denied}}},
	}

	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "approve", "renew", "execute-as", "escalate", "bind", "impersonate"}
	namespaced := []cell{
		{group: "", resource: "configmaps"}, {group: "", resource: "secrets"}, {group: "", resource: "serviceaccounts"}, {group: "", resource: "serviceaccounts", subresource: "token"},
		{group: "", resource: "events"}, {group: "events.k8s.io", resource: "events"}, {group: "coordination.k8s.io", resource: "leases"},
		{group: "rbac.authorization.k8s.io", resource: "roles"}, {group: "rbac.authorization.k8s.io", resource: "rolebindings"},
		{group: works, resource: "manifestworks"}, {group: works, resource: "manifestworks", subresource: "status"}, {group: works, resource: "manifestworkreplicasets"},
		{group: addOns, resource: "managedclusteraddons"}, {group: addOns, resource: "managedclusteraddons", subresource: "status"}, {group: addOns, resource: "addondeploymentconfigs"},
		{group: clusters, resource: "placements"}, {group: clusters, resource: "placementdecisions"}, {group: clusters, resource: "managedclustersetbindings"}, {group: clusters, resource: "addonplacementscores"},
	}
	clusterWide := []cell{
		{group: "", resource: "namespaces"}, {group: requests, resource: "certificatesigningrequests"}, {group: requests, resource: "certificatesigningrequests", subresource: "approval"},
		{group: requests, resource: "certificatesigningrequests", subresource: "status"}, {group: requests, resource: "signers"},
		{group: "rbac.authorization.k8s.io", resource: "clusterroles"}, {group: "rbac.authorization.k8s.io", resource: "clusterrolebindings"},
		{group: clusters, resource: "managedclusters"}, {group: clusters, resource: "managedclusters", subresource: "status"},
		{group: clusters, resource: "managedclustersets"}, {group: clusters, resource: "managedclustersets", subresource: "join"}, {group: clusters, resource: "managedclustersets", subresource: "bind"},
		{group: register, resource: "managedclusters", subresource: "accept"}, {group: register, resource: "managedclusters", subresource: "clientcertificates"},
		{group: addOns, resource: "clustermanagementaddons"}, {group: addOns, resource: "addontemplates"},
		{group: "apiextensions.k8s.io", resource: "customresourcedefinitions"}, {group: "", resource: "users"}, {group: "", resource: "groups"},
	}
	var cells []cell
	for _, verb := range verbs {
		for _, x := range namespaced {
			for _, namespace := range []string{own, other, denied, "default", "kube-system", "kube-public", "open-cluster-management"} {
				for _, name := range []string{"", "x", "cluster-info", "muster-hub-info"} {
					x.verb, x.namespace, x.name = verb, namespace, name
					cells = append(cells, x)
				}
			}
		}
		for _, x := range clusterWide {
			for _, name := range []string{"", own, other, denied, pending, "default", "global"} {
				x.verb, x.name = verb, name
				cells = append(cells, x)
			}
		}
	}

	reviews := clientsetFor(t, admin).AuthorizationV1().SubjectAccessReviews()
	may := func(user []string, x cell) (bool, error) {
		review, err := reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user[0], Groups: user[1:],
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: x.verb, Group: x.group, Resource: x.resource, Subresource: x.subresource, Namespace: x.namespace, Name: x.name},
		}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}
	// The authorizer learns of roles by a watch.
	testenv.Eventually(t, func() error {
		request := cell{verb: "create", group: requests, resource: "certificatesigningrequests"}
		granted, err := may(agent(own), request)
		withdrawn, deniedErr := may(agent(denied), request)
		if !granted || withdrawn {
			return fmt.Errorf("the roles are not known yet: %w", errors.Join(err, deniedErr))
		}
		return nil
	})
	count, allowed := 0, 0
	for who, identity := range identities {
		answers := make([]bool, len(cells))
		var group errgroup.Group
		group.SetLimit(16)
		for i, x := range cells {
			group.Go(func() error {
				var err error
				answers[i], err = may(identity.user, x)
				return err
			})
		}
		must(t, group.Wait())
		for i, x := range cells {
			want := slices.ContainsFunc(slices.Concat(public, identity.rights), func(r right) bool { return r.covers(x) })
			count++
			if answers[i] {
				allowed++
			}
			if answers[i] != want {
				t.Errorf("%s: %s: allowed %v, want %v", who, x, answers[i], want)
			}
		}
	}
	t.Logf("%d cells, %d allowed", count, allowed)
}
