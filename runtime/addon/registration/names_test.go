package registration_test

import (
	"testing"

	addonv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1beta1"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/registration"
)

func TestNames(t *testing.T) {
	for name, x := range map[string]struct{ got, want string }{
		"user":                 {registration.User("c1", "a", "g"), "system:open-cluster-management:cluster:c1:addon:a:agent:g"},
		"template's agent":     {registration.User("c1", "a", registration.TemplateAgent("a")), "system:open-cluster-management:cluster:c1:addon:a:agent:a-agent"},
		"group in the cluster": {registration.Groups("c1", "a")[0], "system:open-cluster-management:cluster:c1:addon:a"},
		"group everywhere":     {registration.Groups("c1", "a")[1], "system:open-cluster-management:addon:a"},
		"service account":      {registration.ServiceAccount("a"), "a-agent"},
		"its user":             {registration.ServiceAccountUser("c1", "a"), "system:serviceaccount:c1:a-agent"},
		"its role":             {registration.TokenRole("a"), "a-token-role"},
		"secret for the hub":   {registration.KubeClientSecret("a"), "a-hub-kubeconfig"},
		"secret of a signer":   {registration.CustomSignerSecret("a", "example.com/x/y"), "a-example.com-x-y-client-cert"},
		"request":              {registration.RequestPrefix("c1", "a"), "addon-c1-a-"},
		"label of the cluster": {registration.RequestLabels("c1", "a")["open-cluster-management.io/cluster-name"], "c1"},
		"label of the add-on":  {registration.RequestLabels("c1", "a")["open-cluster-management.io/addon-name"], "a"},
		"DNS name":             {registration.DNSName("a"), "a.addon.open-cluster-management.io"},
	} {
		if x.got != x.want {
			t.Errorf("%s: got %s, want %s", name, x.got, x.want)
		}
	}
}

func TestInstallNamespace(t *testing.T) {
	const annotation = "addon.open-cluster-management.io/v1alpha1-install-namespace"
	for _, x := range []struct{ status, annotated, want string }{
		{"", "", "open-cluster-management-agent-addon"},
		{"", "annotated", "annotated"},
		{"said", "annotated", "said"},
		{"said", "", "said"},
	} {
		a := addOn(nil)
		a.Status.Namespace = x.status
		if x.annotated != "" {
			a.Annotations = map[string]string{annotation: x.annotated}
		}
		if got := registration.InstallNamespace(a); got != x.want {
			t.Errorf("%+v: got %s", x, got)
		}
	}
}

func TestHostingCluster(t *testing.T) {
	a := addOn(nil)
	if got := registration.HostingCluster(a); got != "" {
		t.Errorf("got %s", got)
	}
	a.Annotations = map[string]string{"addon.open-cluster-management.io/hosting-cluster-name": "h1"}
	if got := registration.HostingCluster(a); got != "h1" {
		t.Errorf("got %s", got)
	}
}

func addOn(registrations []addonv1beta1.RegistrationConfig) *addonv1beta1.ManagedClusterAddOn {
	a := &addonv1beta1.ManagedClusterAddOn{}
	a.Namespace, a.Name = "c1", "a"
	a.Status.Registrations = registrations
	return a
}
