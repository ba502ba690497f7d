package health

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Resources of the group apps whose health the agents report.
const (
	deployments = "deployments"
	daemonSets  = "daemonsets"
)

// workloads are the Deployments among objects that are to have pods, and the DaemonSets.
func workloads(objects []*unstructured.Unstructured, withDaemonSets bool) (out []workv1.ResourceIdentifier) {
	for _, o := range objects {
		gvk, resource := o.GroupVersionKind(), ""
		switch {
		case gvk.Group != "apps":
		case gvk.Kind == "Deployment" && !isZero(o):
			resource = deployments
		case gvk.Kind == "DaemonSet" && withDaemonSets:
			resource = daemonSets
		}
		if resource != "" {
			out = append(out, workv1.ResourceIdentifier{Group: gvk.Group, Resource: resource, Namespace: o.GetNamespace(), Name: o.GetName()})
		}
	}
	return out
}

// isZero reports whether a Deployment is to have no pods.
func isZero(o *unstructured.Unstructured) bool {
	replicas, found, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "replicas")
	return err == nil && found && (replicas == int64(0) || replicas == float64(0))
}

// run says which workload does not run: a Deployment needs one ready pod, unless it is
// to have none, and a DaemonSet one on each of its nodes.
func run(reports []Report) error {
	for _, r := range reports {
		if err := runs(r); err != nil {
			return err
		}
	}
	return nil
}

// notRunningError says which workload does not run, in words of its own.
type notRunningError string

func (e notRunningError) Error() string { return string(e) }

// runs looks at one workload. Kubernetes leaves out the number of ready pods of a
// Deployment, and of its pods, when it is 0.
func runs(r Report) error {
	ready, desired, kind := "ReadyReplicas", "Replicas", "Deployment"
	if r.Object.Resource == daemonSets {
		ready, desired, kind = "NumberReady", "DesiredNumberScheduled", "DaemonSet"
	}
	have, _ := integer(r.Values, ready)
	total, reported := integer(r.Values, desired)
	want, specified := integer(r.Values, addon.FeedbackWant)
	if !specified {
		want = total
	}
	_, counted := integer(r.Values, ready)
	switch {
	case kind == "Deployment" && have >= 1 && reported,
		have == total && reported && counted,
		specified && want == 0 && have == 0 && total == 0:
		return nil
	case !reported && !specified:
		return notRunningError(fmt.Sprintf("%d replicas of the %s %s/%s are ready, and how many there are to be is not reported", have, kind, r.Object.Namespace, r.Object.Name))
	}
	return notRunningError(fmt.Sprintf("%d of %d replicas of the %s %s/%s are ready", have, want, kind, r.Object.Namespace, r.Object.Name))
}

// integer is the last reported value of a name.
func integer(values []workv1.FeedbackValue, name string) (n int64, found bool) {
	for _, v := range values {
		if v.Name == name && v.Value.Integer != nil {
			n, found = *v.Value.Integer, true
		}
	}
	return n, found
}
