package klusterlet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
)

// Additions are the paths of what an object in the cluster has beside what was rendered,
// and what nobody has configured: containers, environment, volumes, host namespaces and
// whatever else decides what runs as the agent, with which rights and connected to what.
// The agent has the rights of an administrator, so those who add to it have them, too.
//
// These are not additions: what an API server fills in; labels and annotations of the
// object itself; where the pods run and how their images are pulled (tolerations, node
// selectors, affinity, spread constraints, priority, pull secrets, resources), which
// webhooks add to Deployments; and the annotation of kubectl rollout restart. What
// webhooks add to pods, such as the sidecars of a mesh, is not in a Deployment.
func Additions(wanted, live Object) ([]string, error) {
	var r restoration
	_, err := r.run(wanted, live)
	return r.removed, err
}

// Restored is an object in the cluster without its additions, to replace the object with
// before an apply: that leaves alone what others have added. removed are the additions'
// paths; without any there is nothing to replace. The object keeps the resource version of
// live, and other changes, so that the apply owns what it restores.
func Restored(wanted, live Object) (object Object, removed []string, err error) {
	var r restoration
	fields, err := r.run(wanted, live)
	if err != nil || len(r.removed) == 0 {
		return nil, nil, err
	}
	object = reflect.New(reflect.TypeOf(live).Elem()).Interface().(Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, object); err != nil {
		return nil, nil, fmt.Errorf("decode the restored object: %w", err)
	}
	return object, r.removed, nil
}

// Changed is the path of the first field that was rendered and is not the same in the
// cluster; empty where there is none. Who installs an agent does not count: those from
// before it was noted don't say.
func Changed(wanted, live Object) (string, error) {
	was, errLive := fieldsOf(live)
	is, err := fieldsOf(wanted)
	if err := errors.Join(err, errLive); err != nil {
		return "", err
	}
	for _, key := range []string{"apiVersion", "kind", "status"} { // not in what a client reads, or not ours
		delete(is, key)
	}
	metadata, _ := is["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	delete(annotations, muster.InstalledByAnnotation)
	return difference("", is, was), nil
}

// difference is the path of the first field that is set in wanted and not the same
// in live; empty when there is none.
func difference(at string, wanted, live any) string {
	key := listKey(at)
	switch w := wanted.(type) {
	case nil:
		return ""
	case map[string]any:
		l, exists := live.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(w)) {
			found := difference(strings.TrimPrefix(at+"."+key, "."), w[key], l[key])
			if found != "" && !exists {
				return at
			}
			if found != "" {
				return found
			}
		}
		return ""
	case []any:
		if key == "" {
			break
		}
		elements, _ := live.([]any)
		for _, element := range w {
			var same any
			name := nameOf(element, key)
			for _, l := range elements {
				if nameOf(l, key) == name {
					same = l
				}
			}
			if found := difference(fmt.Sprintf("%s[%s]", at, name), element, same); found != "" {
				return found
			}
		}
		return ""
	}
	if !reflect.DeepEqual(wanted, live) {
		return at
	}
	return ""
}

// MayHaveAdditions reports whether objects of this kind can have any: those of other kinds
// are compared and applied whole.
func MayHaveAdditions(object Object) bool {
	switch object.(type) {
	case *appsv1.Deployment, *rbacv1.ClusterRole, *corev1.ServiceAccount:
		return true
	}
	return false
}

// restoration takes additions out of an object.
type restoration struct{ removed []string }

// run returns the restored fields of an object.
func (r *restoration) run(wanted, live Object) (map[string]any, error) {
	is, err := fieldsOf(live)
	if err != nil {
		return nil, err
	}
	want, err := fieldsOf(wanted)
	if err != nil {
		return nil, err
	}
	switch live.(type) {
	case *appsv1.Deployment:
		is["spec"] = r.object("spec", want["spec"], is["spec"])
	case *rbacv1.ClusterRole:
		r.drop("aggregationRule", is)
	case *corev1.ServiceAccount:
		r.drop("automountServiceAccountToken", is)
	}
	return is, nil
}

// fieldsOf are those of an object as the API has them.
func fieldsOf(object Object) (map[string]any, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("encode an object: %w", err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("decode an object: %w", err)
	}
	return fields, nil
}

// drop removes a field that is set.
func (r *restoration) drop(field string, from map[string]any) {
	if _, set := from[field]; set {
		r.removed = append(r.removed, field)
		delete(from, field)
	}
}

// object is live as it should be.
func (r *restoration) object(at string, wanted, live any) any {
	w, wantsMap := wanted.(map[string]any)
	l, isMap := live.(map[string]any)
	if wantsMap && isMap {
		return r.fields(at, w, l)
	}
	key := listKey(at)
	elements, isList := live.([]any)
	if key != "" && isList {
		w, _ := wanted.([]any)
		return r.elements(at, key, w, elements)
	}
	return live
}

