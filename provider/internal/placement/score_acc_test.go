package placement_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/crud"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	clusterv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1alpha1"
)

const scoreAddress = "muster_addon_placement_score.test"

func scoreConfig(namespace, body string) string {
	return fmt.Sprintf("resource \"muster_addon_placement_score\" \"test\" {\n  managed_cluster = %q\n  name = \"cost\"\n%s\n}\n", namespace, body)
}

func TestAccAddOnPlacementScore(t *testing.T) {
	const n = "scored"
	config := scoreConfig(n, `
  labels      = { team = "finance" }
  scores      = { hourly = -30, monthly = 100 }
  valid_until = "2100-01-01T01:00:00+01:00"`)
	live := func(want string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			object := &clusterv1alpha1.AddOnPlacementScore{}
			acctest.Someone(t).Get(object, n, "cost")
			slices.SortFunc(object.Status.Scores, func(a, b clusterv1alpha1.AddOnPlacementScoreItem) int { return strings.Compare(a.Name, b.Name) })
			got := fmt.Sprint(object.Status.Scores, until(object), object.Labels)
			if got != want {
				return fmt.Errorf("got %s, want %s", got, want)
			}
			return nil
		}
	}
	imported := resource.TestStep{
		ResourceName: scoreAddress, ImportState: true, ImportStateId: n + "/cost",
		ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		ImportStateVerifyIgnore: []string{"valid_until"}, // The hub words it in UTC.
	}
	update := resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(scoreAddress, plancheck.ResourceActionUpdate)}}
	acctest.Run(t,
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Namespace(n) },
			Config:    config,
			Check:     live(`[{hourly -30} {monthly 100}] "2100-01-01T00:00:00Z" map[team:finance]`),
		},
		imported,
		// Another writer's score is left alone, and is nobody's drift.
		resource.TestStep{
			PreConfig:        func() { patchScores(acctest.Someone(t), "an-addon", n, accScored("latency", 5)) },
			Config:           config,
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
		},
		imported,
		// One that writes the configuration's is drift.
		resource.TestStep{
			PreConfig:        func() { patchScores(acctest.Someone(t), acctest.OutsiderManager, n, accScored("hourly", 7)) },
			Config:           config,
			ConfigPlanChecks: update,
			Check:            live(`[{hourly -30} {latency 5} {monthly 100}] "2100-01-01T00:00:00Z" map[team:finance]`),
		},
		resource.TestStep{
			PreConfig: func() {
				o, object := acctest.Someone(t), &clusterv1alpha1.AddOnPlacementScore{}
				o.Get(object, n, "cost")
				object.Status.Scores, object.Status.ValidUntil = []clusterv1alpha1.AddOnPlacementScoreItem{accScored("monthly", 100)}, nil
				ctx, cancel := o.Context()
				defer cancel()
				if err := o.Client.UpdateSubresource(ctx, object, "status", acctest.OutsiderManager); err != nil {
					t.Fatal(err)
				}
			},
			Config:           config,
			ConfigPlanChecks: update,
			Check:            live(`[{hourly -30} {monthly 100}] "2100-01-01T00:00:00Z" map[team:finance]`),
		},
		resource.TestStep{
			Config: scoreConfig(n, `scores = { hourly = 1 }`),
			Check:  live(`[{hourly 1}] <null> map[]`),
		},
		resource.TestStep{
			PreConfig: func() { acctest.Someone(t).Remove(&clusterv1alpha1.AddOnPlacementScore{}, n, "cost") },
			Config:    scoreConfig(n, `scores = { hourly = 1 }`),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(scoreAddress, plancheck.ResourceActionCreate),
			}},
		},
		// The same time in other words is no change.
		resource.TestStep{Config: scoreConfig(n, "scores = { hourly = 1 }\n  valid_until = \"2100-01-01T00:00:00Z\"")},
		resource.TestStep{
			Config:           scoreConfig(n, "scores = { hourly = 1 }\n  valid_until = \"2100-01-01T02:00:00+02:00\""),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
		},
		resource.TestStep{
			Config: "resource \"terraform_data\" \"in\" { input = { value = 3, until = \"2100-01-01T00:00:00Z\" } }\n" +
				scoreConfig(n, "scores = { hourly = terraform_data.in.output.value }\n  valid_until = terraform_data.in.output.until"),
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(scoreAddress, tfjsonpath.New("scores").AtMapKey("hourly"), knownvalue.Int64Exact(3)),
			},
		},
	)
}

