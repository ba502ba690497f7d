package manifestwork_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestAccManifestWork(t *testing.T) {
	acctest.Run(t,
		resource.TestStep{
			Config: acctest.WorkConfig("mw-basic", acctest.AsYAML),
			Check: func(*terraform.State) error {
				object := &workv1.ManifestWork{}
				acctest.Someone(t).Get(object, "mw-basic", "web")
				if len(object.Spec.Workload.Manifests) != 2 || !strings.Contains(string(object.Spec.Workload.Manifests[0].Raw), `"answer":"42"`) {
					return fmt.Errorf("got %+v", object.Spec.Workload)
				}
				return nil
			},
		},
		resource.TestStep{
			Config: acctest.WorkConfig("mw-basic", acctest.AsJSON),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionNoop),
			}},
		},
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&workv1.ManifestWork{}, "mw-basic", "web", `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"}}]}}}`)
			},
			Config: acctest.WorkConfig("mw-basic", acctest.AsJSON),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionUpdate),
			}},
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("manifests"), knownvalue.ListSizeExact(2)),
			},
		},
		resource.TestStep{Config: acctest.WorkConfig("mw-basic", acctest.WithOptions)},
		resource.TestStep{
			ResourceName: acctest.WorkAddress, ImportState: true, ImportStateId: "mw-basic/web",
			ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name", ImportStateVerifyIgnore: []string{"manifests", "objects", "fields"},
		},
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Remove(&workv1.ManifestWork{}, "mw-basic", "web") },
			Config:    acctest.WorkConfig("mw-basic", acctest.WithOptions),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionCreate),
			}},
		},
		resource.TestStep{Config: acctest.WorkConfig("mw-basic", acctest.AsJSON)},
	)
}

// An imported work has another wording than the configuration, and still
// nothing to do.
func TestAccManifestWorkImportIsFollowedByAnEmptyPlan(t *testing.T) {
	acctest.Run(t,
		resource.TestStep{Config: acctest.WorkConfig("mw-import", acctest.AsYAML)},
		resource.TestStep{
			ResourceName: acctest.WorkAddress, ImportState: true, ImportStateKind: resource.ImportBlockWithID, ImportStateId: "mw-import/web",
			Config: acctest.WorkConfig("mw-import", acctest.AsYAML),
		},
	)
}

func TestAccManifestWorkWaits(t *testing.T) {
	waiting := func(timeout string) string {
		return acctest.WorkConfig("mw-wait", acctest.AsYAML+fmt.Sprintf("\n  wait = { conditions = [\"Applied\", \"Available=True\", \"Progressing=False\"] }\n  timeouts {\n    create = %q\n    update = %[1]q\n  }", timeout))
	}
	report := func() {
		o := acctest.Someone(t)
		object := &workv1.ManifestWork{}
		o.Get(object, "mw-wait", "web")
		object.Status.Conditions = nil
		for condition, status := range map[string]metav1.ConditionStatus{
			work.ConditionApplied: metav1.ConditionTrue, work.ConditionAvailable: metav1.ConditionTrue, work.ConditionProgressing: metav1.ConditionFalse,
		} {
			object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{
				Type: condition, Status: status, Reason: "Test", LastTransitionTime: metav1.Now(), ObservedGeneration: object.Generation,
			})
		}
		ctx, cancel := o.Context()
		defer cancel()
		if err := o.Client.UpdateSubresource(ctx, object, "status", acctest.OutsiderManager); err != nil {
			t.Error(err)
		}
	}
	ready := func(want bool) []statecheck.StateCheck {
		return []statecheck.StateCheck{statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("ready"), knownvalue.Bool(want))}
	}
	acctest.Run(t,
		// A creation that is not ready in time is kept: the plan is to wait again.
		resource.TestStep{Config: waiting("1s"), ConfigStateChecks: ready(false), ExpectNonEmptyPlan: true},
		resource.TestStep{
			Config:      waiting("2s"),
			ExpectError: regexp.MustCompile(`(?s)Not ready: manifest work "mw-wait/web".*Progressing=False: nobody has\s+reported\s+it.*is\s+not\s+available:.*kubectl describe\s+manifestwork\s+-n\s+mw-wait\s+web`),
		},
		resource.TestStep{
			PreConfig: func() { time.AfterFunc(time.Second, report) },
			Config:    waiting("30s"),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(acctest.WorkAddress, plancheck.ResourceActionUpdate),
			}},
			ConfigStateChecks: ready(true),
		},
		resource.TestStep{
			Config:            acctest.WorkConfig("mw-wait", acctest.AsYAML),
			ConfigStateChecks: []statecheck.StateCheck{statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("ready"), knownvalue.Null())},
		},
	)
}

