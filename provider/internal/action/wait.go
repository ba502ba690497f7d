package action

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/actionvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

// waitJoined is muster_wait_joined.
func waitJoined() declaration {
	names, set := path.MatchRoot("managed_clusters"), path.MatchRoot("cluster_set")
	selector := path.MatchRoot("label_selector")
	return declaration{
		name: "wait_joined",
		description: "Waits until clusters have joined the hub and are available, and tells meanwhile how far each " +
			"of them is: whether it is accepted, which certificate request waits for approval, and what the hub " +
			"says about it. It changes nothing. It ends early when a cluster is denied or deleted.\n\n" +
			"What needs running clusters in the same configuration is better served by the resource " +
			"`muster_cluster_registration`, on which other resources can depend.",
		attributes: map[string]schema.Attribute{
			"managed_clusters": someClusters("Names of the clusters. They need not exist yet. Give either these, or " +
				"`cluster_set`, `label_selector` or both."),
			"cluster_set": attribute.Optional("Name of a cluster set: its clusters are waited for, also those that "+
				"enter it meanwhile.", attribute.ValidName("cluster set name")),
			"label_selector": attribute.Optional("Selects clusters by their labels, as kubectl does: "+
				"`env=prod,region in (eu,us)`.", attribute.ValidSelector()),
			"minimum": attribute.OptionalNumber("How many of the clusters suffice. If omitted, all of them have to "+
				"be there, and one at least.", int64validator.AtLeast(1)),
			"until": attribute.Optional("`available` waits until the hub hears from the agents and the clusters' "+
				"API servers are well (`"+cluster.ConditionAvailable+"`), so that placements may select them, "+
				"`joined` only until the agents have their certificates (`"+cluster.ConditionJoined+"`). Defaults to "+
				"`available`.", stringvalidator.OneOf("available", "joined")),
		},
		validators: []action.ConfigValidator{
			actionvalidator.AtLeastOneOf(names, set, selector),
			actionvalidator.Conflicting(names, set),
			actionvalidator.Conflicting(names, selector),
		},
		takes: "the wait", timeout: attribute.DefaultWait,
		doing: "wait for managed clusters", do: joinAll,
	}
}

// joinAll waits until clusters have joined and are available. It ends early
// when that can't happen any more: a cluster is denied or deleted.
func joinAll(ctx context.Context, r *run) error {
	minimum, _ := r.Values["minimum"].(types.Int64)
	w := &joining{
		run: r, clusters: r.Texts("managed_clusters"), set: r.Text("cluster_set"), minimum: int(minimum.ValueInt64()),
		joinedOnly: r.Text("until") == "joined", standings: map[string]standing{},
	}
	if text := r.Text("label_selector"); text != "" {
		selector, err := labels.Parse(text)
		if err != nil {
			return err
		}
		w.selector = selector
	}
	options, err := w.selected(ctx)
	if err != nil {
		return err
	}
	wait := func(ctx context.Context) error {
		return r.client.WaitObjects(ctx, &clusterv1.ManagedClusterList{}, &clusterv1.ManagedCluster{}, options, w.judge)
	}
	return r.wait(ctx, w.look, wait, func() error { return w.tooLate(ctx) },
		"The wait was ended. It changes nothing on the hub: wait again at any time.")
}

// joining is a wait for clusters.
type joining struct {
	*run
	// clusters are waited for by name. Without any, those are that set and selector, which
	// may be nil, select.
	clusters []string
	set      string
	selector labels.Selector
	// minimum is how many clusters suffice; 0 stands for all of them, and one at least.
	minimum int
	// joinedOnly does not wait until they are available.
	joinedOnly bool

	mu        sync.Mutex
	standings map[string]standing
	reached   int
	judged    bool
	// all are the names of all clusters of the hub, once one is missing.
	all []string
}

