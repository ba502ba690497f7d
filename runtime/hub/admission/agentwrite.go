package admission

import (
	"context"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
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

// hubsAddOnConditions are the conditions of a ManagedClusterAddOn that only the hub, or
// the add-on's manager, may set.
var hubsAddOnConditions = map[string]bool{
	addon.ConditionConfigured:                      true,
	addon.ConditionProgressing:                     true,
	addon.ConditionManifestApplied:                 true,
	addon.ConditionHostingManifestApplied:          true,
	"HostingClusterValidity":                       true,
	"HookManifestCompleted":                        true,
	registration.ConditionRegistrationApplied:      true,
	registration.ConditionTokenInfrastructureReady: true,
}

// keepAddOn restores, when an agent writes the status of an add-on of its cluster,
// what the hub or the add-on's manager has decided: which configurations count, and so
// which template and which rights on the hub, which credentials the add-on gets and
// where, and the conditions about it. An agent reports on its cluster, on the
// add-on's health, and on the credentials; it chooses how it obtains those for the hub.
func keepAddOn(now, before *unstructured.Unstructured) {
	status, ok := now.Object["status"].(map[string]any)
	if !ok && now.Object["status"] != nil {
		return // not an object, which the schema refuses
	}
	was, _ := before.Object["status"].(map[string]any)
	if status == nil {
		if len(was) == 0 {
			return
		}
		status = map[string]any{}
		now.Object["status"] = status
	}
	for _, field := range []string{"configReferences", "supportedConfigs", "namespace", "healthCheck", "addOnMeta", "addOnConfiguration", "relatedObjects"} {
		keep(now.Object, before.Object, "status", field)
	}
	keepRegistrations(status, was, now.GetNamespace(), now.GetName())
	keepConditions(status, conditions(now), conditions(before))
}

// keepRegistrations restores the registrations, but for what an agent writes into those
// for the hub's API: the driver, and with the driver token the subject.
func keepRegistrations(status, was map[string]any, namespace, name string) {
	sent, _ := status["registrations"].([]any)
	had, _ := was["registrations"].([]any)
	if len(had) == 0 {
		delete(status, "registrations")
		return
	}
	account := registration.ServiceAccountUser(namespace, name)
	out := make([]any, len(had))
	for i := range had {
		out[i] = runtime.DeepCopyJSONValue(had[i])
		if len(sent) == len(had) {
			keepRegistration(out[i], sent[i], account)
		}
	}
	status["registrations"] = out
}

// keepRegistration changes one registration as far as an agent may.
func keepRegistration(out, sent any, account string) {
	kept, ok := out.(map[string]any)
	wanted, also := sent.(map[string]any)
	if !ok || !also {
		return
	}
	switch {
	case kept["signerName"] == addon.KubeClientSigner: // v1alpha1
		if wanted["signerName"] == kept["signerName"] {
			takeSubject(kept, wanted, account)
		}
	case kept["type"] == string(addonv1beta1.RegistrationTypeKubeClient) && wanted["type"] == kept["type"]:
		client, ok := wanted["kubeClient"].(map[string]any)
		if !ok {
			return
		}
		have, ok := kept["kubeClient"].(map[string]any)
		if !ok {
			have = map[string]any{}
			kept["kubeClient"] = have
		}
		if driver, ok := client["driver"]; ok {
			have["driver"] = driver
		} else {
			delete(have, "driver")
		}
		takeSubject(have, client, account)
	}
}

// takeSubject takes the subject that an agent writes when it goes over to tokens, or
// away from them: the service account, or none, so that the hub fills it in.
func takeSubject(kept, wanted map[string]any, account string) {
	subject, _ := wanted["subject"].(map[string]any)
	switch {
	case len(subject) == 0:
		delete(kept, "subject")
	case reflect.DeepEqual(subject, map[string]any{"user": account}):
		kept["subject"] = map[string]any{"user": account}
	}
}

// keepConditions restores the conditions that are not an agent's.
func keepConditions(status map[string]any, sent, had []any) {
	pinned := map[string]any{}
	for _, c := range had {
		if kind := conditionType(c); hubsAddOnConditions[kind] {
			pinned[kind] = c
		}
	}
	out := make([]any, 0, len(sent)+len(pinned))
	for _, c := range sent {
		kind := conditionType(c)
		if kept, ok := pinned[kind]; ok {
			delete(pinned, kind)
			c = kept
		} else if hubsAddOnConditions[kind] {
			continue
		}
		out = append(out, c)
	}
	for _, c := range had {
		if _, left := pinned[conditionType(c)]; left {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		delete(status, "conditions")
		return
	}
	status["conditions"] = runtime.DeepCopyJSONValue(out)
}