// A creation that is ready in time tells what the agent has reported meanwhile.
func TestAccManifestWorkIsReadyWhenCreated(t *testing.T) {
	acctest.Run(t,
		resource.TestStep{Config: acctest.AcceptanceConfig("mw-ready", "")},
		resource.TestStep{
			PreConfig: func() {
				o := acctest.Someone(t)
				go func() { // Ends with the work's creation.
					if err := reportOnce(o, "mw-ready", "42"); err != nil {
						t.Error(err)
					}
				}()
			},
			Config: acctest.WorkConfig("mw-ready", acctest.AsYAML+"\n  wait = { conditions = [\"Applied\"] }"),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("ready"), knownvalue.Bool(true)),
				statecheck.ExpectKnownValue(acctest.WorkAddress, tfjsonpath.New("feedback"), knownvalue.ListSizeExact(1)),
			},
		},
	)
}

func TestAccManifestWorkDeletionNamesWhatItWaitsFor(t *testing.T) {
	config := acctest.WorkConfig("mw-stuck", acctest.AsYAML+"\n  timeouts { delete = \"2s\" }")
	acctest.Run(t,
		resource.TestStep{Config: config},
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&workv1.ManifestWork{}, "mw-stuck", "web", `{"metadata":{"finalizers":["cluster.open-cluster-management.io/manifest-work-cleanup"]}}`)
			},
			Config:      acctest.AcceptanceConfig("mw-stuck", ""),
			ExpectError: regexp.MustCompile(`(?s)Not removed yet: manifest work "mw-stuck/web".*manifest-work-cleanup: the cluster's agent removes`),
		},
		resource.TestStep{
			PreConfig: func() {
				acctest.Someone(t).Patch(&workv1.ManifestWork{}, "mw-stuck", "web", `{"metadata":{"finalizers":null}}`)
			},
			Config: acctest.AcceptanceConfig("mw-stuck", ""),
		},
	)
}

func TestAccManifestWorkForAMissingCluster(t *testing.T) {
	work := func(body string) string {
		return fmt.Sprintf("resource \"muster_manifest_work\" \"test\" {\n  managed_cluster = \"mw-missing\"\n  name = \"web\"\n%s\n}\n", acctest.AsYAML+body)
	}
	acctest.Run(t,
		resource.TestStep{Config: work(""), ExpectError: regexp.MustCompile(`has no managed cluster\s+"mw-missing"`)},
		resource.TestStep{
			Config:      acctest.ClusterConfig("mw-missing", "") + work("\n  depends_on = [muster_managed_cluster.test]\n  timeouts { create = \"2s\" }"),
			ExpectError: regexp.MustCompile(`(?s)no\s+namespace\s+within\s+2s.*muster_cluster_acceptance`),
		},
	)
}

