package memcluster

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/kinds"
)

// resource is what a cluster serves under a name in a group and version.
type resource struct {
	kind       string
	namespaced bool
}

// builtIn are the resources of Kubernetes that agents and usual works have. Those of the
// agent come with their definitions.
func builtIn() map[schema.GroupVersionResource]resource {
	all := map[schema.GroupVersionResource]resource{}
	for _, k := range kinds.Kubernetes() {
		all[k.GroupVersion().WithResource(k.Resource)] = resource{k.Kind, k.Scope.Name() == "namespace"}
	}
	for _, r := range []struct{ group, version, name, kind string }{
		{"", "v1", "configmaps", "ConfigMap"},
		{"", "v1", "events", "Event"},
		{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"},
		{"", "v1", "pods", "Pod"},
		{"", "v1", "secrets", "Secret"},
		{"", "v1", "serviceaccounts", "ServiceAccount"},
		{"", "v1", "services", "Service"},
		{"apps", "v1", "daemonsets", "DaemonSet"},
		{"apps", "v1", "deployments", "Deployment"},
		{"apps", "v1", "statefulsets", "StatefulSet"},
		{"batch", "v1", "cronjobs", "CronJob"},
		{"batch", "v1", "jobs", "Job"},
		{"coordination.k8s.io", "v1", "leases", "Lease"},
		{"events.k8s.io", "v1", "events", "Event"},
		{"networking.k8s.io", "v1", "ingresses", "Ingress"},
		{"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"},
		{"rbac.authorization.k8s.io", "v1", "roles", "Role"},
	} {
		gvr := schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.name}
		all[gvr] = resource{r.kind, true}
	}
	for _, r := range []struct{ group, version, name, kind string }{
		{"", "v1", "namespaces", "Namespace"},
		{"", "v1", "nodes", "Node"},
		{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"},
		{"authentication.k8s.io", "v1", "tokenreviews", "TokenReview"},
		{"authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"},
		{"authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview"},
		{"authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview"},
		{"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding"},
		{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole"},
	} {
		gvr := schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.name}
		all[gvr] = resource{r.kind, false}
	}
	return all
}

// define serves the resource of a definition that was written.
func (c *Cluster) define(o *unstructured.Unstructured) {
	if o.GetKind() != "CustomResourceDefinition" {
		return
	}
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(o.Object, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		if version, ok := v.(map[string]any)["name"].(string); ok {
			gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
			c.resources[gvr] = resource{kind, scope == "Namespaced"}
		}
	}
}

func (c *Cluster) resourceOf(gvk schema.GroupVersionKind) (schema.GroupVersionResource, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for gvr, r := range c.resources {
		if gvr.GroupVersion() == gvk.GroupVersion() && r.kind == gvk.Kind {
			return gvr, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// complete sets what the API server and the cluster's controllers would come to: the status,
// and who has made a certificate request.
func complete(o *unstructured.Unstructured) {
	status := map[string]any{}
	switch o.GetKind() {
	case "Namespace":
		status["phase"] = "Active"
	case "CustomResourceDefinition":
		names, _, _ := unstructured.NestedMap(o.Object, "spec", "names")
		status["acceptedNames"] = names
		status["conditions"] = []any{condition("Established"), condition("NamesAccepted")}
		status["storedVersions"] = []any{}
	case "Deployment", "StatefulSet":
		replicas, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if !found {
			replicas = 1
		}
		for _, count := range []string{
			"replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas",
		} {
			status[count] = replicas
		}
		status["observedGeneration"] = o.GetGeneration()
		status["conditions"] = []any{condition("Available")}
	case "DaemonSet":
		status["observedGeneration"] = o.GetGeneration()
	case "CertificateSigningRequest":
		sign(o)
		return
	case "Job":
		status["succeeded"] = int64(1)
		status["conditions"] = []any{condition("Complete")}
	default:
		return
	}
	o.Object["status"] = status
}

func condition(kind string) map[string]any {
	return map[string]any{"type": kind, "status": "True", "reason": "InMemory", "message": ""}
}

// sameBody says that two states of an object differ in metadata and status at most.
func sameBody(a, b *unstructured.Unstructured) bool {
	body := func(o *unstructured.Unstructured) map[string]any {
		rest := maps.Clone(o.Object)
		delete(rest, "metadata")
		delete(rest, "status")
		return rest
	}
	return reflect.DeepEqual(body(a), body(b))
}

// merge is a JSON merge patch (RFC 7396) of what decode returns.
func merge(into, patch map[string]any) {
	for k, v := range patch {
		inner, isMap := v.(map[string]any)
		old, wasMap := into[k].(map[string]any)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && wasMap:
			merge(old, inner)
		case isMap:
			made := map[string]any{}
			merge(made, inner)
			into[k] = made
		default:
			into[k] = v
		}
	}
}

// metadataOnly is an object as clients see it that ask for metadata alone.
func metadataOnly(data []byte) []byte {
	var o struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(data, &o); err != nil {
		panic(err) // encode wrote it
	}
	return slices.Concat(
		[]byte(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`), o.Metadata, []byte("}"))
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func decode(data []byte) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(data); err != nil {
		panic(err) // encode wrote it
	}
	return o
}
