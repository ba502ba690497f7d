package hostile

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	addonv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// What one version has as a field and the other as an annotation is not a way around
// the rights to either.
func TestVersionsOfAddOnsAreNoWayAroundRights(t *testing.T) {
	ctx := context.Background()
	const name, other = "addon-versions", "addon-versions-other"
	agent := hub.Joined(t, name, "a")
	hub.Joined(t, other, "a")
	c := hub.admin(t)
	addOn := func(namespace string) *addonv1alpha1.ManagedClusterAddOn {
		a := &addonv1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "x"}, Spec: addonv1alpha1.ManagedClusterAddOnSpec{InstallNamespace: "mine"}}
		testkit.Must(t, c.Create(ctx, a))
		a.Status.Registrations = []addonv1alpha1.RegistrationConfig{{SignerName: addon.KubeClientSigner, Subject: addonv1alpha1.Subject{User: "u", OrganizationUnits: []string{"o"}}}}
		testkit.Must(t, c.Status().Update(ctx, a))
		return a
	}
	a := addOn(name)
	addOn(other)
	unchanged := func(what string) {
		t.Helper()
		have := &addonv1alpha1.ManagedClusterAddOn{}
		testkit.Must(t, c.Get(ctx, client.ObjectKeyFromObject(a), have))
		if have.Spec.InstallNamespace != "mine" || len(have.Annotations) > 0 || have.Status.KubeClientDriver != "" || have.Status.AddOnConfiguration.CRDName != "" ||
			len(have.Status.Registrations) != 1 || strings.Join(have.Status.Registrations[0].Subject.OrganizationUnits, "") != "o" {
			t.Errorf("%s: the add-on is %+v", what, have)
		}
		harmless(t, what, nil)
	}
	newer, older := "addon/v1beta1 managedclusteraddons", "addon/v1alpha1 managedclusteraddons"
	const installNamespace = `"` + addon.InstallNamespaceAnnotation + `":"kube-system"`
	const olderFields = `"` + addon.OlderFieldsAnnotation + `":"{\"addOnConfiguration\":{\"crdName\":\"stolen\"},\"kubeClientDriver\":\"token\",\"organizationUnits\":[{\"index\":0,\"user\":\"u\",\"units\":[\"admins\"]}]}"`

	// The agent may write the status.
	for _, kind := range []string{newer, older} {
		refused(t, "an agent changes its add-on", patched(resource(t, agent, kind, name), "x", `{"metadata":{"annotations":{`+installNamespace+`}}}`))
		refused(t, "an agent writes the status of another cluster's add-on", patched(resource(t, agent, kind, other), "x", `{"status":{"namespace":"n"}}`, "status"))
		_, err := resource(t, agent, kind, other).Get(ctx, "x", metav1.GetOptions{})
		refused(t, "an agent reads another cluster's add-on", err)
	}
	for _, annotation := range []string{installNamespace, olderFields} {
		for _, kind := range []string{newer, older} {
			testkit.Must(t, patched(resource(t, agent, kind, name), "x", `{"metadata":{"annotations":{`+annotation+`}}}`, "status"))
			unchanged("an agent changes annotations along with the status")
		}
	}
	for what, registration := range map[string]string{
		"a type of registration": `{"type":"root"}`, "a signer": `{"type":"customSigner","customSigner":{"signerName":"x"}}`,
		"a subject": `{"type":"kubeClient","kubeClient":{"subject":{"user":"u","groups":["system:masters"]}}}`,
	} {
		testkit.Must(t, patched(resource(t, agent, newer, name), "x", `{"status":{"registrations":[`+registration+`]}}`, "status"))
		unchanged("an agent invents " + what)
	}

	// A manager may write add-ons, and not their status.
	manager := hub.Tenant(t, name, "addon-manager", rbacv1.PolicyRule{APIGroups: []string{addon.GroupName}, Resources: []string{"managedclusteraddons"}, Verbs: []string{"*"}})
	testkit.Must(t, patched(resource(t, manager, newer, name), "x", `{"metadata":{"annotations":{`+olderFields+`}}}`))
	unchanged("a manager changes the status by an annotation")
	testkit.Must(t, patched(resource(t, manager, newer, name), "x", `{"metadata":{"annotations":{"`+addon.OlderFieldsAnnotation+`":null}}}`))
	unchanged("a manager removes a part of the status by an annotation")
	for _, bad := range []string{"../../kube-system", "Kube", "a.b", strings.Repeat("a", 64), "a\\nb"} {
		refusedFor(t, "a manager installs into "+bad, patched(resource(t, manager, newer, name), "x", `{"metadata":{"annotations":{"`+addon.InstallNamespaceAnnotation+`":"`+bad+`"}}}`), addon.InstallNamespaceAnnotation)
	}
	testkit.Must(t, created(t, resource(t, manager, newer, name), `{"apiVersion":"addon.open-cluster-management.io/v1beta1","kind":"ManagedClusterAddOn","metadata":{"name":"made","annotations":{`+olderFields+`}},"spec":{}}`))
	made := &addonv1alpha1.ManagedClusterAddOn{}
	testkit.Must(t, c.Get(ctx, client.ObjectKey{Namespace: name, Name: "made"}, made))
	if made.Status.KubeClientDriver != "" || made.Status.AddOnConfiguration.CRDName != "" || len(made.Annotations) > 0 {
		t.Errorf("a manager makes an add-on with a status: %+v", made)
	}
	harmless(t, "a manager makes an add-on with a status", nil)
}