// An object that somebody else wrote comes under Terraform as it is; taking its
// scores over has to be said.
func TestAccAddOnPlacementScoreOfSomebodyElse(t *testing.T) {
	const n = "scored-before"
	prepare := func() {
		o := acctest.Someone(t)
		o.Namespace(n)
		object := &clusterv1alpha1.AddOnPlacementScore{}
		object.Namespace, object.Name = n, "cost"
		o.Apply(object)
		patchScores(o, "an-addon", n, accScored("hourly", 5))
	}
	acctest.Run(t,
		resource.TestStep{
			PreConfig:   prepare,
			Config:      scoreConfig(n, `scores = { hourly = 1 }`),
			ExpectError: acctest.Saying(`status.scores[hourly].value is 5 there and 1 here`, `terraform import ADDRESS scored-before/cost`),
		},
		resource.TestStep{
			Config: "import {\n  to = muster_addon_placement_score.test\n  id = \"" + n + "/cost\"\n}\n" + scoreConfig(n, `scores = { hourly = 5 }`),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(scoreAddress, plancheck.ResourceActionNoop),
			}},
		},
		resource.TestStep{Config: scoreConfig(n, "scores = { hourly = 1 }\n  force_conflicts = true")},
	)
}

// What a resource destroys is what it owns: an add-on's scores outlive it.
func TestAccAddOnPlacementScoreLeavesTheScoresOfOthers(t *testing.T) {
	const n = "scored-shared"
	w, o := acctest.NewWorkspace(t), acctest.Someone(t)
	o.Namespace(n)
	config := scoreConfig(n, "scores = { hourly = 1 }\n  labels = { mine = \"yes\" }")
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	object := &clusterv1alpha1.AddOnPlacementScore{}
	// Nobody else has scores there: a time that somebody sets is drift.
	object.Namespace, object.Name = n, "cost"
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.MergePatchStatus(ctx, object, acctest.OutsiderManager, map[string]any{"status": map[string]any{"validUntil": "2100-01-01T00:00:00Z"}}); err != nil {
		t.Fatal(err)
	}
	acctest.Says(t, w.Plan(config), `- valid_until = "2100-01-01T00:00:00Z" -> null`)
	if said, ok := w.Apply(config); !ok {
		t.Fatal(said)
	}
	if o.Get(object, n, "cost"); object.Status.ValidUntil != nil {
		t.Errorf("the scores still expire at %s", object.Status.ValidUntil)
	}
	patchScores(o, "an-addon", n, accScored("latency", 5))
	if said, ok := w.Destroy(); !ok {
		t.Fatal(said)
	}
	o.Get(object, n, "cost")
	if got := fmt.Sprint(object.Status.Scores, object.Labels, crud.OwnerMark(object)); got != "[{latency 5}] map[]" {
		t.Errorf("got %s", got)
	}
}

func TestAccAddOnPlacementScoreBadInput(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"too much":      {`scores = { a = 101 }`, `(?s)scores\["a"\]\s+is\s+101,\s+but\s+it\s+takes\s+a\s+whole\s+number\s+between\s+-100\s+and\s+100`},
		"no score":      {`scores = {}`, `(?s)scores.*at\s+least\s+1`},
		"no name":       {`scores = { "" = 1 }`, `(?s)at\s+least\s+1`},
		"half a score":  {`scores = { a = 1.5 }`, `(?s)scores\["a"\]\s+is\s+1.5,\s+but\s+it\s+takes\s+a\s+whole\s+number`},
		"time":          {"scores = { a = 1 }\nvalid_until = \"tomorrow\"", `(?s)"tomorrow" is not a time in RFC 3339`},
		"half a second": {"scores = { a = 1 }\nvalid_until = \"2100-01-01T00:00:00.5Z\"", `(?s)whole\s+seconds`},
	} {
		t.Run(name, func(t *testing.T) {
			acctest.Run(t, resource.TestStep{Config: scoreConfig("default", test.body), PlanOnly: true, ExpectError: regexp.MustCompile(test.want)})
		})
	}
}

func TestAccAddOnPlacementScoreOfNoCluster(t *testing.T) {
	acctest.Run(t, resource.TestStep{
		Config:      scoreConfig("nobody-at-all", `scores = { a = 1 }`),
		ExpectError: regexp.MustCompile(`(?s)no namespace "nobody-at-all": there is no\s+managed\s+cluster`),
	})
}

// accScored is one score of an object.
func accScored(name string, value int32) clusterv1alpha1.AddOnPlacementScoreItem {
	return clusterv1alpha1.AddOnPlacementScoreItem{Name: name, Value: value}
}

// until is when an object's scores expire.
func until(object *clusterv1alpha1.AddOnPlacementScore) types.String {
	if object.Status.ValidUntil == nil {
		return types.StringNull()
	}
	return types.StringValue(object.Status.ValidUntil.UTC().Format(time.RFC3339))
}

// patchScores plays another writer of an AddOnPlacementScore's status.
func patchScores(o *acctest.Outsider, manager, namespace string, scores ...clusterv1alpha1.AddOnPlacementScoreItem) {
	o.T.Helper()
	object := &clusterv1alpha1.AddOnPlacementScore{}
	object.Namespace, object.Name = namespace, "cost"
	object.Status.Scores = scores
	ctx, cancel := o.Context()
	defer cancel()
	if err := o.Client.ApplyStatus(ctx, object, kube.ApplyOptions{Manager: manager, Force: true}); err != nil {
		o.T.Fatal(err)
	}
}
