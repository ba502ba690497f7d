package admission

import (
	"context"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
)

// writeAddOn writes an add-on of paris over another, as a member of a group.
func writeAddOn(t *testing.T, now, before, group string) map[string]any {
	t.Helper()
	object, old := object([]byte(now)), object([]byte(before))
	a := admission.NewAttributesRecord(object, old, schema.GroupVersionKind{}, "paris", "a", addonv1beta1.GroupVersion.WithResource("managedclusteraddons"),
		"status", admission.Update, nil, false, &user.DefaultInfo{Name: "somebody", Groups: []string{group}})
	if err := (agentWrites{}).Admit(context.Background(), a, nil); err != nil {
		t.Fatal(err)
	}
	return object.Object
}

func TestAgentsReportOnAddOnsAlone(t *testing.T) {
	status := func(fields string) string {
		return `{"metadata":{"namespace":"paris","name":"a"},"status":{` + fields + `}}`
	}
	const (
		subject = `"subject":{"user":"u","groups":["g"]}`
		account = `"subject":{"user":"system:serviceaccount:paris:a-agent"}`
		own     = `"customSigner":{"signerName":"example.org/s","subject":{"user":"u"}},"type":"customSigner"`
		older   = `"signerName":"kubernetes.io/kube-apiserver-client"`
	)
	client := func(fields string) string { return `{"type":"kubeClient","kubeClient":{` + fields + `}}` }
	list := func(registrations ...string) string {
		out := `"registrations":[`
		for i, r := range registrations {
			if i > 0 {
				out += ","
			}
			out += r
		}
		return out + "]"
	}
	condition := func(kind, status string) string { return `{"type":"` + kind + `","status":"` + status + `"}` }
	decided := status(`"configReferences":[{"resource":"addontemplates","desiredConfig":{"name":"a"}}],"supportedConfigs":[{"resource":"x"}],
		"namespace":"n","healthCheck":{"mode":"Customized"},"addOnMeta":{"displayName":"A"},"relatedObjects":[{"name":"o"}]`)
	for name, x := range map[string]struct{ before, now, want string }{
		"what it read":             {decided, decided, decided},
		"nothing":                  {decided, `{"metadata":{"namespace":"paris","name":"a"}}`, decided},
		"no status where none was": {`{"metadata":{}}`, `{"metadata":{}}`, `{"metadata":{}}`},
		"what counts": {decided, status(`"configReferences":[{"resource":"addontemplates","desiredConfig":{"name":"admin"}}],"supportedConfigs":[],
			"namespace":"kube-system","healthCheck":{"mode":"Lease"},"addOnMeta":{"displayName":"B"},"relatedObjects":[]`), decided},
		"what nobody has decided yet": {status(`"conditions":[]`), status(`"namespace":"n","configReferences":[{}],` + list(client(subject))), status(``)},

		"the driver csr":                      {status(list(client(subject))), status(list(client(subject + `,"driver":"csr"`))), status(list(client(subject + `,"driver":"csr"`)))},
		"the driver of one without a block":   {status(list(`{"type":"kubeClient"}`)), status(list(client(`"driver":"csr"`))), status(list(client(`"driver":"csr"`)))},
		"the driver token, and its subject":   {status(list(client(subject))), status(list(client(account + `,"driver":"token"`))), status(list(client(account + `,"driver":"token"`)))},
		"away from the driver token":          {status(list(client(account + `,"driver":"token"`))), status(list(client(`"subject":{},"driver":"csr"`))), status(list(client(`"driver":"csr"`)))},
		"no subject of its own":               {status(list(client(subject))), status(list(client(`"subject":{"user":"u","groups":["system:masters"]},"driver":"csr"`))), status(list(client(subject + `,"driver":"csr"`)))},
		"no other service account":            {status(list(client(subject))), status(list(client(`"subject":{"user":"system:serviceaccount:rome:a-agent"}`))), status(list(client(subject)))},
		"no groups of the service account":    {status(list(client(subject))), status(list(client(`"subject":{"user":"system:serviceaccount:paris:a-agent","groups":["g"]}`))), status(list(client(subject)))},
		"no other signer":                     {status(list("{" + own + "}")), status(list(`{"type":"customSigner","customSigner":{"signerName":"example.org/other"}}`)), status(list("{" + own + "}"))},
		"no other type":                       {status(list("{" + own + "}")), status(list(client(subject))), status(list("{" + own + "}"))},
		"no registration more":                {status(list(client(subject))), status(list(client(subject), client(subject))), status(list(client(subject)))},
		"no registration less":                {status(list(client(subject), "{"+own+"}")), status(list(client(subject))), status(list(client(subject), "{"+own+"}"))},
		"in v1alpha1: the driver":             {status(list(`{` + older + `,` + subject + `}`)), status(`"kubeClientDriver":"csr",` + list(`{`+older+`,`+subject+`}`)), status(`"kubeClientDriver":"csr",` + list(`{`+older+`,`+subject+`}`))},
		"in v1alpha1: the token's subject":    {status(list(`{` + older + `,` + subject + `}`)), status(list(`{` + older + `,` + account + `}`)), status(list(`{` + older + `,` + account + `}`))},
		"in v1alpha1: no subject of its own":  {status(list(`{` + older + `,` + subject + `}`)), status(list(`{` + older + `,"subject":{"user":"root"}}`)), status(list(`{` + older + `,` + subject + `}`))},
		"in v1alpha1: nothing of own signers": {status(list(`{"signerName":"example.org/s"}`)), status(list(`{"signerName":"example.org/s",` + account + `}`)), status(list(`{"signerName":"example.org/s"}`))},

		"its conditions": {
			status(`"conditions":[` + condition("Available", "True") + `,` + condition("Configured", "True") + `]`),
			status(`"conditions":[` + condition("Available", "False") + `,` + condition("ClusterCertificateRotated", "True") + `,` + condition("Configured", "True") + `]`),
			status(`"conditions":[` + condition("Available", "False") + `,` + condition("ClusterCertificateRotated", "True") + `,` + condition("Configured", "True") + `]`),
		},
		"no conditions of the hub": {
			status(`"conditions":[` + condition("Configured", "False") + `,` + condition("RegistrationApplied", "False") + `]`),
			status(`"conditions":[` + condition("Configured", "True") + `,` + condition("ManifestApplied", "True") + `,` + condition("HookManifestCompleted", "True") + `]`),
			status(`"conditions":[` + condition("Configured", "False") + `,` + condition("RegistrationApplied", "False") + `]`),
		},
		"no conditions": {status(`"conditions":[` + condition("Available", "True") + `]`), status(`"conditions":[]`), status(``)},
		"nonsense":      {decided, `{"metadata":{"namespace":"paris","name":"a"},"status":7}`, `{"metadata":{"namespace":"paris","name":"a"},"status":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := writeAddOn(t, x.now, x.before, cluster.Group("paris")), object([]byte(x.want)).Object
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%v, want\n%v", got, want)
			}
			if got, sent := writeAddOn(t, x.now, x.before, "managers"), object([]byte(x.now)).Object; !reflect.DeepEqual(got, sent) {
				t.Errorf("a manager's write of\n%v became\n%v", sent, got)
			}
		})
	}
}

// Whatever an agent writes about an add-on: it breaks nothing, and what the hub has
// decided stays.
func FuzzAgentWritesOfAddOns(f *testing.F) {
	for _, x := range []struct{ now, before string }{
		{`{"status":{"configReferences":[{}],"conditions":[1,null,{"type":2},{"type":"Configured"}]}}`, `{"status":{"conditions":[{"type":"Configured","status":"True"},[]]}}`},
		{`{"metadata":[],"status":{"registrations":[7,{"type":"kubeClient","kubeClient":7}]}}`, `{"status":{"registrations":[{"type":"kubeClient"},{"type":"kubeClient","kubeClient":7}]}}`},
		{`{"status":{"registrations":[{"signerName":"kubernetes.io/kube-apiserver-client","subject":7}]}}`, `{"status":{"registrations":[{"signerName":"kubernetes.io/kube-apiserver-client","subject":[]}]}}`},
		{`{"status":null}`, `{"status":7}`},
	} {
		f.Add([]byte(x.now), []byte(x.before))
	}
	f.Fuzz(func(t *testing.T, now, before []byte) {
		if object(now) == nil || object(before) == nil {
			return
		}
		got := writeAddOn(t, string(now), string(before), cluster.Group("paris"))
		if again := writeAddOn(t, string(now), string(before), cluster.Group("paris")); !reflect.DeepEqual(again, got) {
			t.Errorf("once %v, once %v", got, again)
		}
		status, isObject := got["status"].(map[string]any)
		had, wasObject := object(before).Object["status"].(map[string]any)
		if isObject && wasObject && !reflect.DeepEqual(status["configReferences"], had["configReferences"]) {
			t.Errorf("the configurations %v became %v", had["configReferences"], status["configReferences"])
		}
	})
}
