package explain

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// WorkFacts are what a hub knows of a work.
type WorkFacts struct {
	// Work is the ManifestWork. Its manifests may be left out.
	Work *workv1.ManifestWork
	// Cluster is the one that it is for; nil when it may not be read. NoCluster says
	// that there is none.
	Cluster   *clusterv1.ManagedCluster
	NoCluster bool
	Now       time.Time
}

// Work explains a ManifestWork.
func Work(f WorkFacts) Explanation {
	w := f.Work
	level, state := WorkState(w)
	e := Explanation{Kind: "ManifestWork", Namespace: w.Namespace, Name: w.Name, Level: level, State: state}
	agent := f.agent()
	if len(agent) > 0 && w.DeletionTimestamp.IsZero() && len(w.Status.Conditions) > 0 {
		e.State = strings.TrimSuffix(state, ".") + ", by its agent's last report."
	}
	e.add(agent...)
	if !w.DeletionTimestamp.IsZero() {
		e.add(f.deletion())
		return e
	}
	if c := current(w, work.ConditionApplied); c == nil && len(e.Causes) == 0 {
		e.add(Cause{
			Level:   Waiting,
			Summary: "The agent has not reported on the present manifests. It does so within seconds.",
			Next:    lookAtAgent(w.Namespace),
		})
	}
	e.add(f.notApplied()...)
	e.add(f.manifests()...)
	e.add(f.summary()...)
	return e
}

// current is a condition of a work that is about its present manifests; nil when there
// is none.
func current(w *workv1.ManifestWork, kind string) *metav1.Condition {
	c := meta.FindStatusCondition(w.Status.Conditions, kind)
	if c == nil || c.ObservedGeneration != 0 && c.ObservedGeneration < w.Generation {
		return nil
	}
	return c
}

// WorkState says in a sentence how a work is. It needs nothing but the work's status.
func WorkState(w *workv1.ManifestWork) (Level, string) {
	is := func(kind string, status metav1.ConditionStatus) bool {
		c := current(w, kind)
		return c != nil && c.Status == status
	}
	what := fmt.Sprintf("The work %s in %s", w.Name, w.Namespace)
	switch {
	case !w.DeletionTimestamp.IsZero():
		return Waiting, what + " is being deleted."
	case is(work.ConditionApplied, metav1.ConditionFalse):
		return Problem, what + " is not applied."
	case is(work.ConditionComplete, metav1.ConditionTrue):
		return OK, what + " is complete: the agent applies it no more."
	case current(w, work.ConditionApplied) == nil:
		return Waiting, what + " is not applied yet."
	case is(work.ConditionDegraded, metav1.ConditionTrue):
		return Problem, what + " is applied, and does not come up."
	case is(work.ConditionAvailable, metav1.ConditionFalse):
		return Problem, what + " is applied, and objects of it are missing."
	case is(work.ConditionProgressing, metav1.ConditionTrue):
		return Waiting, what + " is applied, and still coming up."
	case !is(work.ConditionAvailable, metav1.ConditionTrue):
		return Waiting, what + " is applied, and whether its objects are there is not known."
	}
	return OK, what + " is applied and available."
}

// agent is what keeps the agent from carrying the work out at all.
func (f *WorkFacts) agent() []Cause {
	name := f.Work.Namespace
	if f.NoCluster {
		return []Cause{{
			Level:   Problem,
			Summary: fmt.Sprintf("There is no managed cluster %s, so no agent carries the work out.", name),
			Next: []Step{{Do: "see which clusters there are: a work belongs into the namespace of one",
				Command: "kubectl get managedclusters"}},
		}}
	}
	if f.Cluster == nil || stageOf(f.Cluster) == available {
		return nil
	}
	level, state := ClusterState(f.Cluster, f.Now)
	if level == OK {
		return nil
	}
	summary := "Nothing of the work changes in the cluster before its agent is back. What the work's status says " +
		"is from before."
	if stageOf(f.Cluster) < reporting {
		summary = "The cluster's agent can't read the work."
	}
	return []Cause{{
		Level: level, Summary: summary, Evidence: []string{state},
		Next: []Step{{Do: "see why", Command: "muster explain cluster " + name}},
	}}
}

// deletion is what a work that is being deleted waits for.
func (f *WorkFacts) deletion() Cause {
	w := f.Work
	c := Cause{
		Level:   Waiting,
		Summary: "Its agent deletes what the work has made, and then takes its finalizer off the work.",
		Evidence: []string{"asked for at " + ago(w.DeletionTimestamp.Time, f.Now), "its finalizers are " +
			some(w.Finalizers)},
	}
	if d := meta.FindStatusCondition(w.Status.Conditions, work.ConditionDeleting); d != nil {
		c.Evidence = append(c.Evidence, says(d, f.Now))
		if strings.Contains(d.Message, "finalizer") {
			c.Next = append(c.Next, Step{Do: "the objects in the message are held by controllers in the cluster: " +
				"repair these; " +
				"as a last resort take the finalizers off the objects there"})
		}
	}
	if f.NoCluster || f.Cluster != nil && stageOf(f.Cluster) != available {
		c.Level = Problem
		c.Next = append(c.Next, Step{
			Do:      "if the cluster is gone for good, take it out of the fleet; what the work has made stays in it",
			Command: "muster detach " + w.Namespace + " --force"})
	} else {
		c.Next = append(c.Next, lookAtAgent(w.Namespace)...)
	}
	return c
}

