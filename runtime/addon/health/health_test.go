package health_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/health"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// workOf is a work with a condition Available, "" for none, and what is reported of its
// objects, each as "resource/name Name=value …".
func workOf(name string, available metav1.ConditionStatus, reports ...string) *workv1.ManifestWork {
	w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: name}}
	if available != "" {
		w.Status.Conditions = []metav1.Condition{{Type: "Available", Status: available, Message: "1 of 2 resources are not available"}}
	}
	for _, r := range reports {
		fields := strings.Fields(r)
		resource, object, _ := strings.Cut(fields[0], "/")
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Group: "apps", Resource: resource, Namespace: "agents", Name: object}}
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			v := workv1.FeedbackValue{Name: name, Value: workv1.FieldValue{Type: workv1.ValueTypeString, String: &value}}
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				v.Value = workv1.FieldValue{Type: workv1.ValueTypeInteger, Integer: &n}
			}
			m.StatusFeedbacks.Values = append(m.StatusFeedbacks.Values, v)
		}
		w.Status.ResourceStatus.Manifests = append(w.Status.ResourceStatus.Manifests, m)
	}
	return w
}

// moving has the cluster's agent say of a work what its objects lack.
func moving(w *workv1.ManifestWork) *workv1.ManifestWork {
	w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: "Progressing", Status: yes, Message: "Deployment agents/d: pod p: ImagePullBackOff"})
	return w
}

// objectOf is a Deployment or DaemonSet, as "Kind/name" and, with "=", its replicas.
func objectOf(text string) *unstructured.Unstructured {
	id, replicas, found := strings.Cut(text, "=")
	kind, name, _ := strings.Cut(id, "/")
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": kind, "spec": map[string]any{}}}
	if n, err := strconv.ParseInt(replicas, 10, 64); found && err == nil {
		o.Object["spec"].(map[string]any)["replicas"] = n
	}
	o.SetNamespace("agents")
	o.SetName(name)
	return o
}

// search is the add-on, with or without the condition ManifestApplied.
func search(applied bool) *v1alpha1.ManagedClusterAddOn {
	a := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "search"}}
	if applied {
		a.Status.Conditions = []metav1.Condition{{Type: "ManifestApplied", Status: metav1.ConditionFalse}}
	}
	return a
}

// text is a condition as "Status/Reason/message", or "stays".
func text(c metav1.Condition, known bool) string {
	if !known {
		return "stays"
	}
	return fmt.Sprintf("%s/%s/%s", c.Status, c.Reason, c.Message)
}

const (
	yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown

	available = "True/ProbeAvailable/search add-on is available."
	noResult  = "Unknown/NoProbeResult/Probe results are not returned"
	down      = "False/ProbeUnavailable/"
)

