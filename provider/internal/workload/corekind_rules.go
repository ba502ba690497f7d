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
	r := &kindRules{object: object}
	r.metadata(kind, clusterWide, mapAt(object, "metadata"))
	const template, jobTemplate = "spec.template.spec", "spec.jobTemplate.spec.template.spec"
	switch kind {
	case "Pod":
		r.pod("spec", "Always", "OnFailure", "Never")
	case "PodTemplate":
		r.pod("template.spec", "Always", "OnFailure", "Never")
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet":
		r.selector(mapAt(object, "spec"))
		r.oneOf("spec.strategy.type", "RollingUpdate", "Recreate")
		r.oneOf("spec.updateStrategy.type", "RollingUpdate", "OnDelete")
		r.pod(template, "Always")
	case "Job":
		r.pod(template, "OnFailure", "Never")
		r.need(template+".restartPolicy", "is missing; a job needs OnFailure or Never")
	case "CronJob":
		r.need("spec.schedule", `is missing; add it: such as "*/5 * * * *"`)
		r.pod(jobTemplate, "OnFailure", "Never")
		r.need(jobTemplate+".restartPolicy", "is missing; a job needs OnFailure or Never")
	case "Service":
		r.service(mapAt(object, "spec"))
	case "ConfigMap", "Secret":
		for _, field := range []string{"data", "binaryData", "stringData"} {
			for key := range mapAt(object, field) {
				r.valid(JoinPath(field, key), "is no valid key", validation.IsConfigMapKey(key))
			}
		}
	case "PersistentVolumeClaim":
		r.need("spec.accessModes", "is missing; add one, such as ReadWriteOnce")
		r.need("spec.resources.requests.storage", "is missing; add a size such as 1Gi")
	case "RoleBinding", "ClusterRoleBinding":
		r.binding(kind)
	case "Ingress":
		const at = "spec.rules[].http.paths[].pathType"
		r.need(at, "is missing; add Prefix, Exact or ImplementationSpecific")
		r.oneOf(at, "Prefix", "Exact", "ImplementationSpecific")
	case "HorizontalPodAutoscaler":
		r.each("spec.maxReplicas", func(at string, value any) {
			if whole(value) < 1 {
				r.add(at, "is missing or less than 1")
			}
		})
		r.need("spec.scaleTargetRef.kind", "is missing; add it: such as Deployment")
		r.need("spec.scaleTargetRef.name", "is missing; add it: the name of what is scaled")
	}
	return r.problems
}

type kindRules struct {
	object   map[string]any
	problems []Problem
}

func (r *kindRules) add(at, text string, args ...any) {
	r.problems = append(r.problems, Problem{Path: at, Text: fmt.Sprintf(text, args...)})
}

// valid adds the first of the faults that a value has.
func (r *kindRules) valid(at, what string, faults []string) {
	if len(faults) > 0 {
		r.add(at, "%s: %s", what, faults[0])
	}
}

// each shows what is at a path, where [] stands for each element of a list. A value that
// is not there is nil.
func (r *kindRules) each(path string, show func(at string, value any)) {
	each("", r.object, strings.Split(path, "."), show)
}

func each(at string, value any, path []string, show func(at string, value any)) {
	if len(path) == 0 {
		show(at, value)
		return
	}
	name, isList := strings.CutSuffix(path[0], "[]")
	fields, _ := value.(map[string]any)
	at = JoinPath(at, name)
	if !isList {
		each(at, fields[name], path[1:], show)
		return
	}
	for i, element := range listAt(fields, name) {
		each(fmt.Sprintf("%s[%d]", at, i), element, path[1:], show)
	}
}

// need wants a value that is not empty. problem says that it is.
func (r *kindRules) need(path, problem string) {
	r.each(path, func(at string, value any) {
		if list, isList := value.([]any); value == nil || value == "" || isList && len(list) == 0 {
			r.add(at, "%s", problem)
		}
	})
}

// oneOf wants a value of an enumeration, or none.
func (r *kindRules) oneOf(path string, allowed ...string) {
	r.each(path, func(at string, value any) {
		text, _ := value.(string)
		if text == "" || slices.Contains(allowed, text) {
			return
		}
		hint := ""
		if near := suggest.Name(text, allowed); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
		}
		r.add(at, "has to be one of %s%s", strings.Join(allowed, ", "), hint)
	})
}