// named are the clusters to wait for: those asked for, or those that the hub shows
// by the selector.
func (w *joining) named(objects map[string]kube.Object) []string {
	names := slices.Clone(w.clusters)
	if len(names) == 0 {
		for name := range objects {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// shown is how many clusters are told of one by one.
const shown = 20

// judge reports what is new, and reports whether the wait is over.
func (w *joining) judge(objects map[string]kube.Object) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := w.named(objects)
	before := w.standings
	w.standings, w.reached, w.judged = make(map[string]standing, len(names)), 0, true
	var hopeless []string
	for _, name := range names {
		object, _ := objects[name].(*clusterv1.ManagedCluster)
		s := standingOf(object, w.joinedOnly)
		w.standings[name] = s
		if s.reached {
			w.reached++
		}
		if s.hopeless {
			hopeless = append(hopeless, name)
		}
		if before[name].text != s.text && len(names) <= shown {
			w.sayStanding(name, s, len(names))
		}
	}
	if len(names) > shown {
		w.say("%d of %d clusters %s", w.reached, len(names), w.goal())
	}
	if len(hopeless) > 0 && w.minimum == 0 {
		return false, w.hopeless(hopeless)
	}
	if w.minimum > 0 {
		return w.reached >= w.minimum, nil
	}
	return len(names) > 0 && w.reached == len(names), nil
}

func (w *joining) sayStanding(name string, s standing, total int) {
	if s.reached && total > 1 {
		w.say("%s %s (%d of %d).", name, s.text, w.reached, total)
		return
	}
	w.say("%s %s.", name, s.text)
}

func (w *joining) goal() string {
	if w.joinedOnly {
		return "have joined"
	}
	return "are available"
}

// look reports which clusters' certificate requests wait for a decision, where the
// agent has not joined, which names may be misspelt, and that nothing is selected
// yet.
func (w *joining) look(ctx context.Context) {
	w.mu.Lock()
	var joining, missing []string
	for name, s := range w.standings {
		if s.joining {
			joining = append(joining, name)
		}
		if s.missing {
			missing = append(missing, name)
		}
	}
	none, ask := len(w.standings) == 0 && w.judged, len(missing) > 0 && w.all == nil
	w.mu.Unlock()
	if none {
		w.say("No cluster is selected yet.")
	}
	if ask {
		all := append([]string{}, w.clusterNames(ctx)...)
		w.mu.Lock()
		w.all = all
		w.mu.Unlock()
		for _, name := range missing {
			if near := suggest.Names(name, all); len(near) > 0 {
				w.say("There is no managed cluster %q yet. Did you mean %s?", name, strings.Join(near, ", "))
			}
		}
	}
	slices.Sort(joining)
	for _, name := range joining[:min(len(joining), 3)] {
		if pending, err := registration.PendingRequests(ctx, w.client, name); err == nil && len(pending) > 0 {
			w.say("The certificate request of %s waits for approval: kubectl certificate approve %s", name, pending[0])
		}
	}
}

// hopeless is the error about clusters that can't reach the goal any more.
func (w *joining) hopeless(names []string) error {
	var reported []string
	for _, name := range names[:min(len(names), 5)] {
		reported = append(reported, fmt.Sprintf("  %s %s", name, w.standings[name].text))
	}
	return refuse(fmt.Sprintf("%s can't join", text.List(names, 3)),
		"Waiting on would be of no use:\n%s\n\nAccept a denied cluster again with muster_cluster_acceptance or "+
			"clusteradm accept, or take it out of what is waited for.", attribute.JoinLines(reported))
}

// tooLate describes the clusters that have not reached the goal.
func (w *joining) tooLate(ctx context.Context) error {
	const described = 3
	w.mu.Lock()
	defer w.mu.Unlock()
	var late []string
	for name, s := range w.standings {
		if !s.reached {
			late = append(late, name)
		}
	}
	slices.Sort(late)
	if len(w.standings) == 0 {
		return refuse("No cluster was selected", "Within %s the hub %s had no managed cluster that %s. Check the "+
			"selection: kubectl get managedclusters --show-labels",
			w.timeout, w.client.Host(), w.selection())
	}
	if w.minimum > len(w.standings) {
		late = append(late, fmt.Sprintf("(%s, of %d that are waited for)", crud.Count(len(w.standings), "cluster"),
			w.minimum))
	}
	var reported []string
	for _, name := range late[:min(len(late), described)] {
		s, ok := w.standings[name]
		if !ok {
			continue
		}
		reported = append(reported, fmt.Sprintf("%s: %s", name, w.describe(ctx, name, s)))
	}
	if more := len(late) - described; more > 0 {
		reported = append(reported, fmt.Sprintf("And %d more: %s.", more, text.List(late[described:], 10)))
	}
	return refuse(fmt.Sprintf("%d of %d clusters %s within %s, not: %s", w.reached, len(w.standings), w.goal(),
		w.timeout, text.List(late, 5)),
		"%s", strings.Join(reported, "\n\n"))
}

func (w *joining) describe(ctx context.Context, name string, s standing) string {
	object := s.object
	if object == nil {
		object = &clusterv1.ManagedCluster{}
	}
	text := registration.DescribeRegistration(object, name, time.Now())
	if near := suggest.Names(name, w.all); s.missing && len(near) > 0 {
		text += fmt.Sprintf("\nDid you mean %s?", strings.Join(near, ", "))
	}
	if s.joining {
		looking, cancel := context.WithTimeout(ctx, hub.ReadBudget)
		defer cancel()
		text += "\n\n" + attribute.JoinLines(registration.DescribeWaitingRequests(looking, w.client, name, time.Now()))
	}
	return text
}

// standing is how far a cluster is on its way into the fleet.
type standing struct {
	object *clusterv1.ManagedCluster
	// text goes on after the cluster's name.
	text string
	// reached says that the wait for it is over, and hopeless that it is of no use.
	reached, hopeless bool
	// missing says that the hub has no such cluster, and joining that only its
	// agent is missing.
	missing, joining bool
}

// standingOf judges a cluster; nil is one that the hub does not have.
func standingOf(object *clusterv1.ManagedCluster, joinedOnly bool) standing {
	s := standing{object: object}
	if object == nil {
		s.text, s.missing = "is not on the hub yet", true
		return s
	}
	conditions := object.Status.Conditions
	accepted := meta.FindStatusCondition(conditions, cluster.ConditionHubAccepted)
	available := meta.FindStatusCondition(conditions, cluster.ConditionAvailable)
	switch {
	case object.DeletionTimestamp != nil:
		s.text, s.hopeless = "is being deleted", true
	case !object.Spec.AcceptsClient() && accepted != nil && accepted.Status == metav1.ConditionFalse:
		s.text, s.hopeless = "was denied: hubAcceptsClient is false", true
	case !object.Spec.AcceptsClient():
		s.text = "waits to be accepted: hubAcceptsClient is not true"
	case accepted == nil || accepted.Status != metav1.ConditionTrue:
		s.text = "is accepted, and the hub has not given it its rights yet"
		if accepted != nil && accepted.Reason != cluster.ReasonHubDenied {
			s.text += ": " + accepted.Message
		}
	case !meta.IsStatusConditionTrue(conditions, cluster.ConditionJoined):
		s.text, s.joining = "is accepted, and its agent has not joined yet", true
	case joinedOnly:
		s.text, s.reached = "has joined", true
	case available == nil:
		s.text = "has joined, and its agent has not reported on it yet"
	case available.Status != metav1.ConditionTrue:
		s.text = fmt.Sprintf("has joined, and is not available: %s (%s)", available.Message, available.Reason)
	case object.HubTaint() != "":
		s.text = "is available, and the hub has not removed its taint " + object.HubTaint() + " yet"
	default:
		s.text, s.reached = "is available", true
		if version := object.Status.Version.Kubernetes; version != "" {
			s.text += ", with Kubernetes " + version
		}
	}
	return s
}

// selected is what to list of the hub's clusters.
func (w *joining) selected(ctx context.Context) (kube.ListOptions, error) {
	switch {
	case len(w.clusters) == 1:
		return kube.ListOptions{FieldSelector: "metadata.name=" + w.clusters[0]}, nil
	case len(w.clusters) > 1:
		return kube.ListOptions{}, nil
	}
	selector := labels.Everything()
	if w.selector != nil {
		selector = w.selector
	}
	if w.set != "" {
		ofSet, err := w.membersOf(ctx, w.set)
		if err != nil {
			return kube.ListOptions{}, err
		}
		requirements, _ := ofSet.Requirements()
		selector = selector.Add(requirements...)
	}
	return kube.ListOptions{LabelSelector: selector.String()}, nil
}

// selection is it in words.
func (w *joining) selection() string {
	switch {
	case w.set != "" && w.selector != nil:
		return fmt.Sprintf("is in the set %q and has the labels %s", w.set, w.selector.String())
	case w.set != "":
		return fmt.Sprintf("is in the set %q", w.set)
	case w.selector != nil:
		return "has the labels " + w.selector.String()
	default:
		return "could be waited for"
	}
}

// membersOf selects the clusters of a set.
func (w *joining) membersOf(ctx context.Context, name string) (labels.Selector, error) {
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := w.find(ctx, set, &clusterv1beta2.ManagedClusterSetList{}, "cluster set", "", name); err != nil {
		return nil, err
	}
	return membership.Selector(set)
}
