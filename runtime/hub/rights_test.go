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
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// The groups whose resources the matrix covers: the fleet's own, and those of
// Kubernetes' that have to do with it.
const (
	clustersGroup  = "cluster.open-cluster-management.io"
	worksGroup     = "work.open-cluster-management.io"
	addOnsGroup    = "addon.open-cluster-management.io"
	registerGroup  = "register.open-cluster-management.io"
	requestsGroup  = "certificates.k8s.io"
	leasesGroup    = "coordination.k8s.io"
	rolesGroup     = "rbac.authorization.k8s.io"
	eventsGroup    = "events.k8s.io"
	definitionsGrp = "apiextensions.k8s.io"
)

// places are the clusters of the matrix, which are names and namespaces in it.
type places struct{ own, other, denied, pending string }

// rightsVerbs are all that means something to somebody.
func rightsVerbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "approve", "sign", "renew", "execute-as", "escalate", "bind", "impersonate"}
}

// rightsCells are all questions that can be asked about an identity. Which
// resources there are is asked of the hub.
func rightsCells(t testing.TB, p places) []cell {
	t.Helper()
	namespaced, clusterWide := served(t)
	// These are only in rules and reviews.
	clusterWide = append(clusterWide,
		cell{group: registerGroup, resource: "managedclusters", subresource: "accept"}, cell{group: registerGroup, resource: "managedclusters", subresource: "clientcertificates"},
		cell{group: clustersGroup, resource: "managedclustersets", subresource: "join"}, cell{group: clustersGroup, resource: "managedclustersets", subresource: "bind"},
		cell{group: requestsGroup, resource: "signers"}, cell{group: "", resource: "users"}, cell{group: "", resource: "groups"},
	)
	var cells []cell
	for _, verb := range rightsVerbs() {
		for _, x := range namespaced {
			names := []string{"", "x"}
			if x.resource == "configmaps" {
				names = append(names, "cluster-info", "muster-hub-info")
			}
			for _, namespace := range []string{p.own, p.other, p.denied, p.pending, "default", "kube-system", "kube-public", "open-cluster-management"} {
				for _, name := range names {
					x.verb, x.namespace, x.name = verb, namespace, name
					cells = append(cells, x)
				}
			}
		}
		for _, x := range clusterWide {
			for _, name := range []string{"", p.own, p.other, p.denied, p.pending, "default", "global", "blue", "green"} {
				x.verb, x.name = verb, name
				cells = append(cells, x)
			}
		}
	}
	return cells
}

