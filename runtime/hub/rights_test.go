package hub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
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

// attributes are the question as the hub's authorizer gets it.
func (c cell) attributes(t testing.TB, u authenticationv1.UserInfo) authorizer.AttributesRecord {
	t.Helper()
	who := &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: map[string][]string{}}
	for k, v := range u.Extra {
		who.Extra[k] = v
	}
	a := authorizer.AttributesRecord{
		User: who, Verb: c.verb, APIGroup: c.group, APIVersion: "*", Resource: c.resource, Subresource: c.subresource,
		Namespace: c.namespace, Name: c.name, ResourceRequest: true,
	}
	if c.selected != "" {
		selects, err := labels.NewRequirement(cluster.NameLabel, selection.In, []string{c.selected})
		testkit.Must(t, err)
		a.LabelSelectorRequirements = labels.Requirements{*selects}
	}
	return a
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
	return (r.verbs == "*" || r.group == c.group && r.resource == c.fullResource() && slices.Contains(strings.Split(r.verbs, ","), c.verb)) &&
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
func rightsCells(namespaced, clusterWide []cell, clusters []string, namespaces ...string) []cell {
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

	namespaces = append(namespaces, clusters...)
	namespaces = append(namespaces, "default", "kube-system", "kube-public", "open-cluster-management", "open-cluster-management-hub",
		muster.AccessKeyNamespace, muster.ImportNamespace)
	var cells []cell
	// Only muster's own kinds have these.
	own := []string{"use", "grant-cluster-scope", "tunnel"}
	for _, verb := range append(rightsVerbs(), own...) {
		for _, x := range namespaced {
			if slices.Contains(own, verb) && x.group != musterGroup {
				continue
			}
			x.verb = verb
			for _, x.namespace = range namespaces {
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
	// The authorizer learns of roles by a watch.
	testkit.Eventually(t, func() error {
		request := cell{verb: "create", group: requestsGroup, resource: "certificatesigningrequests"}
		granted, err := may(t, everybody["other cluster"], request)
		withdrawn, deniedErr := may(t, everybody["denied cluster"], request)
		bound, boundErr := may(t, everybody["gone cluster"], cell{verb: "get", resource: "configmaps", namespace: "kube-public", name: "x"})
		bind, bindErr := may(t, everybody["bind-only"], cell{verb: "create", group: clustersGroup, resource: "managedclustersets", subresource: "bind", name: "blue"})
		if !granted || withdrawn || !bind || !bound {
			return fmt.Errorf("the roles are not known yet: %w", errors.Join(err, deniedErr, boundErr, bindErr))
		}
		return nil
	})
	count, allowed := 0, 0
	for who, identity := range everybody {
		cells := rightsCells(namespaced, clusterWide, p.around(who), p.tenant, p.otherTenant)
		rights := slices.Concat(public, identity.rights)
		used := map[int]bool{}
		for i, x := range cells {
			at := slices.IndexFunc(rights, func(r right) bool { return r.covers(x) })
			used[at] = true
			count++
			got, err := may(t, identity, x)
			testkit.Must(t, err)
			if got {
				allowed++
			}
			if got != (at >= 0) {
				t.Errorf("%s: %s: allowed %v, want %v", who, x, got, at >= 0)
			}
			if i%499 == 0 { // what is asked over the network has the same answer
				review, err := reviews.Create(ctx, x.review(identity.user), metav1.CreateOptions{})
				if err != nil || review.Status.Allowed != got {
					t.Errorf("%s: %s: a review says %+v, %v", who, x, review.Status, err)
				}
			}
		}
		for i, r := range rights {
			if !used[i] && !identity.derived {
				t.Errorf("%s: no cell asks for %+v", who, r)
			}
		}
	}
	t.Logf("%d cells: %d identities; %d allowed, %d refused", count, len(everybody), allowed, count-allowed)
}

// may asks the hub's authorizer.
func may(t testing.TB, i identity, x cell) (bool, error) {
	t.Helper()
	decision, _, err := decides.Authorize(context.Background(), x.attributes(t, i.user))
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	return false, err
}