// object names the object of a manifest.
func object(m workv1.ManifestResourceMeta) string {
	kind := m.Kind
	if kind == "" {
		kind = m.Resource
	}
	if kind == "" && m.Name == "" {
		return fmt.Sprintf("manifest %d", m.Ordinal)
	}
	return strings.TrimSpace(kind + " " + strings.TrimPrefix(m.Namespace+"/"+m.Name, "/"))
}

// notApplied are the manifests that the agent could not apply.
func (f *WorkFacts) notApplied() []Cause {
	w := f.Work
	var out []Cause
	for i := range w.Status.ResourceStatus.Manifests {
		m := &w.Status.ResourceStatus.Manifests[i]
		applied := meta.FindStatusCondition(m.Conditions, work.ConditionApplied)
		if applied == nil || applied.Status != metav1.ConditionFalse ||
			applied.ObservedGeneration != 0 && applied.ObservedGeneration < w.Generation {
			continue
		}
		if len(out) == maxListed {
			out = append(out, Cause{Level: Problem, Summary: "More manifests could not be applied.",
				Next: []Step{{Do: "see all",
					Command: fmt.Sprintf("kubectl -n %s describe manifestwork %s", w.Namespace, w.Name)}}})
			break
		}
		message := strings.TrimPrefix(oneLine(applied.Message), "Failed to apply manifest: ")
		out = append(out, Cause{
			Level: Problem, Summary: fmt.Sprintf("The %s could not be applied: %s", object(m.ResourceMeta), message),
			Evidence: []string{"since " + ago(applied.LastTransitionTime.Time, f.Now)},
			Next:     f.remedy(m.ResourceMeta, applied),
		})
	}
	if n := len(out); n > 0 {
		out[n-1].Next = append(out[n-1].Next, f.again()...)
	}
	if applied := current(w, work.ConditionApplied); len(out) == 0 && applied != nil &&
		applied.Status == metav1.ConditionFalse {
		out = append(out, Cause{Level: Problem, Summary: oneLine(applied.Message) + ".",
			Evidence: []string{says(applied, f.Now)},
			Next:     []Step{f.owner()}})
	}
	return out
}

// remedy is what helps against an error of the cluster's API server.
func (f *WorkFacts) remedy(m workv1.ManifestResourceMeta, applied *metav1.Condition) []Step {
	message := strings.ToLower(applied.Message)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(message, part) {
				return true
			}
		}
		return false
	}
	in := f.Work.Namespace
	switch {
	case applied.Reason == work.ReasonIgnoreFieldError:
		return []Step{{Do: "correct the paths of the fields to ignore"}, f.owner()}
	case has("immutable", "forbidden: updates", "is invalid", "invalid value", "unknown field", "required value"):
		return []Step{{Do: "correct the manifest"}, f.owner()}
	case has("forbidden", "not allowed to", "no permission", "may not"):
		e := f.Work.Spec.Executor
		if e == nil || e.Subject.ServiceAccount == nil {
			return []Step{{Do: "give the agent the right: a ClusterRole in the cluster with the label " +
				work.AggregateToWorkLabel + "=true"}}
		}
		sa, namespace := e.Subject.ServiceAccount, ""
		if m.Namespace != "" {
			namespace = " -n " + m.Namespace
		}
		return []Step{
			{Do: fmt.Sprintf("give the work's executor the right, by a RoleBinding of the service account %s/%s",
				sa.Namespace, sa.Name)},
			{Do: "see what the executor may do", In: f.Work.Namespace,
				Command: fmt.Sprintf("kubectl auth can-i --list --as %s%s", sa.UserName(), namespace)},
		}
	case has("conflict"):
		return []Step{{Do: "somebody else owns the fields that the message names: leave them out of the manifest, " +
			"ignore them " +
			"(ignore_fields), or take them over (force = true of server_side_apply)"}, f.owner()}
	case has("resource type", "no matches for kind"):
		return []Step{{Do: "install what defines the kind " + m.Kind + " in the cluster first, or correct " +
			"apiVersion and kind"}, f.owner()}
	case has("namespaces") && has("not found"):
		return []Step{{Do: "make the namespace first: as a manifest of this work, or of another one",
			Command: "kubectl create namespace " + m.Namespace, In: in}, f.owner()}
	}
	return []Step{{Do: "correct the manifest, or what the message names in the cluster"}, f.owner()}
}

// again is the step after a cause in the cluster is repaired.
func (f *WorkFacts) again() []Step {
	return []Step{{Do: "when only the cluster was at fault: the agent tries again by itself, or at once with",
		Command: fmt.Sprintf("muster replay %s %s", f.Work.Namespace, f.Work.Name)}}
}

