package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// cell is one question: may the identity do this here?
type cell struct {
	verb, group, resource, subresource, namespace, name string
	// selected is the cluster whose label a list or watch selects.
	selected string
}

func (c cell) String() string {
	where := ""
	if c.namespace != "" {
		where = " in " + c.namespace
	}
	if c.selected != "" {
		where += " of the cluster " + c.selected
	}
	return fmt.Sprintf("%s %s.%s %q%s", c.verb, c.fullResource(), c.group, c.name, where)
}

// fullResource is the resource as rules write it.
func (c cell) fullResource() string {
	if c.subresource == "" {
		return c.resource
	}
	return c.resource + "/" + c.subresource
}

// review asks the question about a user.
func (c cell) review(u authenticationv1.UserInfo) *authorizationv1.SubjectAccessReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range u.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	attributes := &authorizationv1.ResourceAttributes{
		Verb: c.verb, Group: c.group, Resource: c.resource, Subresource: c.subresource, Namespace: c.namespace, Name: c.name,
	}
	if c.selected != "" {
		attributes.LabelSelector = &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
			{Key: cluster.NameLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{c.selected}},
		}}
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra, ResourceAttributes: attributes,
	}}
}

// right is what an identity may do: the verbs on a resource, in a namespace or
// cluster-wide, on one name or ("*") on any.
type right struct {
	verbs            string
	group, resource  string // resource/subresource
	namespace, named string
	// selected, when set, limits the right to one cluster's objects.
	selected string
}

func (r right) covers(c cell) bool {
	return slices.Contains(strings.Split(r.verbs, ","), c.verb) && r.group == c.group && r.resource == c.fullResource() &&
		(r.namespace == "*" || r.namespace == c.namespace) && (r.named == "*" || r.named == c.name) &&
		(r.selected == "" || r.selected == c.selected)
}

// The groups whose resources the matrix covers: the fleet's own, and those of
// Kubernetes' that have to do with it.
const (
	clustersGroup  = "cluster.open-cluster-management.io"
	worksGroup     = "work.open-cluster-management.io"
	addOnsGroup    = "addon.open-cluster-management.io"
	registerGroup  = "register.open-cluster-management.io"
	profilesGroup  = "multicluster.x-k8s.io"
	requestsGroup  = "certificates.k8s.io"
	leasesGroup    = "coordination.k8s.io"
	rolesGroup     = "rbac.authorization.k8s.io"
	eventsGroup    = "events.k8s.io"
	definitionsGrp = "apiextensions.k8s.io"
	musterGroup    = "muster-fleet.io"
)

// rightsVerbs are all that means something to somebody.
func rightsVerbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "approve", "sign", "renew", "execute-as", "escalate", "bind", "impersonate"}
}

// rightsCells are all questions that can be asked about an identity. Which
// resources there are is asked of the hub.
func rightsCells(namespaced, clusterWide []cell, clusters []string) []cell {
	// These are only in rules and reviews.
	clusterWide = append(clusterWide,
		cell{group: registerGroup, resource: "managedclusters", subresource: "accept"}, cell{group: registerGroup, resource: "managedclusters", subresource: "clientcertificates"},
		cell{group: clustersGroup, resource: "managedclustersets", subresource: "join"}, cell{group: clustersGroup, resource: "managedclustersets", subresource: "bind"},
		cell{group: requestsGroup, resource: "signers"}, cell{group: "", resource: "users"}, cell{group: "", resource: "groups"},
	)
	// These are served by hubs that present profiles.
	namespaced = append(namespaced, cell{group: profilesGroup, resource: "clusterprofiles"}, cell{group: profilesGroup, resource: "clusterprofiles", subresource: "status"},
		// It is no part of a definition.
		cell{group: musterGroup, resource: "logicalclouds", subresource: "kubeconfig"})

	var cells []cell
	// Only muster's own kinds have these.
	own := []string{"use", "grant-cluster-scope"}
	for _, verb := range append(rightsVerbs(), own...) {
		for _, x := range namespaced {
			if slices.Contains(own, verb) && x.group != musterGroup {
				continue
			}
			x.verb = verb
			for _, x.namespace = range append(slices.Clone(clusters), "default", "kube-system", "kube-public", "open-cluster-management", "open-cluster-management-hub") {
				for _, x.name = range namesIn(x) {
					cells = append(cells, x)
				}
			}
		}
		for _, x := range clusterWide {
			if slices.Contains(own, verb) && x.group != musterGroup {
				continue
			}
			x.verb = verb
			for _, x.name = range append(slices.Clone(clusters), "", "default", "global", "blue", "green") {
				cells = append(cells, x)
			}
			x.name = ""
			for _, x.selected = range clusters {
				if x.resource == "managedclusters" || x.resource == "certificatesigningrequests" {
					cells = append(cells, x)
				}
			}
		}
	}
	return cells
}