// served asks the hub for the resources of the groups.
func served(t testing.TB) (namespaced, clusterWide []cell) {
	t.Helper()
	groups := []string{clustersGroup, worksGroup, addOnsGroup, "", rolesGroup, requestsGroup, leasesGroup, eventsGroup, definitionsGrp}
	_, lists, err := clientsetFor(t, admin).Discovery().ServerGroupsAndResources()
	must(t, err)
	seen := map[cell]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
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

// holder is an identity and all that it may do.
type holder struct {
	user   []string // and its groups
	rights []right
}

func agentOf(name string) []string {
	return []string{cluster.CommonName(name, "a"), cluster.Group(name), cluster.ManagedClustersGroup, "system:authenticated"}
}

// agentRights are those of an accepted cluster's agents.
func agentRights(name string) []right {
	return []right{
		{"create,get,list,watch", requestsGroup, "certificatesigningrequests", "", "*"},
		{"renew", registerGroup, "managedclusters/clientcertificates", "", "*"},
		{"get,list,update,watch", clustersGroup, "managedclusters", "", name},
		{"patch,update", clustersGroup, "managedclusters/status", "", name},
		{"get,list,update,watch", leasesGroup, "leases", name, "*"},
		{"get,list,watch", addOnsGroup, "managedclusteraddons", name, "*"},
		{"patch,update", addOnsGroup, "managedclusteraddons/status", name, "*"},
		{"create,patch,update", "", "events", name, "*"},
		{"create,patch,update", eventsGroup, "events", name, "*"},
		{"get,list,patch,update,watch", worksGroup, "manifestworks", name, "*"},
		{"patch,update", worksGroup, "manifestworks/status", name, "*"},
	}
}

// holders are the identities of a fleet. Those that an administrator would make
// up get their roles here.
func holders(t testing.TB, p places) map[string]holder {
	t.Helper()
	bootstrap := []right{
		{"get", "", "configmaps", "*", "*"},
		{"create,get,list,watch", requestsGroup, "certificatesigningrequests", "", "*"},
		{"create,get,list,watch", clustersGroup, "managedclusters", "", "*"},
		{"create", clustersGroup, "managedclustersets/join", "", "*"},
	}
	granted := func(user string, rules ...rbacv1.PolicyRule) []string {
		bestow(t, user, rules...)
		return []string{user, "system:authenticated"}
	}
	onSet := func(verbs, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{clustersGroup}, Resources: []string{resource}, ResourceNames: []string{"blue"}, Verbs: strings.Split(verbs, ",")}
	}
	edit := rbacv1.PolicyRule{APIGroups: []string{clustersGroup}, Resources: []string{"managedclusters"}, Verbs: []string{"create", "get", "update", "patch"}}
	return map[string]holder{
		"anonymous":     {[]string{"system:anonymous", "system:unauthenticated"}, nil},
		"authenticated": {[]string{"somebody", "system:authenticated"}, nil},
		"bootstrap":     {[]string{"system:bootstrap:abcdef", cluster.BootstrapGroup, "system:bootstrappers", "system:authenticated"}, bootstrap},
		"bootstrap service account": {[]string{"system:serviceaccount:open-cluster-management:agent-registration-bootstrap",
			"system:serviceaccounts", "system:serviceaccounts:open-cluster-management", "system:authenticated"},
			// The second is Kubernetes' own, for every service account.
			slices.Concat(bootstrap, []right{{"get,list,watch", requestsGroup, "clustertrustbundles", "", "*"}})},
		"bound bootstrap": {[]string{"system:bootstrap:abcdef", cluster.BoundBootstrapGroup(p.own), "system:bootstrappers", "system:authenticated"}, []right{
			{"get", "", "configmaps", "kube-public", "*"},
			// Lists and watches only with the cluster's label, which a review by name has not.
			{"create", requestsGroup, "certificatesigningrequests", "", "*"},
			// What may be created is admission's to decide: a name is not known yet.
			{"create", clustersGroup, "managedclusters", "", "*"},
			{"get,list,watch", clustersGroup, "managedclusters", "", p.own},
			{"create", clustersGroup, "managedclustersets/join", "", "default"},
		}},
		"pending cluster": {agentOf(p.pending), nil},
		"cluster":         {agentOf(p.own), agentRights(p.own)},
		"other cluster":   {agentOf(p.other), agentRights(p.other)},
		"denied cluster":  {agentOf(p.denied), []right{{"get,list,watch", clustersGroup, "managedclusters", "", p.denied}}},
		"set admin": {
			granted("set-admin", onSet("get,update,patch", "managedclustersets"), onSet("create", "managedclustersets/join"), onSet("create", "managedclustersets/bind"), edit),
			[]right{
				{"get,update,patch", clustersGroup, "managedclustersets", "", "blue"},
				{"create", clustersGroup, "managedclustersets/join", "", "blue"},
				{"create", clustersGroup, "managedclustersets/bind", "", "blue"},
				{"create,get,update,patch", clustersGroup, "managedclusters", "", "*"},
			},
		},
		"accept-only": {
			granted("accept-only", rbacv1.PolicyRule{APIGroups: []string{registerGroup}, Resources: []string{"managedclusters/accept"}, Verbs: []string{"update"}}, edit),
			[]right{{"update", registerGroup, "managedclusters/accept", "", "*"}, {"create,get,update,patch", clustersGroup, "managedclusters", "", "*"}},
		},
		"join-only": {granted("join-only", onSet("create", "managedclustersets/join")), []right{{"create", clustersGroup, "managedclustersets/join", "", "blue"}}},
		"bind-only": {granted("bind-only", onSet("create", "managedclustersets/bind")), []right{{"create", clustersGroup, "managedclustersets/bind", "", "blue"}}},
	}
}

// clustersInEachState makes the clusters of the matrix.
func clustersInEachState(t testing.TB) places {
	t.Helper()
	p := places{clusterName(t, "own"), clusterName(t, "other"), clusterName(t, "denied"), clusterName(t, "pending")}
	for _, name := range []string{p.own, p.other, p.denied} {
		acceptedCluster(t, clientFor(t, admin), name)
	}
	must(t, clientFor(t, admin).Create(context.Background(), newCluster(p.pending)))
	accept(t, p.denied, false)
	waitForCluster(t, p.denied, hasCondition(cluster.ConditionHubAccepted, metav1.ConditionFalse, cluster.ReasonHubDenied))
	return p
}

// Every identity that a fleet knows, every verb, every resource that a hub
// serves and that has to do with the fleet: what is allowed is listed above, and
// all else must be refused.
func TestRights(t *testing.T) {
	ctx := context.Background()
	p := clustersInEachState(t)
	identities, cells := holders(t, p), rightsCells(t, p)
	// Everybody may read where the hub is, who they are not included.
	public := []right{
		{"get", "", "configmaps", "kube-public", "cluster-info"},
		{"get", "", "configmaps", "kube-public", "muster-hub-info"},
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
		request := cell{verb: "create", group: requestsGroup, resource: "certificatesigningrequests"}
		granted, err := may(agentOf(p.other), request)
		withdrawn, deniedErr := may(agentOf(p.denied), request)
		bind, bindErr := may(identities["bind-only"].user, cell{verb: "create", group: clustersGroup, resource: "managedclustersets", subresource: "bind", name: "blue"})
		if !granted || withdrawn || !bind {
			return fmt.Errorf("the roles are not known yet: %w", errors.Join(err, deniedErr, bindErr))
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
		used := map[int]bool{}
		for i, x := range cells {
			rights := slices.Concat(public, identity.rights)
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
		for i, r := range slices.Concat(public, identity.rights) {
			if !used[i] {
				t.Errorf("%s: no cell asks for %+v", who, r)
			}
		}
	}
	t.Logf("%d cells: %d identities, %d questions each; %d allowed, %d refused", count, len(identities), len(cells), allowed, count-allowed)
}