// owner is where the work's manifests come from, and are to be changed.
func (f *WorkFacts) owner() Step {
	w := f.Work
	if label := w.Labels[work.ReplicaSetLabel]; label != "" {
		set := strings.Replace(label, ".", "/", 1)
		return Step{Do: "the manifests are those of the ManifestWorkReplicaSet " + set + ": change them there",
			Command: "muster explain rollout " + set}
	}
	if name := w.Labels[cluster.AddOnNameLabel]; name != "" {
		return Step{Do: "the manifests are those of the add-on " + name + ": change its template or configuration",
			Command: fmt.Sprintf("muster explain addon %s/%s", w.Namespace, name)}
	}
	if name := w.Annotations[muster.LogicalCloudAnnotation]; name != "" {
		return Step{Do: "the hub makes the work for the logical cloud " + name, Command: "muster explain cloud " + name}
	}
	return Step{Do: "change the work where it is made: in Terraform its muster_manifest_work, or",
		Command: fmt.Sprintf("kubectl -n %s edit manifestwork %s", w.Namespace, w.Name)}
}

// manifests are the findings about single objects that are applied.
func (f *WorkFacts) manifests() []Cause {
	w := f.Work
	var missing, contested, unread, feedback []string
	for i := range w.Status.ResourceStatus.Manifests {
		m := &w.Status.ResourceStatus.Manifests[i]
		if meta.IsStatusConditionFalse(m.Conditions, work.ConditionApplied) {
			continue // said already
		}
		name := object(m.ResourceMeta)
		if c := meta.FindStatusCondition(m.Conditions, work.ConditionContested); c != nil &&
			c.Status == metav1.ConditionTrue {
			contested = append(contested, name+": "+oneLine(c.Message))
		}
		switch c := meta.FindStatusCondition(m.Conditions, work.ConditionAvailable); {
		case c == nil || c.Status == metav1.ConditionTrue:
		case c.Status == metav1.ConditionFalse:
			missing = append(missing, name+": "+oneLine(c.Message))
		default:
			unread = append(unread, name+": "+oneLine(c.Message))
		}
		if c := meta.FindStatusCondition(m.Conditions, work.ConditionStatusFeedbackSynced); c != nil &&
			c.Status == metav1.ConditionFalse {
			feedback = append(feedback, name+": "+oneLine(c.Message))
		}
	}
	var out []Cause
	for _, x := range []struct {
		of      []string
		level   Level
		summary string
		next    []Step
	}{
		{contested, Warning, "Somebody else keeps changing %s back.", []Step{
			{Do: "let only one work or controller set a field: leave it out of the manifest, or end the other"},
			f.owner()}},
		{missing, Problem, "Not there in the cluster: %s.", append([]Step{
			{Do: "somebody deletes it, or a rule of the work says that it is not available: look at it in the " +
				"cluster"}}, f.again()...)},
		{unread, Warning, "The agent could not read %s.", lookAtAgent(w.Namespace)},
		{feedback, Warning, "Not all of the wanted feedback could be read of %s.", []Step{
			{Do: "correct the paths of the feedback rules"}, f.owner()}},
	} {
		if n := len(x.of); n > 0 {
			out = append(out, Cause{Level: x.level, Summary: fmt.Sprintf(x.summary, plural(n, "object")),
				Evidence: firstOf(x.of), Next: x.next})
		}
	}
	return out
}

// summary are the findings about the work as a whole.
func (f *WorkFacts) summary() []Cause {
	w := f.Work
	var out []Cause
	add := func(kind string, status metav1.ConditionStatus, level Level, summary string, next ...Step) bool {
		c := current(w, kind)
		if c == nil || c.Status != status {
			return false
		}
		out = append(out, Cause{Level: level, Summary: summary, Evidence: []string{says(c, f.Now)}, Next: next})
		return true
	}
	look := Step{Do: "look at what the message names, and at its pods and events",
		Command: "kubectl get events -A", In: w.Namespace}
	if !add(work.ConditionDegraded, metav1.ConditionTrue, Problem, "A workload of it has failed.", look, f.owner()) {
		add(work.ConditionProgressing, metav1.ConditionTrue, Waiting, "A workload of it is still on its way.", look)
	}
	add(work.ConditionPruned, metav1.ConditionFalse, Warning, "Objects that the work no longer holds are still there.",
		Step{Do: "repair the controller whose finalizer the message names, in the cluster"})
	add(work.ConditionStatusTruncated, metav1.ConditionTrue, Warning, "The status of the work is too long to be "+
		"stored as a whole.",
		Step{Do: "divide the work into several, or ask for less feedback"})
	if add(work.ConditionComplete, metav1.ConditionTrue, OK, "The work is complete, so the agent does not apply "+
		"changes of it any more.",
		Step{Do: "to apply it nevertheless",
			Command: fmt.Sprintf("muster replay %s %s --lift-complete", w.Namespace, w.Name)}) {
		return out
	}
	return out
}

// firstOf are as many lines as evidence shows.
func firstOf(lines []string) []string {
	if len(lines) <= maxListed {
		return lines
	}
	return append(lines[:maxListed:maxListed], fmt.Sprintf("and %d more", len(lines)-maxListed))
}