// namesIn are the names that a question about a namespaced resource is asked
// with: those that a rule may know, any other, and none.
func namesIn(x cell) []string {
	switch x.resource {
	case "configmaps":
		return []string{"", "x", "cluster-info", "muster-hub-info", "muster-hub-endpoints", "ca-bundle-configmap"}
	case "leases":
		return []string{"", "x", cluster.LeaseName}
	case "serviceaccounts":
		return []string{"", "x", cluster.BootstrapServiceAccount}
	}
	return []string{"", "x"}
}

// served asks the hub for the resources of the groups.
func served(t testing.TB) (namespaced, clusterWide []cell) {
	t.Helper()
	groups := []string{clustersGroup, worksGroup, addOnsGroup, registerGroup, "", rolesGroup, requestsGroup, leasesGroup, eventsGroup, definitionsGrp, musterGroup}
	_, lists, err := clientsetFor(t, admin).Discovery().ServerGroupsAndResources()
	testkit.Must(t, err)
	seen := map[cell]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		testkit.Must(t, err)
		for _, r := range list.APIResources {
			resource, subresource, _ := strings.Cut(r.Name, "/")
			x := cell{group: version.Group, resource: resource, subresource: subresource}
			if !slices.Contains(groups, version.Group) || seen[x] {
				continue // rights don't know versions
			}
			seen[x] = true
			if r.Namespaced {
				namespaced = append(namespaced, x)
			} else {
				clusterWide = append(clusterWide, x)
			}
		}
	}
	return namespaced, clusterWide
}

// Every identity that a fleet knows, every verb, every resource that a hub
// serves and that has to do with the fleet: what is allowed is listed, and all
// else must be refused.
func TestRights(t *testing.T) {
	ctx := context.Background()
	p, everybody := fleetOfIdentities(t)
	giveEverything(t, p, everybody)
	namespaced, clusterWide := served(t)
	// Everybody may read where the hub is, who they are not included.
	public := []right{
		{"get", "", "configmaps", "kube-public", "cluster-info", ""},
		{"get", "", "configmaps", "kube-public", "muster-hub-info", ""},
		{"get", "", "configmaps", "kube-public", "muster-hub-endpoints", ""},
	}
	reviews := clientsetFor(t, admin).AuthorizationV1().SubjectAccessReviews()
	may := func(who string, x cell) (bool, error) {
		review, err := reviews.Create(ctx, x.review(everybody[who].user), metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}
	// The authorizer learns of roles by a watch.
	testkit.Eventually(t, func() error {
		request := cell{verb: "create", group: requestsGroup, resource: "certificatesigningrequests"}
		granted, err := may("other cluster", request)
		withdrawn, deniedErr := may("denied cluster", request)
		bound, boundErr := may("gone cluster", cell{verb: "get", resource: "configmaps", namespace: "kube-public", name: "x"})
		bind, bindErr := may("bind-only", cell{verb: "create", group: clustersGroup, resource: "managedclustersets", subresource: "bind", name: "blue"})
		if !granted || withdrawn || !bind || !bound {
			return fmt.Errorf("the roles are not known yet: %w", errors.Join(err, deniedErr, boundErr, bindErr))
		}
		return nil
	})
	count, allowed := 0, 0
	for who, identity := range everybody {
		cells := rightsCells(namespaced, clusterWide, p.around(who))
		if identity.within != "" {
			cells = slices.DeleteFunc(cells, func(x cell) bool { return x.group != identity.within && x.resource != "configmaps" })
		}
		answers := make([]bool, len(cells))
		var group errgroup.Group
		group.SetLimit(16)
		for i, x := range cells {
			group.Go(func() error {
				var err error
				answers[i], err = may(who, x)
				return err
			})
		}
		testkit.Must(t, group.Wait())
		rights := slices.Concat(public, identity.rights)
		used := map[int]bool{}
		for i, x := range cells {
			at := slices.IndexFunc(rights, func(r right) bool { return r.covers(x) })
			used[at] = true
			count++
			if answers[i] {
				allowed++
			}
			if answers[i] != (at >= 0) {
				t.Errorf("%s: %s: allowed %v, want %v", who, x, answers[i], at >= 0)
			}
		}
		for i, r := range rights {
			if !used[i] {
				t.Errorf("%s: no cell asks for %+v", who, r)
			}
		}
	}
	t.Logf("%d cells: %d identities; %d allowed, %d refused", count, len(everybody), allowed, count-allowed)
}
