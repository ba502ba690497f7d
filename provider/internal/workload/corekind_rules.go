package workload

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/muster-fleet/terraform-provider-muster/internal/suggest"
)

// What every API server refuses of objects whose fields have the right types: a
// short list of what people get wrong.

// required lists what an object lacks, and values that can't be valid.
func required(kind string, clusterWide bool, object map[string]any) []Problem {
	r := &kindRules{}
	r.metadata(kind, clusterWide, mapAt(object, "metadata"))
	spec := mapAt(object, "spec")
	switch kind {
	case "Pod":
		r.pod("spec", spec, "Always", "OnFailure", "Never")
	case "PodTemplate":
		r.pod("template.spec", mapAt(object, "template", "spec"), "Always", "OnFailure", "Never")
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet":
		r.selector(spec)
		r.oneOf("spec.strategy.type", mapAt(spec, "strategy")["type"], "RollingUpdate", "Recreate")
		r.oneOf("spec.updateStrategy.type", mapAt(spec, "updateStrategy")["type"], "RollingUpdate", "OnDelete")
		r.pod("spec.template.spec", mapAt(spec, "template", "spec"), "Always")
	case "Job":
		r.pod("spec.template.spec", mapAt(spec, "template", "spec"), "OnFailure", "Never")
		r.restarts("spec.template.spec", mapAt(spec, "template", "spec"))
	case "CronJob":
		r.text("spec.schedule", spec["schedule"], `such as "*/5 * * * *"`)
		template := mapAt(spec, "jobTemplate", "spec", "template", "spec")
		r.pod("spec.jobTemplate.spec.template.spec", template, "OnFailure", "Never")
		r.restarts("spec.jobTemplate.spec.template.spec", template)
	case "Service":
		r.service(spec)
	case "ConfigMap", "Secret":
		r.keys(object, "data", "binaryData", "stringData")
	case "PersistentVolumeClaim":
		if len(listAt(spec, "accessModes")) == 0 {
			r.add("spec.accessModes", "is missing; add one, such as ReadWriteOnce")
		}
		if mapAt(spec, "resources", "requests")["storage"] == nil {
			r.add("spec.resources.requests.storage", "is missing; add a size such as 1Gi")
		}
	case "RoleBinding", "ClusterRoleBinding":
		r.binding(object)
	case "Ingress":
		r.ingress(spec)
	case "HorizontalPodAutoscaler":
		if !positive(spec["maxReplicas"]) {
			r.add("spec.maxReplicas", "is missing or less than 1")
		}
		r.text("spec.scaleTargetRef.kind", mapAt(spec, "scaleTargetRef")["kind"], "such as Deployment")
		r.text("spec.scaleTargetRef.name", mapAt(spec, "scaleTargetRef")["name"], "the name of what is scaled")
	}
	return r.problems
}

type kindRules struct{ problems []Problem }

func (r *kindRules) add(at, text string, args ...any) {
	r.problems = append(r.problems, Problem{Path: at, Text: fmt.Sprintf(text, args...)})
}

// text wants one that is not empty.
func (r *kindRules) text(at string, value any, what string) {
	if text, _ := value.(string); text == "" {
		r.add(at, "is missing; add it: %s", what)
	}
}

// oneOf wants a value of an enumeration, or none.
func (r *kindRules) oneOf(at string, value any, allowed ...string) {
	text, _ := value.(string)
	if text == "" || slices.Contains(allowed, text) {
		return
	}
	hint := ""
	if near := suggest.Name(text, allowed); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	r.add(at, "has to be one of %s%s", strings.Join(allowed, ", "), hint)
}

func (r *kindRules) metadata(kind string, clusterWide bool, metadata map[string]any) {
	name, _ := metadata["name"].(string)
	var faults []string
	switch kind {
	case "Namespace":
		faults = validation.IsDNS1123Label(name)
	case "Service":
		if faults = validation.IsDNS1123Label(name); len(faults) > 0 {
			faults = faults[:1]
		}
	case "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding":
		faults = content.IsPathSegmentName(name)
	case "IPAddress":
	default:
		faults = validation.IsDNS1123Subdomain(name)
	}
	if len(faults) > 0 {
		r.add("metadata.name", "is %q, which can't be the name of a %s: %s", name, kind, faults[0])
	}
	namespace, _ := metadata["namespace"].(string)
	switch {
	case namespace == "" && !clusterWide:
		r.add("metadata.namespace", "is missing; a %s has one", kind)
	case namespace != "" && !clusterWide:
		if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
			r.add("metadata.namespace", "is %q: %s", namespace, faults[0])
		}
	}
	for key, value := range mapAt(metadata, "labels") {
		text, _ := value.(string)
		faults := validation.IsQualifiedName(strings.TrimSuffix(key, "-"))
		if faults = append(faults, validation.IsValidLabelValue(text)...); len(faults) > 0 {
			r.add(JoinPath("metadata.labels", key), "is no valid label: %s", faults[0])
		}
	}
	for key := range mapAt(metadata, "annotations") {
		if faults := validation.IsQualifiedName(strings.ToLower(strings.TrimSuffix(key, "-"))); len(faults) > 0 {
			r.add(JoinPath("metadata.annotations", key), "is no valid annotation: %s", faults[0])
		}
	}
}

// selector wants one that selects the template's own pods.
func (r *kindRules) selector(spec map[string]any) {
	selector := mapAt(spec, "selector")
	matchLabels := mapAt(selector, "matchLabels")
	if len(matchLabels) == 0 && len(listAt(selector, "matchExpressions")) == 0 {
		r.add("spec.selector", "is missing or empty; add matchLabels with labels of spec.template.metadata.labels")
		return
	}
	labels := mapAt(spec, "template", "metadata", "labels")
	for key, value := range matchLabels {
		if labels[key] != value {
			r.add(JoinPath("spec.selector.matchLabels", key), "is not among spec.template.metadata.labels with the "+
				"same value, so that the selector would not select its own pods")
		}
	}
}