func (r *kindRules) metadata(kind string, clusterWide bool, metadata map[string]any) {
	name, _ := metadata["name"].(string)
	var faults []string
	switch kind {
	case "Namespace", "Service":
		faults = validation.IsDNS1123Label(name)
	case "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding":
		faults = content.IsPathSegmentName(name)
	case "IPAddress":
	default:
		faults = validation.IsDNS1123Subdomain(name)
	}
	r.valid("metadata.name", fmt.Sprintf("is %q, which can't be the name of a %s", name, kind), faults)
	namespace, _ := metadata["namespace"].(string)
	switch {
	case clusterWide:
	case namespace == "":
		r.add("metadata.namespace", "is missing; a %s has one", kind)
	default:
		r.valid("metadata.namespace", fmt.Sprintf("is %q", namespace), validation.IsDNS1123Label(namespace))
	}
	for key, value := range mapAt(metadata, "labels") {
		text, _ := value.(string)
		r.valid(JoinPath("metadata.labels", key), "is no valid label", slices.Concat(
			validation.IsQualifiedName(strings.TrimSuffix(key, "-")), validation.IsValidLabelValue(text)))
	}
	for key := range mapAt(metadata, "annotations") {
		r.valid(JoinPath("metadata.annotations", key), "is no valid annotation",
			validation.IsQualifiedName(strings.ToLower(strings.TrimSuffix(key, "-"))))
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

// pod checks the specification of a pod; restarts are the policies that its owner allows.
func (r *kindRules) pod(at string, restarts ...string) {
	r.oneOf(at+".restartPolicy", restarts...)
	r.need(at+".containers", "is missing or empty; add a container")
	names := map[string]bool{}
	for _, containers := range []string{at + ".initContainers[]", at + ".containers[]"} {
		r.each(containers+".name", func(at string, value any) {
			name, _ := value.(string)
			switch {
			case name == "":
				r.add(at, "is missing")
			case names[name]:
				r.add(at, "is %q, as that of another container", name)
			default:
				r.valid(at, fmt.Sprintf("is %q", name), validation.IsDNS1123Label(name))
			}
			names[name] = true
		})
		r.need(containers+".image", "is missing; add it: such as nginx:1.29")
		r.oneOf(containers+".imagePullPolicy", "Always", "IfNotPresent", "Never")
		r.ports(containers+".ports[]", "containerPort")
	}
}

// ports checks ports, whose number is in a field of this name.
func (r *kindRules) ports(at, number string) {
	r.each(at+"."+number, func(at string, value any) {
		if port := whole(value); port < 1 || port > 65535 {
			r.add(at, "has to be a number from 1 to 65535")
		}
	})
	r.oneOf(at+".protocol", "TCP", "UDP", "SCTP")
}

func (r *kindRules) service(spec map[string]any) {
	r.oneOf("spec.type", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
	r.oneOf("spec.sessionAffinity", "None", "ClientIP")
	switch {
	case spec["type"] == "ExternalName":
		r.need("spec.externalName", "is missing; add it: the name that the service stands for")
	case spec["clusterIP"] != "None" && len(listAt(spec, "ports")) == 0:
		r.add("spec.ports", "is missing or empty; add a port, or set clusterIP to None")
	}
	r.ports("spec.ports[]", "port")
	if len(listAt(spec, "ports")) > 1 {
		r.need("spec.ports[].name", "is missing; add it: each of several ports needs a name")
	}
}

func (r *kindRules) binding(kind string) {
	r.need("roleRef.name", "is missing; add it: the name of the role")
	r.need("roleRef.kind", "is missing; add Role or ClusterRole")
	r.oneOf("roleRef.kind", "Role", "ClusterRole")
	r.oneOf("roleRef.apiGroup", "rbac.authorization.k8s.io")
	r.need("subjects[].name", "is missing; add it: the name of the subject")
	r.oneOf("subjects[].kind", "User", "Group", "ServiceAccount")
	r.each("subjects[]", func(at string, value any) {
		subject, _ := value.(map[string]any)
		namespace, _ := subject["namespace"].(string)
		if kind == "ClusterRoleBinding" && subject["kind"] == "ServiceAccount" && namespace == "" {
			r.add(at+".namespace", "is missing; add it: that of the service account")
		}
	})
}

// whole is a whole number; 0 for what is none.
func whole(value any) int64 {
	number, _ := value.(json.Number)
	whole, _ := number.Int64()
	return whole
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
