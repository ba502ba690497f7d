package explain

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// AddOnFacts are what a hub knows of an add-on in a cluster.
type AddOnFacts struct {
	AddOn *addonv1alpha1.ManagedClusterAddOn
	// Definition is the ClusterManagementAddOn; nil when it may not be read.
	// NoDefinition says that there is none.
	Definition   *addonv1alpha1.ClusterManagementAddOn
	NoDefinition bool
	// Cluster is the managed cluster; nil when it may not be read.
	Cluster *clusterv1.ManagedCluster
	// Works are those of the add-on in the cluster's namespace.
	Works []workv1.ManifestWork
	Now   time.Time
}

// AddOnState says in a sentence how an add-on is in a cluster.
func AddOnState(a *addonv1alpha1.ManagedClusterAddOn) (Level, string) {
	what := fmt.Sprintf("The add-on %s in %s", a.Name, a.Namespace)
	progressing := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionProgressing)
	stuck := progressing != nil &&
		(progressing.Reason == addon.ReasonFailed || progressing.Reason == addon.ReasonConfigurationUnsupported)
	available := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionAvailable)
	switch {
	case !a.DeletionTimestamp.IsZero():
		return Waiting, what + " is being deleted."
	case available != nil && available.Status == metav1.ConditionFalse:
		return Problem, what + " is unhealthy."
	case available != nil && available.Status == metav1.ConditionUnknown:
		if available.Reason == cluster.ReasonLeaseUpdateStopped {
			return Problem, what + " is unreachable: the hub does not hear from the cluster's agent."
		}
		return Problem, what + " has given no sign of life."
	case meta.IsStatusConditionFalse(a.Status.Conditions, addon.ConditionManifestApplied), stuck:
		return Problem, what + " could not be deployed as it should."
	case available == nil:
		return Waiting, what + " is installed, and has not been heard of yet."
	case progressing != nil && progressing.Status == metav1.ConditionTrue:
		return Waiting, what + " is available, and a change of it is on its way."
	}
	return OK, what + " is available."
}

// AddOn explains an add-on in a cluster.
func AddOn(f AddOnFacts) Explanation {
	a := f.AddOn
	level, state := AddOnState(a)
	e := Explanation{Kind: "ManagedClusterAddOn", Namespace: a.Namespace, Name: a.Name, Level: level, State: state}
	if f.Cluster != nil && stageOf(f.Cluster) != available {
		clusterLevel, how := ClusterState(f.Cluster, f.Now)
		e.add(Cause{
			Level: clusterLevel, Summary: "Nothing of the add-on changes before the cluster's agent is there.",
			Evidence: []string{how}, Next: []Step{{Do: "see why", Command: "muster explain cluster " + a.Namespace}},
		})
	}
	if !a.DeletionTimestamp.IsZero() {
		e.add(Cause{
			Level: Waiting, Summary: "The deletion waits for its finalizers: " + some(a.Finalizers) + ".",
			Evidence: append([]string{"asked for at " + ago(a.DeletionTimestamp.Time, f.Now)},
				f.evidence(addon.ConditionHookManifestCompleted)...),
			Next: f.works(),
		})
		return e
	}
	if f.NoDefinition {
		e.add(Cause{
			Level: Problem,
			Summary: fmt.Sprintf("There is no ClusterManagementAddOn %s, so nobody knows what the add-on consists "+
				"of.", a.Name),
			Next: []Step{{Do: "install the add-on's manager, or define it (in Terraform: a muster_addon)",
				Command: "kubectl get clustermanagementaddons"}},
		})
	}
	e.add(f.configurations()...)
	e.add(f.conditions()...)
	if level, _ := AddOnState(a); level == Waiting && len(e.Causes) == 0 {
		e.add(Cause{Level: Waiting,
			Summary:  "Its agent has not given a sign of life. It needs some seconds after its manifests are applied.",
			Evidence: f.evidence(addon.ConditionProgressing), Next: append(f.works(), f.pods()...)})
	}
	return e
}

// evidence is a condition as evidence; none if there is none.
func (f *AddOnFacts) evidence(kind string) []string {
	if c := meta.FindStatusCondition(f.AddOn.Status.Conditions, kind); c != nil {
		return []string{says(c, f.Now)}
	}
	return nil
}

// works are the steps that look at the add-on's works.
func (f *AddOnFacts) works() []Step {
	if len(f.Works) == 0 {
		return []Step{{Do: "see its works", Command: fmt.Sprintf("kubectl -n %s get manifestworks -l %s=%s",
			f.AddOn.Namespace, cluster.AddOnNameLabel, f.AddOn.Name)}}
	}
	worst := &f.Works[0]
	for i := range f.Works {
		one, _ := WorkState(&f.Works[i])
		if other, _ := WorkState(worst); one.Rank() > other.Rank() {
			worst = &f.Works[i]
		}
	}
	return []Step{{Do: "see how its manifests are",
		Command: fmt.Sprintf("muster explain work %s/%s", worst.Namespace, worst.Name)}}
}

// pods are the steps that look at the add-on's agent.
func (f *AddOnFacts) pods() []Step {
	namespace := f.AddOn.Status.Namespace
	if namespace == "" {
		namespace = addon.DefaultInstallNamespace
	}
	return []Step{{Do: "see whether the add-on's agent runs",
		Command: "kubectl -n " + namespace + " get pods", In: f.AddOn.Namespace}}
}

