package admission

import (
	"context"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// agentWrites restores, when an agent writes its ManagedCluster, what users,
// bootstrap tokens and the hub have decided about the cluster. RBAC lets an
// agent update the whole object, so a hostile agent could otherwise choose
// which placements select it. An agent may change the addresses of its cluster,
// annotations with the agents' prefix, and its status except for the hub's own
// conditions. It may also take back the request to renew its certificate, once it
// has done so. Of the add-ons of its cluster it reports on what keepAddOn says.
//
// Everything else is restored without an error, because agents send back what
// they have read. What upstream refuses (an agent that accepts its cluster or
// moves it to another set) is left for the checks to refuse.
type agentWrites struct{}

var _ admission.MutationInterface = agentWrites{}

func (agentWrites) Handles(op admission.Operation) bool { return op == admission.Update }

// Admit restores what an agent may not change.
func (agentWrites) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	ofCluster := resource == schema.GroupResource{Group: cluster.GroupName, Resource: "managedclusters"}
	ofAddOn := resource == schema.GroupResource{Group: addon.GroupName, Resource: "managedclusteraddons"}
	if !ofCluster && !ofAddOn || len(cluster.AgentClusters(a.GetUserInfo().GetGroups())) == 0 {
		return nil
	}
	now, ok := a.GetObject().(*unstructured.Unstructured)
	before, had := a.GetOldObject().(*unstructured.Unstructured)
	if !ok || !had {
		return nil
	}
	sent := runtime.DeepCopyJSON(now.Object)
	switch {
	case ofAddOn && a.GetSubresource() == "status":
		keepAddOn(now, before)
	case ofAddOn: // RBAC lets an agent write nothing else of it
	case a.GetSubresource() == "":
		keepDecisions(now, before)
	case a.GetSubresource() == "status":
		keepVerdicts(now, before)
	}
	if !reflect.DeepEqual(sent, now.Object) {
		// The agent must not become the manager of these fields either, or
		// others who apply them would get conflicts.
		keep(now.Object, before.Object, "metadata", "managedFields")
	}
	return nil
}

// keepDecisions restores everything outside the status that an agent may not
// set.
func keepDecisions(now, before *unstructured.Unstructured) {
	labels := before.GetLabels()
	if set := now.GetLabels()[cluster.ClusterSetLabel]; set != "" && set != labels[cluster.ClusterSetLabel] {
		if labels == nil {
			labels = map[string]string{}
		}
		labels[cluster.ClusterSetLabel] = set // a move, which is refused in words
	}
	now.SetLabels(labels)

	annotations := map[string]string{}
	for k, v := range now.GetAnnotations() {
		if strings.HasPrefix(k, cluster.AgentAnnotationPrefix) {
			annotations[k] = v
		}
	}
	for k, v := range before.GetAnnotations() {
		_, sent := now.GetAnnotations()[k]
		answered := k == cluster.RenewCertificateAnnotation && !sent
		if !strings.HasPrefix(k, cluster.AgentAnnotationPrefix) && !answered {
			annotations[k] = v
		}
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	now.SetAnnotations(annotations)
	keep(now.Object, before.Object, "metadata", "finalizers")
	keep(now.Object, before.Object, "metadata", "ownerReferences")

	sent, ok := now.Object["spec"].(map[string]any)
	if !ok && now.Object["spec"] != nil {
		return // not an object, which the schema refuses
	}
	spec := map[string]any{}
	if had, ok := before.Object["spec"].(map[string]any); ok {
		spec = runtime.DeepCopyJSON(had)
	}
	const addresses, accepts = "managedClusterClientConfigs", "hubAcceptsClient"
	delete(spec, addresses)
	if v, ok := sent[addresses]; ok {
		spec[addresses] = v
	}
	if wants, _ := sent[accepts].(bool); wants {
		spec[accepts] = true // refused in words when it is news
	}
	now.Object["spec"] = spec
}

// hubsConditions are the conditions of a ManagedCluster that only the hub may
// set.
var hubsConditions = map[string]bool{
	cluster.ConditionHubAccepted: true,
	cluster.ConditionClockSynced: true,
	cluster.ConditionDeleting:    true,
}

// keepVerdicts restores the hub's conditions, and the condition that the
// cluster has joined: the hub accepts a first certificate request only from a
// cluster that has never joined.
func keepVerdicts(now, before *unstructured.Unstructured) {
	had, sent := conditions(before), conditions(now)
	pinned := map[string]any{}
	for _, c := range had {
		kind, joined := conditionType(c), false
		if kind == cluster.ConditionJoined {
			joined = c.(map[string]any)["status"] == "True"
		}
		if hubsConditions[kind] || joined {
			pinned[kind] = c
		}
	}
	out := make([]any, 0, len(sent)+len(pinned))
	for _, c := range sent {
		kind := conditionType(c)
		kept, ok := pinned[kind]
		switch {
		case ok:
			delete(pinned, kind)
			if kind == cluster.ConditionJoined && c.(map[string]any)["status"] == "True" {
				kept = c // the agent's own words
			}
			out = append(out, kept)
		case !hubsConditions[kind]:
			out = append(out, c)
		}
	}
	for _, c := range had {
		if _, left := pinned[conditionType(c)]; left {
			out = append(out, c)
		}
	}
	status, ok := now.Object["status"].(map[string]any)
	switch {
	case !ok && now.Object["status"] != nil, len(out) == 0 && len(sent) == 0:
		return
	case !ok:
		status = map[string]any{}
		now.Object["status"] = status
	}
	status["conditions"] = runtime.DeepCopyJSONValue(out)
}

func conditions(u *unstructured.Unstructured) []any {
	status, _ := u.Object["status"].(map[string]any)
	list, _ := status["conditions"].([]any)
	return list
}

func conditionType(c any) string {
	m, _ := c.(map[string]any)
	kind, _ := m["type"].(string)
	return kind
}

// keep restores the old value of a field.
func keep(now, before map[string]any, outer, inner string) {
	is, ok := now[outer].(map[string]any)
	if !ok {
		return
	}
	was, _ := before[outer].(map[string]any)
	if v, ok := was[inner]; ok {
		is[inner] = runtime.DeepCopyJSONValue(v)
	} else {
		delete(is, inner)
	}
}
