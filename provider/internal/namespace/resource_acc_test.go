package namespace_test

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	corev1 "k8s.io/api/core/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
)

const address = "muster_namespace.test"

func config(name, body string) string {
	return fmt.Sprintf("resource \"muster_namespace\" \"test\" {\n  name = %q\n%s\n}\n", name, body)
}

func planned(action plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, action)}}
}

func TestAccNamespace(t *testing.T) {
	t.Parallel() // A hub takes five seconds to delete a namespace.
	const name = "ns-basic"
	o := acctest.Someone(t)
	full := config(name, `  labels = { team = "shop" }
  annotations = { owner = "Joe's team" }`)
	is := func(labels, annotations map[string]string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			object := &corev1.Namespace{}
			o.Get(object, "", name)
			for key, want := range labels {
				if object.Labels[key] != want {
					return fmt.Errorf("label %s is %q, want %q", key, object.Labels[key], want)
				}
			}
			for key, want := range annotations {
				if object.Annotations[key] != want {
					return fmt.Errorf("annotation %s is %q, want %q", key, object.Annotations[key], want)
				}
			}
			return nil
		}
	}
	imported := resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateId: name,
		ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
	}
	acctest.Run(t,
		resource.TestStep{Config: config(name, "")},
		imported,
		resource.TestStep{Config: full, Check: is(map[string]string{"team": "shop"}, map[string]string{"owner": "Joe's team"}), ConfigPlanChecks: planned(plancheck.ResourceActionUpdate)},
		imported,
		// Edited outside: what the configuration sets is repaired, the rest is left.
		resource.TestStep{
			PreConfig: func() {
				o.Patch(&corev1.Namespace{}, "", name, `{"metadata":{"labels":{"team":"theirs","more":"yes"},"annotations":{"owner":null}}}`)
			},
			Config: full, ConfigPlanChecks: planned(plancheck.ResourceActionUpdate),
			Check: is(map[string]string{"team": "shop", "more": "yes"}, map[string]string{"owner": "Joe's team"}),
		},
		// A foreign manager of the same value is no reason for a plan.
		resource.TestStep{
			PreConfig: func() {
				object := &corev1.Namespace{}
				object.Name, object.Labels = name, map[string]string{"team": "shop"}
				o.Apply(object)
			},
			Config: full, PlanOnly: true,
		},
		resource.TestStep{
			PreConfig: func() {
				object := &corev1.Namespace{}
				object.Name, object.Labels = name, map[string]string{"team": "theirs"}
				o.Apply(object)
			},
			Config:      config(name, "labels = { team = \"shop\" }\nforce_conflicts = false"),
			ExpectError: acctest.Saying(`field .metadata.labels.team is owned by "kubectl-edit"`),
		},
		resource.TestStep{Config: full, ConfigPlanChecks: planned(plancheck.ResourceActionUpdate), Check: is(map[string]string{"team": "shop"}, nil)},
		resource.TestStep{
			PreConfig: func() { o.Remove(&corev1.Namespace{}, "", name) },
			Config:    full, ConfigPlanChecks: planned(plancheck.ResourceActionCreate),
		},
		resource.TestStep{Config: config(name, ""), ConfigPlanChecks: planned(plancheck.ResourceActionUpdate), Check: is(map[string]string{"team": ""}, map[string]string{"owner": ""})},
	)
	if o.Exists(&corev1.Namespace{}, "", name) {
		t.Error("the namespace outlived its resource")
	}
}

func TestAccNamespaceBadInput(t *testing.T) {
	t.Parallel() // A hub takes five seconds to delete a namespace.
	for name, test := range map[string]struct{ config, want string }{
		"name":        {config("No Namespace", ""), `"No Namespace" cannot be used as namespace`},
		"default":     {config("default", ""), `everybody's`},
		"kubernetes":  {config("kube-system", ""), `Kubernetes' own`},
		"hub":         {config("open-cluster-management-hub", ""), `own components`},
		"handed over": {config("ok", `labels = { "`+cluster.NameLabel+`" = "paris" }`), `hands the namespace over`},
		"own name":    {config("ok", `labels = { "kubernetes.io/metadata.name" = "ok" }`), `Kubernetes sets it`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{Config: test.config, PlanOnly: true, ExpectError: acctest.Saying(test.want)})
		})
	}
}

// Everything that needs a namespace is made after it and destroyed before it, by
// references alone.
func TestAccNamespaceHoldsAPlacement(t *testing.T) {
	t.Parallel() // A hub takes five seconds to delete a namespace.
	const name = "ns-holds"
	acctest.Run(t, resource.TestStep{Config: config(name, "") + `
resource "muster_managed_cluster_set_binding" "test" {
  namespace   = muster_namespace.test.name
  cluster_set = "global"
}
resource "muster_placement" "test" {
  namespace = muster_managed_cluster_set_binding.test.namespace
  name      = "where"
}
`})
	if acctest.Someone(t).Exists(&corev1.Namespace{}, "", name) {
		t.Error("the namespace outlived its resource")
	}
}