func (r *kindRules) restarts(at string, pod map[string]any) {
	if policy, _ := pod["restartPolicy"].(string); policy == "" {
		r.add(at+".restartPolicy", "is missing; a job needs OnFailure or Never")
	}
}

// pod checks a pod's specification; restarts are the policies that its owner allows.
func (r *kindRules) pod(at string, pod map[string]any, restarts ...string) {
	r.oneOf(at+".restartPolicy", pod["restartPolicy"], restarts...)
	containers := listAt(pod, "containers")
	if len(containers) == 0 {
		r.add(at+".containers", "is missing or empty; add a container")
	}
	names := map[string]bool{}
	for _, field := range []string{"initContainers", "containers"} {
		for i, element := range listAt(pod, field) {
			container, _ := element.(map[string]any)
			at := fmt.Sprintf("%s.%s[%d]", at, field, i)
			name, _ := container["name"].(string)
			switch faults := validation.IsDNS1123Label(name); {
			case name == "":
				r.add(at+".name", "is missing")
			case len(faults) > 0:
				r.add(at+".name", "is %q: %s", name, faults[0])
			case names[name]:
				r.add(at+".name", "is %q, as that of another container", name)
			}
			names[name] = true
			r.text(at+".image", container["image"], "such as nginx:1.29")
			r.oneOf(at+".imagePullPolicy", container["imagePullPolicy"], "Always", "IfNotPresent", "Never")
			r.ports(at, listAt(container, "ports"), "containerPort")
		}
	}
}

// ports checks a list of ports, whose number is in a field of this name.
func (r *kindRules) ports(at string, ports []any, number string) {
	for i, element := range ports {
		port, _ := element.(map[string]any)
		at := fmt.Sprintf("%s.ports[%d]", at, i)
		value, ok := port[number].(json.Number)
		if whole, err := value.Int64(); !ok || err != nil || whole < 1 || whole > 65535 {
			r.add(at+"."+number, "has to be a number from 1 to 65535")
		}
		r.oneOf(at+".protocol", port["protocol"], "TCP", "UDP", "SCTP")
	}
}

func (r *kindRules) service(spec map[string]any) {
	r.oneOf("spec.type", spec["type"], "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
	r.oneOf("spec.sessionAffinity", spec["sessionAffinity"], "None", "ClientIP")
	ports := listAt(spec, "ports")
	if spec["type"] == "ExternalName" {
		r.text("spec.externalName", spec["externalName"], "the name that the service stands for")
	} else if len(ports) == 0 && spec["clusterIP"] != "None" {
		r.add("spec.ports", "is missing or empty; add a port, or set clusterIP to None")
	}
	r.ports("spec", ports, "port")
	for i, element := range ports {
		if port, _ := element.(map[string]any); len(ports) > 1 {
			r.text(fmt.Sprintf("spec.ports[%d].name", i), port["name"], "each of several ports needs a name")
		}
	}
}

// keys checks the keys of a ConfigMap or a Secret.
func (r *kindRules) keys(object map[string]any, fields ...string) {
	for _, field := range fields {
		for key := range mapAt(object, field) {
			if faults := validation.IsConfigMapKey(key); len(faults) > 0 {
				r.add(JoinPath(field, key), "is no valid key: %s", faults[0])
			}
		}
	}
}

func (r *kindRules) binding(object map[string]any) {
	ref := mapAt(object, "roleRef")
	r.text("roleRef.name", ref["name"], "the name of the role")
	r.oneOf("roleRef.kind", ref["kind"], "Role", "ClusterRole")
	if ref["kind"] == nil {
		r.add("roleRef.kind", "is missing; add Role or ClusterRole")
	}
	if group, ok := ref["apiGroup"].(string); ok && group != "" && group != "rbac.authorization.k8s.io" {
		r.add("roleRef.apiGroup", "has to be rbac.authorization.k8s.io")
	}
	for i, element := range listAt(object, "subjects") {
		subject, _ := element.(map[string]any)
		at := fmt.Sprintf("subjects[%d]", i)
		r.text(at+".name", subject["name"], "the name of the subject")
		r.oneOf(at+".kind", subject["kind"], "User", "Group", "ServiceAccount")
		if subject["kind"] == "ServiceAccount" && object["kind"] == "ClusterRoleBinding" {
			r.text(at+".namespace", subject["namespace"], "that of the service account")
		}
	}
}

func (r *kindRules) ingress(spec map[string]any) {
	for i, element := range listAt(spec, "rules") {
		rule, _ := element.(map[string]any)
		for j, element := range listAt(mapAt(rule, "http"), "paths") {
			entry, _ := element.(map[string]any)
			at := fmt.Sprintf("spec.rules[%d].http.paths[%d].pathType", i, j)
			if entry["pathType"] == nil {
				r.add(at, "is missing; add Prefix, Exact or ImplementationSpecific")
			}
			r.oneOf(at, entry["pathType"], "Prefix", "Exact", "ImplementationSpecific")
		}
	}
}

func positive(value any) bool {
	number, _ := value.(json.Number)
	whole, err := number.Int64()
	return err == nil && whole > 0
}

// mapAt is the object at a path of names; empty where there is none.
func mapAt(fields map[string]any, names ...string) map[string]any {
	for _, name := range names {
		fields, _ = fields[name].(map[string]any)
	}
	return fields
}

func listAt(fields map[string]any, name string) []any {
	list, _ := fields[name].([]any)
	return list
}
