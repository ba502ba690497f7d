package provider_test

import (
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/registration"
	clusterv1beta2 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta2"
	musterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
)

// independent are the rows of the matrix that make an object, in a configuration
// where none refers to another, so that Terraform destroys all of them at once. What
// they need has somebody else made.
func independent(o *acctest.Outsider, n string) (rows []row, config string) {
	o.T.Helper()
	o.Namespace(n + "-held")
	set := &clusterv1beta2.ManagedClusterSet{}
	set.Name = n + "-theirs"
	o.Apply(set)
	role := &musterv1alpha1.AccessRole{Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}}
	role.Name = n + "-theirs"
	o.Apply(role)
	for _, r := range matrix(n) {
		switch r.resource {
		case "muster_cluster_acceptance", "muster_namespace": // which deletes nothing, and TestAccNamespaceThatCannotGoSaysWhy
			continue
		case "muster_managed_cluster_set_binding":
			r.name = set.Name
		}
		if r.namespace != "" {
			r.namespace = n + "-held"
		}
		rows = append(rows, r)
	}
	literal := strings.NewReplacer("muster_namespace.x.name", `"`+n+`-held"`, "muster_managed_cluster_set.x.name", `"`+set.Name+`"`,
		"muster_access_role.x.name", `"`+role.Name+`"`)
	return rows, literal.Replace(matrixConfig(n, rows, `"one"`, ""))
}

// Somebody's finalizer keeps every object of the hub. Ctrl-C ends the wait at once: the
// error names the finalizer and who set it, and the object stays in the state.
func TestAccAHeldDeletionSaysWhatHoldsIt(t *testing.T) {
	w, o := acctest.NewTerraform(t), acctest.Someone(t)
	rows, config := independent(o, "matrix-held")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(acctest.Excerpt(said))
	}
	token := regexp.MustCompile(`token_id = "([a-z0-9]+)"`).FindStringSubmatch(w.MustRun("state", "show", "-no-color", "muster_bootstrap_token.x"))
	for i := range rows {
		if rows[i].resource == "muster_bootstrap_token" {
			rows[i].object = &corev1.Secret{}
			rows[i].namespace, rows[i].name = registration.TokenSecret(token[1])
		}
		o.Patch(kube.Fresh(rows[i].object), rows[i].namespace, rows[i].name, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	}
	said, ok := w.Interrupt(func() {
		for _, r := range rows {
			object := kube.Fresh(r.object)
			o.Wait(object, r.namespace, r.name, func() bool { return object.GetDeletionTimestamp() != nil })
		}
	}, "destroy", "-auto-approve", "-no-color", "-input=false", "-parallelism=20")
	if ok {
		t.Error("nothing was held")
	}
	for _, block := range strings.Split(said, "Error: ")[1:] {
		if strings.Contains(block, "Interrupted: the deletion of") && !strings.Contains(block, `Finalizer example.com/hold, set by "kubectl-edit"`) {
			t.Errorf("it does not say what holds the object: %s", block)
		}
	}
	if count := strings.Count(said, "Interrupted: the deletion of"); count != len(rows) {
		t.Errorf("of %d objects %d are explained: %s", len(rows), count, said)
	}
	kept, _ := w.Run("state", "list")
	for _, r := range rows {
		if !strings.Contains(kept, r.address()) {
			t.Errorf("%s is no longer in the state: %s", r.resource, kept)
		}
		o.Patch(kube.Fresh(r.object), r.namespace, r.name, `{"metadata":{"finalizers":null}}`)
	}
	if said, ok := w.Destroy(); !ok {
		t.Error(acctest.Excerpt(said))
	}
	o.Remove(&clusterv1beta2.ManagedClusterSet{}, "", "matrix-held-theirs")
	o.Remove(&musterv1alpha1.AccessRole{}, "", "matrix-held-theirs")
}