func TestAccNamespaceThatOthersUseIsNotDeleted(t *testing.T) {
	t.Parallel() // A hub takes five seconds to delete a namespace.
	const name = "ns-used"
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	if said, ok := w.Apply(config(name, "")); !ok {
		t.Fatal(said)
	}
	theirs := &clusterv1beta1.Placement{}
	theirs.Namespace, theirs.Name = name, "theirs"
	o.Apply(theirs)
	said, ok := w.Destroy()
	if ok {
		t.Error("their placement was deleted")
	}
	acctest.Says(t, said, `Namespace "ns-used" is not empty`, `placement "theirs"`, "force_destroy = true")
	object := &corev1.Namespace{}
	if o.Get(object, "", name); object.DeletionTimestamp != nil {
		t.Error("its deletion was asked for")
	}
	if said, ok = w.Apply(config(name, "force_destroy = true")); !ok {
		t.Fatal(said)
	}
	if said, ok = w.Destroy(); !ok {
		t.Error(said)
	}
}

// The message of a deletion that takes too long names the finalizer and the object.
func TestAccNamespaceThatCannotGoSaysWhy(t *testing.T) {
	t.Parallel() // A hub takes five seconds to delete a namespace.
	const name = "ns-held"
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	if said, ok := w.Apply(config(name, "force_destroy = true\n  timeouts {\n    delete = \"3s\"\n  }")); !ok {
		t.Fatal(said)
	}
	held := &clusterv1beta1.Placement{}
	held.Namespace, held.Name, held.Finalizers = name, "held", []string{"example.com/wait"}
	o.Apply(held)
	release := func() {
		if o.Exists(&clusterv1beta1.Placement{}, name, "held") {
			o.Patch(&clusterv1beta1.Placement{}, name, "held", `{"metadata":{"finalizers":null}}`)
		}
	}
	t.Cleanup(release)
	said, ok := w.Destroy()
	if ok {
		t.Error("it can't be gone")
	}
	acctest.Says(t, said, `Namespace "ns-held" is not gone yet`, `placement "held", with the finalizers example.com/wait`, "kubectl api-resources")
	said = w.Plan(config(name, "force_destroy = true"))
	acctest.Says(t, said, `Being deleted: namespace "ns-held"`)
	release()
	if said, ok = w.Destroy(); !ok {
		t.Error(said)
	}
}

func TestAccNamespaceOfOthersIsNotTakenOverInSilence(t *testing.T) {
	t.Parallel() // A hub takes five seconds to delete a namespace.
	const name = "ns-theirs"
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	o.Namespace(name)
	acctest.Says(t, w.Plan(config(name, "")), `Warning: Exists already: namespace "ns-theirs"`, "The apply will fail.")
	said, ok := w.Apply(config(name, ""))
	if ok {
		t.Error("it was taken over, and destroying it would delete what they have in it")
	}
	acctest.Says(t, said, `Error: Exists already: namespace "ns-theirs"`, "what others have in it", "terraform import ADDRESS ns-theirs", "adopt = true")
	if said, ok = w.Apply(config(name, "adopt = true")); !ok {
		t.Fatal(said)
	}
	if said, ok = w.Apply(config(name, "adopt = true")); !ok || !regexp.MustCompile("No changes").MatchString(said) {
		t.Error(said)
	}
	if said, ok = w.Destroy(); !ok {
		t.Error(said)
	}
}

func TestAccNamespaceOfAClusterIsRefused(t *testing.T) {
	t.Parallel() // A hub takes five seconds to delete a namespace.
	const name = "ns-cluster"
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	object := &corev1.Namespace{}
	object.Name, object.Labels = name, map[string]string{cluster.NameLabel: name}
	o.Apply(object)
	t.Cleanup(func() { o.Remove(&corev1.Namespace{}, "", name) })
	for _, body := range []string{"", "adopt = true"} {
		acctest.Says(t, w.Plan(config(name, body)), `belongs to the managed cluster "ns-cluster"`)
		said, ok := w.Apply(config(name, body))
		if ok {
			t.Error("a cluster's namespace was taken over")
		}
		acctest.Says(t, said, `belongs to the managed cluster "ns-cluster"`)
	}
	said, ok := w.Run("import", "-no-color", "-input=false", address, name)
	if ok {
		t.Error("a cluster's namespace was imported")
	}
	acctest.Says(t, said, `belongs to the managed cluster "ns-cluster"`)

	// A namespace that became a cluster's after it was made here is left.
	if said, ok := w.Apply(config("ns-became", "")); !ok {
		t.Fatal(said)
	}
	o.Patch(&corev1.Namespace{}, "", "ns-became", `{"metadata":{"labels":{"`+cluster.NameLabel+`":"ns-became"}}}`)
	t.Cleanup(func() { o.Remove(&corev1.Namespace{}, "", "ns-became") })
	if said, ok = w.Destroy(); ok {
		t.Error("a cluster's namespace was deleted")
	}
	acctest.Says(t, said, `belongs to the managed cluster "ns-became"`, "terraform state rm")
}
