package deploy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// deployed is a work of generation 2 with an annotation, if that is not "-", and the
// conditions that it is given.
func deployed(name, annotation string, conditions ...metav1.Condition) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2}}
	if annotation != "-" {
		w.Annotations = map[string]string{"open-cluster-management.io/config-spec-hash": annotation}
	}
	w.Status.Conditions = conditions
	return w
}

func is(which string, status metav1.ConditionStatus, generation int64) metav1.Condition {
	return metav1.Condition{Type: which, Status: status, ObservedGeneration: generation}
}

// running is a work that is well, and reports of a Deployment how many of its two replicas
// are updated, and what its agent says.
func running(annotation string, updated int64, said string) *workv1.ManifestWork {
	w := deployed("w", annotation, is("Applied", "True", 2), is("Available", "True", 2))
	if said != "" {
		c := is("Progressing", "True", 2)
		c.Message = said
		w.Status.Conditions = append(w.Status.Conditions, c)
	}
	value := func(name string, n int64) workv1.FeedbackValue {
		return workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &n}}
	}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Group: "apps", Kind: "Deployment", Resource: "deployments", Namespace: "agents", Name: "d"},
		StatusFeedbacks: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
			value("rollout.generation", 3), value("rollout.observedGeneration", 3), value("rollout.replicas", 2), value("rollout.updated", updated),
			value("Replicas", 2), value("ReadyReplicas", 2), value("AvailableReplicas", 2),
		}},
	}}
	kept := reported(w.Status)
	w.Status = reported(kept) // a cache may do it twice
	return w
}

func TestProgressing(t *testing.T) {
	const hashes = `{"rs.g/n/x":"1"}`
	kind := v1alpha1.ConfigGroupResource{Group: "g", Resource: "rs"}
	referent := v1alpha1.ConfigReferent{Namespace: "n", Name: "x"}
	well := []metav1.Condition{is("Applied", "True", 2), is("Available", "True", 2)}
	applied := metav1.Condition{Type: "ManifestApplied", Status: "True", Message: "manifests of addon are applied successfully"}
	nothing := metav1.Condition{Type: "ManifestApplied", Status: "True", Message: "no manifest need to apply"}
	hostedApplied := metav1.Condition{Type: "HostingManifestApplied", Status: "True"}
	const (
		noManifests = "False/WaitingForManifestApplied/Waiting for ManagedClusterAddOn ManifestApplied condition"
		noHosted    = "False/WaitingForHostingManifestApplied/Waiting for ManagedClusterAddOn HostingManifestApplied condition"
		noWorks     = "True/Progressing/progressing... no addon works"
		mismatch    = "True/Progressing/progressing... mca and work configs mismatch"
		notReady    = "True/Progressing/progressing... work is not ready"
		completed   = "False/Completed/completed with no errors."
	)
	for name, x := range map[string]struct {
		conditions []metav1.Condition
		hosted     bool
		own        []v1alpha1.AddOnConfig
		supported  []v1alpha1.ConfigGroupResource
		works      []*workv1.ManifestWork
		want       string
	}{
		"nothing yet": {want: noManifests},
		"not supported": {
			own: []v1alpha1.AddOnConfig{{ConfigGroupResource: kind}}, conditions: []metav1.Condition{applied},
			want: "False/ConfigurationUnsupported/Configuration with gvr g/rs is not supported for this addon",
		},
		"supported": {
			own: []v1alpha1.AddOnConfig{{ConfigGroupResource: kind}}, supported: []v1alpha1.ConfigGroupResource{kind}, want: noManifests,
		},
		"hosted, nothing there":     {hosted: true, conditions: []metav1.Condition{applied}, want: noHosted},
		"hosted, without works":     {hosted: true, conditions: []metav1.Condition{nothing, hostedApplied}, want: noWorks},
		"hosted":                    {hosted: true, conditions: []metav1.Condition{applied, hostedApplied}, works: []*workv1.ManifestWork{deployed("w", hashes, well...)}, want: completed},
		"without works":             {conditions: []metav1.Condition{applied}, want: noWorks},
		"with nothing to deploy":    {conditions: []metav1.Condition{nothing}, want: completed},
		"another hash":              {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", `{"rs.g/n/x":"2"}`, well...)}, want: mismatch},
		"no annotation":             {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", "-", well...)}, want: mismatch},
		"one of two with a hash":    {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", hashes, well...), deployed("x", "-", well...)}, want: mismatch},
		"not applied":               {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", hashes, is("Available", "True", 2))}, want: notReady},
		"applied at an earlier one": {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", hashes, is("Available", "True", 2), is("Applied", "True", 1))}, want: notReady},
		"not available":             {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", hashes, is("Available", "False", 2), is("Applied", "True", 2))}, want: notReady},
		"one of two is not":         {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", hashes, well...), deployed("x", hashes)}, want: notReady},
		"all are well":              {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", hashes, well...), deployed("x", hashes, well...)}, want: completed},
		"old pods run, and no new":  {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{running(hashes, 1, "")}, want: notReady + ": Deployment agents/d: 1 of 2 replicas are updated"},
		"the agent says more":       {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{running(hashes, 0, "pod p: ImagePullBackOff")}, want: notReady + ": pod p: ImagePullBackOff"},
		"all pods are new":          {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{running(hashes, 2, "a Job is not finished")}, want: completed},
		"a hook does not count":     {conditions: []metav1.Condition{applied}, works: []*workv1.ManifestWork{deployed("w", hashes, well...), deployed("addon-search-pre-delete", "-")}, want: completed},
	} {
		t.Run(name, func(t *testing.T) {
			a := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Name: "search"}}
			if x.hosted {
				a.Annotations = map[string]string{"addon.open-cluster-management.io/hosting-cluster-name": "host"}
			}
			a.Spec.Configs, a.Status.SupportedConfigs, a.Status.Conditions = x.own, x.supported, x.conditions
			a.Status.ConfigReferences = []v1alpha1.ConfigReference{{ConfigGroupResource: kind, DesiredConfig: &v1alpha1.ConfigSpecHash{ConfigReferent: referent, SpecHash: "1"}}}
			got := progressing(a, x.works)
			if text := string(got.Status) + "/" + got.Reason + "/" + got.Message; text != x.want || got.Type != "Progressing" {
				t.Errorf("got %s %q, want %q", got.Type, text, x.want)
			}
		})
	}
}
