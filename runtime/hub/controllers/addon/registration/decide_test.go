package registration

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

func kubeClient() v1alpha1.RegistrationSpec {
	return v1alpha1.RegistrationSpec{Type: v1alpha1.RegistrationTypeKubeClient}
}

func customSigner(name string, subject *v1alpha1.Subject) v1alpha1.RegistrationSpec {
	return v1alpha1.RegistrationSpec{Type: v1alpha1.RegistrationTypeCustomSigner, CustomSigner: &v1alpha1.CustomSignerRegistrationConfig{
		SignerName: name, Subject: subject, SigningCA: v1alpha1.SigningCARef{Name: "ca"},
	}}
}

func TestRegistrations(t *testing.T) {
	const (
		agent  = `"subject":{"user":"system:open-cluster-management:cluster:c1:addon:a:agent:a-agent","groups":["system:open-cluster-management:cluster:c1:addon:a","system:open-cluster-management:addon:a"]}`
		forHub = `"signerName":"kubernetes.io/kube-apiserver-client"`
	)
	for name, c := range map[string]struct {
		specs         []v1alpha1.RegistrationSpec
		driver        string
		want, problem string
	}{
		"none":                                {want: `null`},
		"for the hub":                         {specs: []v1alpha1.RegistrationSpec{kubeClient()}, want: `[{` + forHub + `,` + agent + `}]`},
		"for the hub, driver csr":             {specs: []v1alpha1.RegistrationSpec{kubeClient()}, driver: "csr", want: `[{` + forHub + `,` + agent + `}]`},
		"for the hub, driver token":           {specs: []v1alpha1.RegistrationSpec{kubeClient()}, driver: "token", want: `[{` + forHub + `,"subject":{"user":"system:serviceaccount:c1:a-agent"}}]`},
		"twice":                               {specs: []v1alpha1.RegistrationSpec{kubeClient(), kubeClient()}, want: `[{` + forHub + `,` + agent + `},{` + forHub + `,` + agent + `}]`},
		"a signer":                            {specs: []v1alpha1.RegistrationSpec{customSigner("example.org/s", nil)}, want: `[{"signerName":"example.org/s",` + agent + `}]`},
		"a signer is no matter of the driver": {specs: []v1alpha1.RegistrationSpec{customSigner("example.org/s", nil)}, driver: "token", want: `[{"signerName":"example.org/s",` + agent + `}]`},
		"a subject counts whole": {
			specs: []v1alpha1.RegistrationSpec{customSigner("example.org/s", &v1alpha1.Subject{OrganizationUnits: []string{"ou"}})},
			want:  `[{"signerName":"example.org/s","subject":{"organizationUnit":["ou"]}}]`,
		},
		"an empty subject": {specs: []v1alpha1.RegistrationSpec{customSigner("example.org/s", &v1alpha1.Subject{})}, want: `[{"signerName":"example.org/s"}]`},
		"no signer":        {specs: []v1alpha1.RegistrationSpec{{Type: v1alpha1.RegistrationTypeCustomSigner}, kubeClient()}, want: `[{` + forHub + `,` + agent + `}]`},
		"the order stays":  {specs: []v1alpha1.RegistrationSpec{customSigner("z.org/s", nil), kubeClient(), customSigner("a.org/s", nil)}, want: `[{"signerName":"z.org/s",` + agent + `},{` + forHub + `,` + agent + `},{"signerName":"a.org/s",` + agent + `}]`},
		"a signer of Kubernetes": {
			specs:   []v1alpha1.RegistrationSpec{kubeClient(), customSigner("kubernetes.io/kube-apiserver-client", &v1alpha1.Subject{Groups: []string{"system:masters"}})},
			want:    `[{` + forHub + `,` + agent + `}]`,
			problem: `spec.registration[1].customSigner.signerName of the AddOnTemplate t is "kubernetes.io/kube-apiserver-client"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			template := &v1alpha1.AddOnTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
			template.Spec.Registration = c.specs
			a := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "c1", Name: "a"}}
			a.Status.KubeClientDriver = c.driver
			got, problem := registrations(template, a)
			text, err := json.Marshal(got)
			testkit.Must(t, err)
			if string(text) != c.want {
				t.Errorf("got %s\nwant %s", text, c.want)
			}
			if (problem == nil) != (c.problem == "") || problem != nil && !strings.Contains(problem.Error(), c.problem) {
				t.Errorf("got the problem %v, want %q", problem, c.problem)
			}
		})
	}
}

func TestApplied(t *testing.T) {
	for want, problem := range map[string]error{
		"True/SetPermissionApplied/Registration of the addon agent is configured":    nil,
		"False/PermissionConfigPending/registration subject not ready":               errPending,
		"False/SetPermissionFailed/Failed to set permission for hub agent: it broke": errors.New("it broke"),
	} {
		c := applied(problem)
		if got := strings.Join([]string{string(c.Status), c.Reason, c.Message}, "/"); c.Type != "RegistrationApplied" || got != want {
			t.Errorf("got %s %s, want %s", c.Type, got, want)
		}
	}
	if c := applied(errors.New(strings.Repeat("ü", 32768))); len(c.Message) > 32768 {
		t.Errorf("a message of %d characters, which no API server takes", len(c.Message))
	}
}
