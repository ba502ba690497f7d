package admission

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
)

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
