package action

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework-validators/actionvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// waitJoined is muster_wait_joined.
func waitJoined() declaration {
	names, set, selector := path.MatchRoot("managed_clusters"), path.MatchRoot("cluster_set"), path.MatchRoot(
		"label_selector")
	return declaration{
		name: "wait_joined",
		description: "Waits until clusters have joined the hub and are available, and tells meanwhile how far each " +
			"of them is: whether it is accepted, which certificate request waits for approval, and what the hub says " +
			"about it. " +
			"It changes nothing. It ends early when a cluster is denied or deleted.\n\n" +
			"What needs running clusters in the same configuration is better served by the resource " +
			"`muster_cluster_registration`, on which other resources can depend.",
		attributes: map[string]schema.Attribute{
			"managed_clusters": someClusters("Names of the clusters. They need not exist yet. Give either these, or " +
				"`cluster_set`, `label_selector` or both."),
			"cluster_set": optional("Name of a cluster set: its clusters are waited for, also those that enter "+
				"it meanwhile.", attribute.ValidName("cluster set name")),
			"label_selector": optional("Selects clusters by their labels, as kubectl does: `env=prod,region in "+
				"(eu,us)`.", attribute.ValidSelector()),
			"minimum": schema.Int64Attribute{
				MarkdownDescription: "How many of the clusters suffice. If omitted, all of them have to be there, " +
					"and one at least.",
				Optional:   true,
				Validators: []validator.Int64{int64validator.AtLeast(1)},
			},
			"until": optional("`available` waits until the hub hears from the agents and the clusters' API servers "+
				"are well (`"+cluster.ConditionAvailable+"`), "+
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
		all := append([]string{}, clusterNames(ctx, w.client)...)
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
			"clusteradm accept, or take it out of what is waited for.", lines(reported...))
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
		late = append(late, fmt.Sprintf("(%s, of %d that are waited for)", plural(len(w.standings), "cluster"),
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
	text := registration.DescribeRegistration(object, name, w.Clock.Now())
	if near := suggest.Names(name, w.all); s.missing && len(near) > 0 {
		text += fmt.Sprintf("\nDid you mean %s?", strings.Join(near, ", "))
	}
	if s.joining {
		looking, cancel := context.WithTimeout(ctx, hub.ReadBudget)
		defer cancel()
		text += "\n\n" + lines(registration.DescribeWaitingRequests(looking, w.client, name, w.Clock.Now())...)
	}
	return text
}