func TestAccManifestWorkBadInput(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"not YAML":        {`manifests = ["a: [b"]`, `neither YAML nor JSON`},
		"no object":       {`manifests = ["just text"]`, `it is a text and not an object`},
		"empty":           {`manifests = ["---\n"]`, `it holds no object`},
		"no apiVersion":   {`manifests = [yamlencode({ kind = "ConfigMap", metadata = { name = "x", namespace = "shop" } })]`, `it has no apiVersion`},
		"no kind":         {`manifests = [yamlencode({ apiVersion = "v1", metadata = { name = "x" } })]`, `it has no kind`},
		"no name":         {`manifests = [yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = {} })]`, `ConfigMap has no\s+metadata.name`},
		"generated":       {`manifests = [yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { generateName = "x-" } })]`, `needs a\s+fixed\s+name`},
		"list":            {`manifests = [yamlencode({ apiVersion = "v1", kind = "List", items = [] })]`, `it is a List`},
		"twice":           {`manifests = [for i in [1, 2] : yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x", namespace = "shop" }, data = { i = tostring(i) } })]`, `appears twice`},
		"too large":       {`manifests = [yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = { name = "x", namespace = "shop" }, data = { a = join("", [for i in range(1000) : format("%0600d", i)]) } })]`, `more than the\s+512000`},
		"none":            {`manifests = []`, `(?s)at least\s+one\s+of\s+manifests,\s+objects\s+and\s+manifests_wo`},
		"one object":      {`objects = { apiVersion = "v1", kind = "Namespace", metadata = { name = "x" } }`, `put\s+a\s+single\s+object\s+in\s+brackets`},
		"bare object":     {`objects = [{ kind = "Namespace", metadata = { name = "x" } }]`, `objects\[0\]: it has no\s+apiVersion`},
		"nothing at all":  {`labels = {}`, `(?s)at least\s+one\s+of\s+manifests,\s+objects\s+and\s+manifests_wo`},
		"in two inputs":   {acctest.AsYAML + "\n" + `manifests_wo = [yamlencode({ apiVersion = "v1", kind = "Namespace", metadata = { name = "shop" } })]`, `appears twice`},
		"lone version":    {acctest.AsYAML + "\n" + `manifests_wo_version = 1`, `manifests_wo`},
		"wait status":     {acctest.AsYAML + "\n" + `wait = { conditions = ["Applied=yes"] }`, `"yes" is not a status`},
		"expression":      {acctest.AsYAML + "\n" + `manifest_configs = [{ resource_identifier = { resource = "configmaps", name = "*" }, condition_rules = [{ condition = "Ready", type = "CEL", cel_expressions = ["true", "object.x ="] }] }]`, `(?s)cel_expressions\[1\]\s+can't\s+be\s+evaluated.*Syntax\s+error`},
		"message":         {acctest.AsYAML + "\n" + `manifest_configs = [{ resource_identifier = { resource = "configmaps", name = "*" }, condition_rules = [{ condition = "Ready", type = "CEL", cel_expressions = ["true"], message_expression = "nosuch" }] }]`, `(?s)message_expression\s+can't\s+be\s+evaluated.*undeclared\s+reference`},
		"option for none": {acctest.AsYAML + "\n" + `manifest_configs = [{ resource_identifier = { resource = "configmap", name = "settings", namespace = "shop" } }]`, `(?s)the\s+work\s+has\s+no\s+such\s+object.*Did\s+you\s+mean\s+ConfigMap\s+shop/settings.*resource\s+=\s+"configmaps"`},
		"no JSONPath":     {acctest.AsYAML + "\n" + `manifest_configs = [{ resource_identifier = { resource = "configmaps", name = "settings", namespace = "shop" }, feedback_rules = [{ type = "JSONPaths", json_paths = [{ name = "a", path = "data[[a" }] }] }]`, `(?s)the\s+JSONPath\s+"data\[\[a"\s+cannot\s+be\s+used`},
		"too many paths":  {acctest.AsYAML + "\n" + `manifest_configs = [{ resource_identifier = { resource = "configmaps", name = "settings", namespace = "shop" }, feedback_rules = [{ type = "JSONPaths", json_paths = [for i in range(101) : { name = "a${i}", path = ".data.a" }] }] }]`, `(?s)more\s+than\s+100\s+paths`},
		"Secret in HCL":   {`objects = [{ apiVersion = "v1", kind = "Secret", metadata = { name = "x", namespace = "shop" }, stringData = { a = terraform_data.later.output } }]` + "\n}\nresource \"terraform_data\" \"later\" {\n  input = \"x\"", `(?s)objects\[0\]\s+has\s+a\s+Secret\s+with\s+values.*manifests_wo`},
		"which document":  {`manifests = ["{apiVersion: v1, kind: Namespace, metadata: {name: a}}", "apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n---\nkind: Namespace\nmetadata: {name: c}\n"]`, `(?s)manifests\[1\]:\s+document\s+2:\s+it\s+has\s+no\s+apiVersion.*Namespace\s+c`},
		"unknown field":   {`objects = [{ apiVersion = "apps/v1", kind = "Deployment", metadata = { name = "web", namespace = "shop" }, spec = { replica = 3 } }]`, `(?s)objects\[0\],\s+Deployment\s+shop/web.*spec.replica\s+is\s+unknown.*did\s+you\s+mean\s+replicas.*field_validation\s+=\s+"Warn"`},
		"policy":          {acctest.AsYAML + "\n" + `delete_option = { propagation_policy = "Background" }`, `(?s)Background.*Orphan`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{
				Config:      fmt.Sprintf("resource \"muster_manifest_work\" \"test\" {\n  managed_cluster = \"c1\"\n  name = \"web\"\n%s\n}\n", test.body),
				PlanOnly:    true,
				ExpectError: regexp.MustCompile(test.want),
			})
		})
	}
}