func TestWorkloads(t *testing.T) {
	const work = "addon-search-deploy-0"
	works := func(w ...*workv1.ManifestWork) []*workv1.ManifestWork { return w }
	deleted := workOf("addon-search-deploy-1", no)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	broken := workOf(work, yes, "deployments/d ReadyReplicas=1 Replicas=1")
	broken.Status.ResourceStatus.Manifests[0].StatusFeedbacks.Values[0].Value = workv1.FieldValue{Type: workv1.ValueTypeInteger}
	for name, x := range map[string]struct {
		objects string
		works   []*workv1.ManifestWork
		want    string
	}{
		"no work":                                    {"Deployment/d", nil, "Unknown/WorkNotFound/Addon manifestWork is not found"},
		"a hook alone":                               {"Deployment/d", works(workOf("addon-search-pre-delete", yes)), "Unknown/WorkNotFound/Addon manifestWork is not found"},
		"works that go":                              {"Deployment/d", works(deleted), "Unknown/WorkNotFound/Addon manifestWork is not found"},
		"a work that is not applied yet":             {"Deployment/d", works(workOf(work, "")), "Unknown/WorkNotApplied/Addon manifestWork is not applied yet"},
		"a work that misses objects":                 {"Deployment/d", works(workOf(work, no)), "False/WorkNotApplied/1 of 2 resources are not available"},
		"a second one that does":                     {"Deployment/d", works(workOf("addon-search-deploy-1", no), workOf(work, yes, "deployments/d ReadyReplicas=1 Replicas=1")), "False/WorkNotApplied/1 of 2 resources are not available"},
		"two that are not well":                      {"Deployment/d", works(workOf("addon-search-deploy-10", no), workOf("addon-search-deploy-2", "")), "Unknown/WorkNotApplied/Addon manifestWork is not applied yet"},
		"beside a hook":                              {"Deployment/d", works(workOf("addon-search-pre-delete", no), workOf(work, yes, "deployments/d ReadyReplicas=1 Replicas=1")), available},
		"beside one that goes":                       {"Deployment/d", works(deleted, workOf(work, yes, "deployments/d ReadyReplicas=1 Replicas=1")), available},
		"in a hosting cluster":                       {"Deployment/d", works(workOf("addon-search-deploy-hosting-paris-0", yes, "deployments/d ReadyReplicas=1 Replicas=1")), available},
		"nothing reported":                           {"Deployment/d", works(workOf(work, yes)), noResult},
		"nothing of it reported":                     {"Deployment/d", works(workOf(work, yes, "deployments/other ReadyReplicas=1 Replicas=1", "deployments/d")), noResult},
		"one ready pod of three":                     {"Deployment/d=3", works(workOf(work, yes, "deployments/d ReadyReplicas=1 Replicas=3")), available},
		"no ready pod":                               {"Deployment/d", works(workOf(work, yes, "deployments/d ReadyReplicas=0 Replicas=2")), down + "0 of 2 replicas of the Deployment agents/d are ready"},
		"ready pods left out, being 0":               {"Deployment/d", works(workOf(work, yes, "deployments/d Replicas=2")), down + "0 of 2 replicas of the Deployment agents/d are ready"},
		"ready pods that are no number":              {"Deployment/d", works(workOf(work, yes, "deployments/d ReadyReplicas=many Replicas=2")), down + "0 of 2 replicas of the Deployment agents/d are ready"},
		"a number without a number":                  {"Deployment/d", works(broken), down + "0 of 1 replicas of the Deployment agents/d are ready"},
		"pods left out":                              {"Deployment/d", works(workOf(work, yes, "deployments/d ReadyReplicas=1")), down + "1 replicas of the Deployment agents/d are ready, and how many there are to be is not reported"},
		"scaled to 0 in the cluster":                 {"Deployment/d", works(workOf(work, yes, "deployments/d ReadyReplicas=0 Replicas=0")), available},
		"no pod could be made":                       {"Deployment/d", works(workOf(work, yes, "deployments/d rollout.generation=2 rollout.observedGeneration=2 rollout.replicas=3")), down + "0 of 3 replicas of the Deployment agents/d are ready"},
		"not seen by its controller":                 {"Deployment/d", works(workOf(work, yes, "deployments/d rollout.generation=1 rollout.replicas=3")), noResult},
		"scaled to 0, numbers left out":              {"Deployment/d", works(workOf(work, yes, "deployments/d rollout.generation=2 rollout.observedGeneration=2 rollout.replicas=0")), available},
		"the cluster's agent knows more":             {"Deployment/d", works(moving(workOf(work, yes, "deployments/d Replicas=1"))), down + "0 of 1 replicas of the Deployment agents/d are ready. Deployment agents/d: pod p: ImagePullBackOff"},
		"old pods still run":                         {"Deployment/d", works(moving(workOf(work, yes, "deployments/d ReadyReplicas=1 Replicas=2"))), available},
		"without pods by its template":               {"Deployment/d=0", works(workOf(work, yes)), available},
		"one without pods, one without reports":      {"Deployment/d=0 Deployment/e", works(workOf(work, yes)), noResult},
		"one that is reported is enough":             {"Deployment/d Deployment/e", works(workOf(work, yes, "deployments/d ReadyReplicas=1 Replicas=1")), available},
		"one of two does not run":                    {"Deployment/d Deployment/e", works(workOf(work, yes, "deployments/d ReadyReplicas=1 Replicas=1", "deployments/e ReadyReplicas=0 Replicas=1")), down + "0 of 1 replicas of the Deployment agents/e are ready"},
		"spread over works":                          {"Deployment/d Deployment/e", works(workOf("addon-search-deploy-1", yes, "deployments/d ReadyReplicas=0 Replicas=1"), workOf(work, yes, "deployments/e ReadyReplicas=1 Replicas=1")), down + "0 of 1 replicas of the Deployment agents/d are ready"},
		"a DaemonSet on all nodes":                   {"DaemonSet/s", works(workOf(work, yes, "daemonsets/s NumberReady=3 DesiredNumberScheduled=3")), available},
		"a DaemonSet on no node":                     {"DaemonSet/s", works(workOf(work, yes, "daemonsets/s NumberReady=0 DesiredNumberScheduled=0")), available},
		"a DaemonSet that lacks a node":              {"DaemonSet/s", works(workOf(work, yes, "daemonsets/s NumberReady=2 DesiredNumberScheduled=3")), down + "2 of 3 replicas of the DaemonSet agents/s are ready"},
		"a DaemonSet with more than it wants":        {"DaemonSet/s", works(workOf(work, yes, "daemonsets/s NumberReady=4 DesiredNumberScheduled=3")), down + "4 of 3 replicas of the DaemonSet agents/s are ready"},
		"a DaemonSet without the number of nodes":    {"DaemonSet/s", works(workOf(work, yes, "daemonsets/s NumberReady=2")), down + "2 replicas of the DaemonSet agents/s are ready, and how many there are to be is not reported"},
		"no workload at all":                         {"StatefulSet/s ConfigMap/c", works(workOf(work, yes)), available},
		"no workload, and a work that lacks objects": {"ConfigMap/c", works(workOf(work, no)), "False/WorkNotApplied/1 of 2 resources are not available"},
		"a work that nobody can tell of":             {"Deployment/d", works(workOf(work, unknown, "deployments/d ReadyReplicas=1 Replicas=1")), available},
	} {
		t.Run(name, func(t *testing.T) {
			in := health.Input{AddOn: search(true), Works: x.works}
			for field := range strings.FieldsSeq(x.objects) {
				in.Objects = append(in.Objects, objectOf(field))
			}
			order := slices.Clone(x.works)
			if got := text(health.Available(in)); got != x.want {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
			slices.Reverse(in.Works)
			if got := text(health.Available(in)); got != x.want {
				t.Errorf("with the works in another order got %s, want %s", got, x.want)
			}
			in.Works = order
		})
	}
}

func TestWhenTheConditionStays(t *testing.T) {
	silent := func(s metav1.ConditionStatus) *clusterv1.ManagedCluster {
		c := &clusterv1.ManagedCluster{}
		c.Status.Conditions = []metav1.Condition{{Type: "ManagedClusterConditionAvailable", Status: s}}
		return c
	}
	const missing = "Unknown/WorkNotFound/Addon manifestWork is not found"
	for _, x := range []struct {
		applied bool
		cluster *clusterv1.ManagedCluster
		want    string
	}{
		{false, nil, "stays"}, {true, silent(unknown), "stays"},
		{true, silent(yes), missing}, {true, silent(no), missing}, {true, &clusterv1.ManagedCluster{}, missing}, {true, nil, missing},
	} {
		if got := text(health.Available(health.Input{AddOn: search(x.applied), Cluster: x.cluster})); got != x.want {
			t.Errorf("applied %v, cluster %v: got %s, want %s", x.applied, x.cluster, got, x.want)
		}
	}
}

// How far a workload is follows from what the work reports of it, with every agent.
func TestRollout(t *testing.T) {
	const seen = " rollout.generation=2 rollout.observedGeneration=2 "
	for report, want := range map[string]string{
		"deployments/d ReadyReplicas=1 Replicas=1": "unknown",
		"configmaps/d rollout.generation=1":        "unknown",
		"deployments/d rollout.generation=2 rollout.observedGeneration=1 rollout.replicas=1 rollout.updated=1":             "Progressing: its controller has not seen the spec yet",
		"deployments/d" + seen + "rollout.replicas=1 Replicas=2 ReadyReplicas=1 AvailableReplicas=1 rollout.updated=1":     "Progressing: 1 old replicas are still there",
		"deployments/d" + seen + "rollout.replicas=1 Replicas=1 ReadyReplicas=1 AvailableReplicas=1":                       "Progressing: 0 of 1 replicas are updated",
		"deployments/d" + seen + "rollout.replicas=1 Replicas=1 rollout.updated=1":                                         "Progressing: 0 of 1 replicas are available",
		"deployments/d" + seen + "rollout.replicas=1 Replicas=2 AvailableReplicas=1 rollout.updated=1 rollout.gaveUp=late": "Failing: late",
		"deployments/d" + seen + "rollout.replicas=1 rollout.noPods=quota":                                                 "Failing: quota",
		"deployments/d" + seen + "rollout.replicas=1 Replicas=1 ReadyReplicas=1 AvailableReplicas=1 rollout.updated=1":     "Done: ",
		"deployments/d" + seen + "rollout.replicas=0":                                                                      "Done: ",
		"daemonsets/d" + seen + "DesiredNumberScheduled=2 NumberReady=2 NumberAvailable=2 rollout.updated=1":               "Progressing: 1 of 2 pods are updated",
		"daemonsets/d" + seen + "DesiredNumberScheduled=2 NumberReady=2 NumberAvailable=2 rollout.strategy=OnDelete":       "Done: ",
		"statefulsets/d" + seen + "rollout.replicas=3 rollout.updated=1 rollout.ready=3 rollout.partition=1":               "Progressing: 1 of 2 replicas are updated",
		"statefulsets/d" + seen + "rollout.replicas=3 rollout.updated=2 rollout.ready=3 rollout.partition=1":               "Done: ",
		"statefulsets/d" + seen + "rollout.replicas=3 rollout.updated=3 rollout.ready=2 rollout.strategy=RollingUpdate":    "Progressing: 2 of 3 replicas are ready",
	} {
		w := workOf("w", yes, report)
		got := "unknown"
		if s, known := health.Rollout(&w.Status.ResourceStatus.Manifests[0]); known {
			got = string(s.State) + ": " + s.Why
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", report, got, want)
		}
	}
}
