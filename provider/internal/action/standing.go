package action

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	"github.com/muster-fleet/terraform-provider-muster/runtime/membership"
)

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
		ofSet, err := membersOf(ctx, w.client, w.set)
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
func membersOf(ctx context.Context, client *kube.Client, name string) (labels.Selector, error) {
	set := &clusterv1beta2.ManagedClusterSet{}
	err := client.Get(ctx, set, "", name)
	if kube.IsNotFound(err, name) {
		names := namesIn(ctx, client, &clusterv1beta2.ManagedClusterSetList{}, kube.ListOptions{})
		return nil, refuse(fmt.Sprintf("There is no cluster set %q", name), "The hub %s has no ManagedClusterSet of "+
			"this name. %s", client.Host(), orElse(name, "cluster set", names))
	}
	if err != nil {
		return nil, err
	}
	return membership.Selector(set)
}