// configurations are those that are named and do not exist.
func (f *AddOnFacts) configurations() []Cause {
	var out []Cause
	for _, r := range f.AddOn.Status.ConfigReferences {
		d := r.DesiredConfig
		if d == nil || d.SpecHash != "" {
			continue
		}
		name := strings.TrimPrefix(d.Namespace+"/"+d.Name, "/")
		kind, terraform := "configuration "+r.Resource+"."+r.Group, ""
		switch r.Resource {
		case addon.TemplateResource:
			kind, terraform = "AddOnTemplate", " (in Terraform: a muster_addon_template)"
		case addon.DeploymentConfigResource:
			kind, terraform = "AddOnDeploymentConfig", " (in Terraform: a muster_addon_deployment_config)"
		}
		namespace := ""
		if d.Namespace != "" {
			namespace = " -n " + d.Namespace
		}
		out = append(out, Cause{
			Level: Problem,
			Summary: fmt.Sprintf("The %s %s does not exist, or the add-on's manager has not read it. Nothing is "+
				"deployed before that.", kind, name),
			Next: []Step{{Do: "create it" + terraform + ", or name another one where the add-on is configured",
				Command: fmt.Sprintf("kubectl get %s.%s%s", r.Resource, r.Group, namespace)}},
		})
	}
	return out
}

// conditions are what the add-on's conditions say is wrong.
func (f *AddOnFacts) conditions() []Cause {
	a := f.AddOn
	var out []Cause
	agent := []Step{{Do: "read what the cluster's agent says", Command: agentLog, In: a.Namespace}}
	hub := []Step{{Do: "correct what the message names, on the hub"}}
	for _, x := range []struct {
		kind    string
		status  metav1.ConditionStatus
		level   Level
		summary string
		next    []Step
	}{
		{registration.ConditionRegistrationApplied, metav1.ConditionFalse, Problem,
			"The hub could not give the add-on's agent its rights, so it can't register.", hub},
		{registration.ConditionTokenInfrastructureReady, metav1.ConditionFalse, Problem,
			"The hub could not make the service account of the add-on's agent.", hub},
		{cluster.ConditionCertificateRotated, metav1.ConditionFalse, Problem,
			"The add-on's agent got no client certificate.", agent},
		{registration.ConditionTokenRefreshed, metav1.ConditionFalse, Problem,
			"The add-on's agent got no token for the hub.", agent},
		{addon.ConditionHostingClusterValidity, metav1.ConditionFalse, Problem,
			"The cluster that shall host the add-on's agent can't.", hub},
		{addon.ConditionManifestApplied, metav1.ConditionFalse, Problem,
			"The add-on's manifests could not be made or applied.", f.works()},
		{addon.ConditionHostingManifestApplied, metav1.ConditionFalse, Problem,
			"The add-on's manifests could not be applied in the cluster that hosts it.", f.works()},
		{addon.ConditionAvailable, metav1.ConditionFalse, Problem,
			"The add-on's agent says nothing any more, or its workloads are not as they should be.", append(f.works(),
				f.pods()...)},
		{"Degraded", metav1.ConditionTrue, Problem, "The add-on's manager says that it is degraded.", f.pods()},
	} {
		if c := meta.FindStatusCondition(a.Status.Conditions, x.kind); c != nil && c.Status == x.status {
			if strings.HasPrefix(c.Message, addon.MessageRenderFailed) {
				x.next = hub // the works there are do not show it
			}
			out = append(out, Cause{Level: x.level, Summary: x.summary, Evidence: []string{says(c, f.Now)},
				Next: x.next})
		}
	}
	if c := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionAvailable); c != nil &&
		c.Status == metav1.ConditionUnknown {
		cause := Cause{Level: Problem, Evidence: []string{says(c, f.Now)},
			Summary: "The hub does not hear from the cluster's agent, which reports on its add-ons.",
			Next:    []Step{{Do: "see why", Command: "muster explain cluster " + a.Namespace}}}
		if c.Reason != cluster.ReasonLeaseUpdateStopped {
			cause.Summary = "The add-on's agent has given no sign of life, such as a lease: it does not run, or is " +
				"not deployed."
			cause.Next = append(f.works(), f.pods()...)
		}
		out = append(out, cause)
	}
	c := meta.FindStatusCondition(a.Status.Conditions, addon.ConditionProgressing)
	switch {
	case c == nil:
	case c.Reason == addon.ReasonFailed:
		out = append(out, Cause{Level: Problem,
			Summary:  "The present configuration could not be brought into the cluster.",
			Evidence: []string{says(c, f.Now)}, Next: f.works()})
	case c.Reason == addon.ReasonConfigurationUnsupported:
		out = append(out, Cause{Level: Problem,
			Summary:  "The add-on is configured with a kind that it does not support.",
			Evidence: []string{says(c, f.Now)},
			Next: []Step{{Do: "take it out of the configs of the add-on, or support it in its definition",
				Command: fmt.Sprintf("kubectl get clustermanagementaddon %s -o yaml", a.Name)}}})
	case c.Status == metav1.ConditionTrue:
		out = append(out, Cause{Level: Waiting, Summary: "Manifests or configuration of the add-on are on their way.",
			Evidence: append([]string{says(c, f.Now)}, f.installations()...), Next: f.works()})
	}
	return out
}

// installations are what the add-on's placements say about its rollout.
func (f *AddOnFacts) installations() []string {
	if f.Definition == nil {
		return nil
	}
	var out []string
	for _, p := range f.Definition.Status.InstallProgressions {
		if c := meta.FindStatusCondition(p.Conditions, addon.ConditionProgressing); c != nil {
			out = append(out, fmt.Sprintf("over the placement %s/%s: %s", p.Namespace, p.Name, oneLine(c.Message)))
		}
	}
	return firstOf(out)
}