func (r *restoration) fields(at string, wanted, live map[string]any) map[string]any {
	out := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(live)) {
		path := at + "." + key
		if w, set := wanted[key]; set && w != nil {
			out[key] = r.object(path, w, live[key])
			continue
		}
		elements, isList := live[key].([]any)
		switch {
		case isList && listKey(path) != "":
			if left := r.elements(path, listKey(path), nil, elements); len(left) > 0 {
				out[key] = left
			}
		case stays(path, live[key]):
			out[key] = live[key]
		default:
			r.removed = append(r.removed, path)
		}
	}
	return out
}

// elements are those of a list whose elements the API distinguishes by a key.
func (r *restoration) elements(at, key string, wanted, live []any) []any {
	var out []any
	seen := map[string]bool{}
	for _, element := range live {
		name := nameOf(element, key)
		here := fmt.Sprintf("%s[%s]", at, name)
		of := slices.IndexFunc(wanted, func(w any) bool { return nameOf(w, key) == name })
		switch {
		case of >= 0 && !seen[name]:
			seen[name] = true
			before := len(r.removed)
			left := r.object(here, wanted[of], element)
			if strings.HasSuffix(at, ".volumes") && len(r.removed) > before {
				left = wanted[of] // of another kind: a volume has to have one
			}
			out = append(out, left)
		case stays(here, element):
			out = append(out, element)
		default:
			r.removed = append(r.removed, here)
		}
	}
	if len(out) == 0 {
		return wanted // a pod has to have a container
	}
	return out
}

func nameOf(element any, key string) string {
	fields, _ := element.(map[string]any)
	return fmt.Sprint(fields[key])
}

// listKey is the field by which the API identifies the elements of a list, where
// several may write to it; empty for lists that have one owner.
func listKey(at string) string {
	switch at[strings.LastIndex(at, ".")+1:] {
	case "containers", "initContainers", "volumes", "env", "imagePullSecrets":
		return "name"
	case "ports":
		return "containerPort"
	case "volumeMounts":
		return "mountPath"
	}
	return ""
}

const podSpec = "spec.template.spec."

// stays reports whether a field that was not rendered is not an addition.
func stays(at string, value any) bool {
	generic := withoutNames(at)
	if value == nil || isEmpty(value) {
		return true
	}
	switch generic {
	case podSpec + "tolerations", podSpec + "nodeSelector", podSpec + "affinity", podSpec + "topologySpreadConstraints",
		podSpec + "priorityClassName", podSpec + "imagePullSecrets", podSpec + "containers.resources",
		podSpec + "nodeSelector.*", "spec.template.metadata.creationTimestamp",
		podSpec + "serviceAccount": // another name of serviceAccountName
		return true
	case podSpec + "containers.imagePullPolicy":
		return value != string(corev1.PullNever)
	}
	for _, prefix := range []string{podSpec + "nodeSelector.", podSpec + "affinity.", podSpec + "containers.resources."} {
		if strings.HasPrefix(generic, prefix) {
			return true
		}
	}
	if at == "spec.template.metadata.annotations.kubectl.kubernetes.io/restartedAt" {
		return true
	}
	if annotations, ok := value.(map[string]any); ok && at == "spec.template.metadata.annotations" {
		_, restarted := annotations["kubectl.kubernetes.io/restartedAt"]
		return restarted && len(annotations) == 1
	}
	standard, known := defaults()[generic]
	return known && reflect.DeepEqual(standard, value)
}

// withoutNames is a path without the names of lists' elements.
func withoutNames(at string) string {
	for {
		from, to := strings.Index(at, "["), strings.Index(at, "]")
		if from < 0 || to < from {
			return at
		}
		at = at[:from] + at[to+1:]
	}
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// defaults are what API servers fill in, as JSON has it.
func defaults() map[string]any {
	out := map[string]any{
		"spec.revisionHistoryLimit": 10.0, "spec.progressDeadlineSeconds": 600.0,
		podSpec + "restartPolicy": "Always", podSpec + "dnsPolicy": "ClusterFirst",
		podSpec + "schedulerName":                       "default-scheduler",
		podSpec + "containers.terminationMessagePath":   "/dev/termination-log",
		podSpec + "containers.terminationMessagePolicy": "File",
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe"} {
		at := podSpec + "containers." + probe + "."
		out[at+"timeoutSeconds"], out[at+"successThreshold"], out[at+"failureThreshold"] = 1.0, 1.0, 3.0
		out[at+"httpGet.scheme"] = "HTTP"
	}
	return out
}
