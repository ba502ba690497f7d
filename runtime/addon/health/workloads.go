package health

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
// to have none, and a DaemonSet one on each of its nodes. Kubernetes leaves out the
// number of ready pods of a Deployment when it is 0.
func run(reports []Report) error {
	for _, r := range reports {
		if err := runs(r); err != nil {
			return err
		}
	}
	return nil
}

func runs(r Report) error {
	ready, desired := "ReadyReplicas", "Replicas"
	if r.Object.Resource == daemonSets {
		ready, desired = "NumberReady", "DesiredNumberScheduled"
	}
	have, reported := integer(r.Values, ready)
	if !reported {
		return errors.New("readyReplica is not probed")
	}
	want, reported := integer(r.Values, desired)
	switch {
	case !reported:
		return errors.New("desiredNumberReplicas is not probed")
	case have == want, r.Object.Resource == deployments && have >= 1:
		return nil
	}
	return fmt.Errorf("desiredNumberReplicas is %d but readyReplica is %d for %s %s/%s", want, have, r.Object.Resource, r.Object.Namespace, r.Object.Name)
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
