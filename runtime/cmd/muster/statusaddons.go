package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/explain"
)

// addOnCounts counts add-ons in clusters by how they are. Available, unhealthy and
// unreachable exclude each other; an add-on that has not been heard of is none of them.
type addOnCounts struct {
	Installed   int `json:"installed"`
	Available   int `json:"available"`
	Unhealthy   int `json:"unhealthy"`
	Unreachable int `json:"unreachable"`
	Progressing int `json:"progressing"`
}

// String is the counts in words, without those that are zero.
func (n addOnCounts) String() string {
	var words []string
	for _, x := range []struct {
		n    int
		word string
	}{{n.Available, "available"}, {n.Unhealthy, "unhealthy"}, {n.Unreachable, "unreachable"}, {n.Progressing,
		"progressing"}} {
		if x.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", x.n, x.word))
		}
	}
	if len(words) == 0 && n.Installed > 0 {
		return fmt.Sprintf("%d installed", n.Installed)
	}
	return strings.Join(words, ", ")
}

func (n *addOnCounts) add(a *addonv1alpha1.ManagedClusterAddOn) {
	n.Installed++
	switch available := status(a.Status.Conditions, addon.ConditionAvailable); available {
	case string(metav1.ConditionTrue):
		n.Available++
	case string(metav1.ConditionFalse):
		n.Unhealthy++
	case string(metav1.ConditionUnknown):
		n.Unreachable++
	}
	if progresses(a) {
		n.Progressing++
	}
}

// progresses reports whether an add-on's manifests or configuration are on their way.
func progresses(a *addonv1alpha1.ManagedClusterAddOn) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionProgressing)
	if c == nil { // nobody reports it, as of add-ons with a manager of their own
		return status(a.Status.Conditions, addon.ConditionAvailable) == ""
	}
	switch c.Reason {
	case addon.ReasonCompleted, addon.ReasonFailed, addon.ReasonConfigurationUnsupported:
		return status(a.Status.Conditions, addon.ConditionConfigured) == string(metav1.ConditionFalse)
	}
	return true
}

// addOnStatus is an add-on in all clusters.
type addOnStatus struct {
	Name string `json:"name"`
	addOnCounts
	// Placements are what the add-on's placements say about its rollout.
	Placements []rolloutStatus `json:"placements,omitempty"`
}

