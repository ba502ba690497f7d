package operation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// WaitOptions say which clusters to wait for, and until when.
type WaitOptions struct {
	// Clusters are waited for by name. Without any, those are that Set and Selector
	// select.
	Clusters []string
	// Set is the name of a cluster set.
	Set string
	// Selector selects by labels; nil selects all.
	Selector labels.Selector
	// Minimum is how many clusters suffice; 0 stands for all of them, and one at
	// least.
	Minimum int
	// JoinedOnly does not wait until they are available.
	JoinedOnly bool
	// Timeout is how long to wait.
	Timeout time.Duration
}

// WaitJoined waits until clusters have joined and are available. It ends early
// when that can't happen any more: a cluster is denied or deleted.
func WaitJoined(ctx context.Context, client *kube.Client, o WaitOptions, l Listener) error {
	w := &joining{WaitOptions: o, client: client, teller: newTeller(l), standings: map[string]standing{}}
	options, err := w.selected(ctx)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	err = w.looking(waiting, w.look, func(ctx context.Context) error {
		return client.WaitObjects(ctx, &clusterv1.ManagedClusterList{}, &clusterv1.ManagedCluster{}, options, w.judge)
	})
	if hub.IsTimeout(err) && ctx.Err() == nil {
		return w.tooLate(ctx)
	}
	return interrupted(ctx, err, "The wait was ended. It changes nothing on the hub: wait again at any time.")
}

// joining is a wait for clusters.
type joining struct {
	WaitOptions
	*teller
	client *kube.Client

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
	names := slices.Clone(w.Clusters)
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

// judge tells what is new, and reports whether the wait is over.
func (w *joining) judge(objects map[string]kube.Object) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := w.named(objects)
	before := w.standings
	w.standings, w.reached, w.judged = make(map[string]standing, len(names)), 0, true
	var hopeless []string
	for _, name := range names {
		object, _ := objects[name].(*clusterv1.ManagedCluster)
		s := standingOf(object, w.JoinedOnly)
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
	if len(hopeless) > 0 && w.Minimum == 0 {
		return false, w.hopeless(hopeless)
	}
	if w.Minimum > 0 {
		return w.reached >= w.Minimum, nil
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
	if w.JoinedOnly {
		return "have joined"
	}
	return "are available"
}

// look tells which clusters' certificate requests wait for a decision, where the
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
	var told []string
	for _, name := range names[:min(len(names), 5)] {
		told = append(told, fmt.Sprintf("  %s %s", name, w.standings[name].text))
	}
	return refuse(fmt.Sprintf("%s can't join", some(names, 3)),
		"Waiting on would be of no use:\n%s\n\nAccept a denied cluster again with muster_cluster_acceptance or clusteradm accept, or take it out of what is waited for.", lines(told...))
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
		return refuse("No cluster was selected", "Within %s the hub %s had no managed cluster that %s. Check the selection: kubectl get managedclusters --show-labels",
			w.Timeout, w.client.Host(), w.selection())
	}
	if w.Minimum > len(w.standings) {
		late = append(late, fmt.Sprintf("(%s, of %d that are waited for)", plural(len(w.standings), "cluster"), w.Minimum))
	}
	var told []string
	for _, name := range late[:min(len(late), described)] {
		s, ok := w.standings[name]
		if !ok {
			continue
		}
		told = append(told, fmt.Sprintf("%s: %s", name, w.describe(ctx, name, s)))
	}
	if more := len(late) - described; more > 0 {
		told = append(told, fmt.Sprintf("And %d more: %s.", more, some(late[described:], 10)))
	}
	return refuse(fmt.Sprintf("%d of %d clusters %s within %s, not: %s", w.reached, len(w.standings), w.goal(), w.Timeout, some(late, 5)),
		"%s", strings.Join(told, "\n\n"))
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
