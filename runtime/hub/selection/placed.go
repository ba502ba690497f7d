package selection

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/text"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// Placed is what one placement has selected, in its decision groups, for a rollout.
type Placed struct {
	// Missing says that there is no such placement.
	Missing bool
	// Problem is why its decisions can't be used.
	Problem error
	// Groups are the clusters that get something.
	Groups []rollout.Group
	// Clusters are the selected ones: those of the groups, and those that are to
	// keep what they have.
	Clusters sets.Set[string]
	// Refused are the clusters of the decisions that get nothing.
	Refused []Refusal
	// DecisionGroups and Selected are what the placement says of itself. Of one
	// that another scheduler decides for, they are what its decisions say: nobody
	// keeps its status.
	DecisionGroups, Selected int
	// Settled says that decisions and status agree. Until they do, a cluster that is
	// in no decision may be on its way to another one.
	Settled bool
	// ClustersPerGroup is the most clusters that a decision group may have, as the
	// placement's author says it.
	ClustersPerGroup intstr.IntOrString
	// External says that another scheduler decides for the placement.
	External bool
}

// Refusal is a cluster of a decision that gets nothing, and why.
type Refusal struct {
	Cluster string
	Standing
}

// Place reads what a placement has selected. The rule says which clusters its
// decisions may name.
func Place(ctx context.Context, r client.Reader, rule Rule, key types.NamespacedName) (Placed, error) {
	var p Placed
	object := &clusterv1beta1.Placement{}
	err := r.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		p.Missing = true
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read the placement %s: %w", key, err)
	}
	p.DecisionGroups, p.Selected = len(object.Status.DecisionGroups), int(object.Status.NumberOfSelectedClusters)
	p.ClustersPerGroup = object.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup
	if problems := validation.IsValidLabelValue(key.Name); len(problems) > 0 {
		p.Problem = fmt.Errorf("the name of the placement %s can't be a label: %s; give it a shorter name", key.Name, problems[0])
		return p, nil
	}
	ofPlacement := client.MatchingLabels{cluster.PlacementLabel: key.Name}
	decisions := &clusterv1beta1.PlacementDecisionList{}
	if err := r.List(ctx, decisions, client.InNamespace(key.Namespace), ofPlacement, client.UnsafeDisableDeepCopy); err != nil {
		return p, fmt.Errorf("list the decisions of the placement %s: %w", key, err)
	}
	p.External = object.Annotations[cluster.SchedulingDisabledAnnotation] == "true"
	p.Groups, p.Problem = groupsOf(decisions.Items, p.External)
	named := clustersIn(p.Groups)
	standing := standingAnywhere
	if rule == BoundSets {
		from, err := ChoiceOf(ctx, r, object)
		if err != nil {
			return p, err
		}
		standing = from.standingOf
	}
	if err := p.restrict(ctx, r, standing); err != nil {
		return p, err
	}
	p.Settled = named == p.Selected
	if p.External {
		p.Settled, p.Selected, p.DecisionGroups = true, len(p.Clusters), len(groupIndexes(p.Groups))
	}
	return p, nil
}

// restrict removes the clusters that do not count from the groups. Unaccepted ones
// count as selected and are in no group.
func (p *Placed) restrict(
	ctx context.Context, r client.Reader, standing func(context.Context, client.Reader, string) (Standing, error),
) error {
	p.Clusters = sets.Set[string]{}
	for i := range p.Groups {
		var clusters []string
		for _, name := range p.Groups[i].Clusters {
			is, err := standing(ctx, r, name)
			if err != nil {
				return err
			}
			if is != Stranger {
				p.Clusters.Insert(name)
			}
			if is == Eligible {
				clusters = append(clusters, name)
			} else {
				p.Refused = append(p.Refused, Refusal{name, is})
			}
		}
		p.Groups[i].Clusters = clusters
	}
	return nil
}

func (c Choice) standingOf(ctx context.Context, r client.Reader, name string) (Standing, error) {
	_, is, err := c.Cluster(ctx, r, name)
	return is, err
}

// standingAnywhere judges a name where all clusters may be chosen. One that the hub
// has not accepted gets nothing all the same.
func standingAnywhere(ctx context.Context, r client.Reader, name string) (Standing, error) {
	mc, is, err := Choice{labels.Everything()}.Cluster(ctx, r, name)
	if err == nil && mc == nil && name != "" && !cluster.IsReserved(name) {
		return Eligible, nil
	}
	return is, err
}

// Explain says which clusters of the placement's decisions get nothing, and why. It
// is empty when all get what is theirs. The namespace is the placement's.
func (p Placed) Explain(namespace string) string {
	var parts []string
	for _, kind := range []struct {
		Standing
		why string
	}{
		{Stranger, "not in a cluster set that is bound to the namespace " + namespace + " and that the placement may choose from (bind it with a ManagedClusterSetBinding)"},
		{Unaccepted, "not accepted by the hub"},
	} {
		var names []string
		for _, r := range p.Refused {
			if r.Standing == kind.Standing {
				names = append(names, r.Cluster)
			}
		}
		if len(names) == 0 {
			continue
		}
		parts = append(parts, text.List(names, explained)+": "+kind.why)
	}
	if len(parts) == 0 {
		return ""
	}
	return "its decisions name clusters that get nothing: " + strings.Join(parts, "; ")
}

// explained is how many clusters of a kind an explanation names.
const explained = 5

// clustersIn counts the clusters of groups.
func clustersIn(groups []rollout.Group) int {
	names := sets.Set[string]{}
	for _, g := range groups {
		names.Insert(g.Clusters...)
	}
	return len(names)
}

func groupIndexes(groups []rollout.Group) sets.Set[int32] {
	out := sets.Set[int32]{}
	for _, g := range groups {
		out.Insert(g.Index)
	}
	return out
}

// groupsOf sorts decisions by their groups. Those of another scheduler may name
// no group, and are in the first one then.
func groupsOf(decisions []clusterv1beta1.PlacementDecision, external bool) ([]rollout.Group, error) {
	var groups []rollout.Group
	for i := range decisions {
		d := &decisions[i]
		label, labelled := d.Labels[cluster.DecisionGroupIndexLabel]
		if external && !labelled {
			label = "0"
		}
		index, err := strconv.ParseInt(label, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the label %s of the PlacementDecision %s/%s is %q, which is no number: leave it to the placement to write its decisions",
				cluster.DecisionGroupIndexLabel, d.Namespace, d.Name, d.Labels[cluster.DecisionGroupIndexLabel])
		}
		g := rollout.Group{Index: int32(index), Name: d.Labels[cluster.DecisionGroupNameLabel]}
		for _, x := range d.Status.Decisions {
			g.Clusters = append(g.Clusters, x.ClusterName)
		}
		groups = append(groups, g)
	}
	return groups, nil
}