type rolloutStatus struct {
	Placement string `json:"placement"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
}

// attention is a problem of an add-on, and the clusters that have it.
type attention struct {
	AddOn     string   `json:"addOn"`
	Condition string   `json:"condition"`
	Status    string   `json:"status"`
	Reason    string   `json:"reason"`
	Message   string   `json:"message"`
	Clusters  []string `json:"clusters"`
}

// readAddOns reads the add-ons of all clusters, and returns their counts by cluster.
func (s *fleetStatus) readAddOns(ctx context.Context, c client.Reader) (map[string]addOnCounts, error) {
	perCluster, all, groups := map[string]addOnCounts{}, map[string]*addOnStatus{}, map[string]*attention{}
	named := func(name string) *addOnStatus {
		if all[name] == nil {
			all[name] = &addOnStatus{Name: name}
		}
		return all[name]
	}
	definitions, inClusters := &addonv1alpha1.ClusterManagementAddOnList{}, &addonv1alpha1.ManagedClusterAddOnList{}
	if err := s.listIfAny(ctx, c, definitions, "add-ons", func() {
		for i := range definitions.Items {
			named(definitions.Items[i].Name).Placements = rollouts(&definitions.Items[i])
		}
	}); err != nil {
		return nil, err
	}
	if err := s.listIfAny(ctx, c, inClusters, "add-ons of the clusters", func() {
		for i := range inClusters.Items {
			a := &inClusters.Items[i]
			n := perCluster[a.Namespace]
			n.add(a)
			perCluster[a.Namespace] = n
			named(a.Name).add(a)
		}
		groupProblems(groups, inClusters.Items)
	}); err != nil {
		return nil, err
	}
	for _, a := range all {
		s.AddOns = append(s.AddOns, *a)
	}
	byKey(s.AddOns, func(a addOnStatus) string { return a.Name })
	s.Attention = needAttention(groups)
	return perCluster, nil
}

func rollouts(a *addonv1alpha1.ClusterManagementAddOn) (out []rolloutStatus) {
	for _, p := range a.Status.InstallProgressions {
		r := rolloutStatus{Placement: p.Namespace + "/" + p.Name}
		if c := meta.FindStatusCondition(p.Conditions, addon.ConditionProgressing); c != nil {
			r.Reason, r.Message = c.Reason, c.Message
		}
		out = append(out, r)
	}
	return out
}

// groupProblems adds the problems of add-ons to those that are the same.
func groupProblems(groups map[string]*attention, inClusters []addonv1alpha1.ManagedClusterAddOn) {
	for i := range inClusters {
		a := &inClusters[i]
		for _, x := range problems(a) {
			// Messages that differ in the cluster's name are the same problem; the first one stands for all.
			key := strings.Join([]string{x.AddOn, x.Condition, x.Status, x.Reason, strings.ReplaceAll(x.Message,
				a.Namespace, "\x00")}, "\x00")
			if groups[key] == nil {
				groups[key] = &x
			}
			groups[key].Clusters = append(groups[key].Clusters, a.Namespace)
		}
	}
}

// needAttention are the problems of add-ons, those of most clusters first.
func needAttention(groups map[string]*attention) []attention {
	var out []attention
	for _, x := range groups {
		slices.Sort(x.Clusters)
		out = append(out, *x)
	}
	byKey(out, func(x attention) string {
		return x.AddOn + "\x00" + x.Condition + "\x00" + x.Clusters[0] + "\x00" + x.Message
	})
	slices.SortStableFunc(out, func(a, b attention) int { return len(b.Clusters) - len(a.Clusters) })
	return out
}

// failures are the conditions that report a problem when they are False.
var failures = []string{
	registration.ConditionRegistrationApplied, addon.ConditionManifestApplied, addon.ConditionHostingManifestApplied,
	"HostingClusterValidity", cluster.ConditionCertificateRotated, registration.ConditionTokenRefreshed,
	registration.ConditionTokenInfrastructureReady, "HookManifestCompleted",
}

// problems are what is wrong with an add-on in a cluster.
func problems(a *addonv1alpha1.ManagedClusterAddOn) (out []attention) {
	report := func(c *metav1.Condition) {
		out = append(out, attention{AddOn: a.Name, Condition: c.Type, Status: string(c.Status), Reason: c.Reason,
			Message: c.Message})
	}
	if !a.DeletionTimestamp.IsZero() {
		waits := "finalizers " + strings.Join(a.Finalizers, ", ")
		out = append(out, attention{AddOn: a.Name, Condition: "Deleting", Status: string(metav1.ConditionTrue),
			Reason: "WaitsForFinalizers", Message: waits})
	}
	for i := range a.Status.Conditions {
		c := &a.Status.Conditions[i]
		var bad bool
		switch c.Type {
		case addon.ConditionAvailable:
			bad = c.Status != metav1.ConditionTrue
		case addon.ConditionProgressing:
			bad = c.Reason == addon.ReasonFailed || c.Reason == addon.ReasonConfigurationUnsupported
		case "Degraded": // upstream's hub never sets it; managers of add-ons may
			bad = c.Status == metav1.ConditionTrue
		default:
			bad = c.Status == metav1.ConditionFalse && slices.Contains(failures, c.Type)
		}
		if bad {
			report(c)
		}
	}
	for _, r := range a.Status.ConfigReferences {
		if d := r.DesiredConfig; d != nil && d.SpecHash == "" {
			what := strings.TrimPrefix(d.Namespace+"/"+d.Name, "/")
			out = append(out, attention{AddOn: a.Name, Condition: addon.ConditionConfigured,
				Status: string(metav1.ConditionTrue), Reason: "NotFound",
				Message: fmt.Sprintf("the %s.%s %s does not exist, or the add-on's manager has not read it: "+
					"nothing is deployed before that", r.Resource, r.Group, what)})
		}
	}
	return out
}

// level is how an add-on is over all clusters.
func (a addOnStatus) level() explain.Level {
	switch {
	case a.Unhealthy+a.Unreachable > 0:
		return explain.Problem
	case a.Progressing > 0 || a.Available < a.Installed:
		return explain.Waiting
	}
	return explain.OK
}

// placed is the rollout of an add-on over the clusters of a placement.
type placed struct {
	addOn string
	rolloutStatus
}

func (p placed) level() explain.Level {
	if p.Reason == addon.ReasonCompleted {
		return explain.OK
	}
	return explain.Waiting
}

// printAddOns prints the add-ons and their problems, unless there are none.
func (s *fleetStatus) printAddOns(t tables, most int) {
	if len(s.AddOns) == 0 {
		return
	}
	t.next("ADDON", "CLUSTERS", "AVAILABLE", "UNHEALTHY", "UNREACHABLE", "PROGRESSING")
	var rollouts []placed
	worst(t, s.AddOns, most, "add-ons", addOnStatus.level, func(a addOnStatus) {
		t.row(a.Name, a.Installed, a.Available, a.Unhealthy, a.Unreachable, a.Progressing)
	})
	for _, a := range s.AddOns {
		for _, r := range a.Placements {
			rollouts = append(rollouts, placed{a.Name, r})
		}
	}
	if len(rollouts) > 0 {
		t.next("ADDON", "PLACEMENT", "ROLLOUT", "MESSAGE")
	}
	worst(t, rollouts, most, "rollouts of add-ons", placed.level, func(r placed) {
		t.row(r.addOn, r.Placement, r.Reason, shortened(r.Message))
	})
	if len(s.Attention) == 0 {
		return
	}
	t.next("NEEDS ATTENTION", "CONDITION", "REASON", "CLUSTERS", "MESSAGE")
	for _, x := range s.Attention[:min(len(s.Attention), most)] {
		t.row(x.AddOn, x.Condition+"="+x.Status, x.Reason, named(x.Clusters), shortened(x.Message))
	}
	if more := len(s.Attention) - most; more > 0 {
		t.row(fmt.Sprintf("and %d more problems: --all shows them", more))
	}
}
