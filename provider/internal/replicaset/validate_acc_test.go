package replicaset_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/acctest"
)

func TestAccManifestWorkReplicaSetBadInput(t *testing.T) {
	strategy := func(body string) string {
		return replicaSetManifests + "\n  placements = [{ name = \"europe\", rollout_strategy = { " + body + " } }]"
	}
	for name, test := range map[string]struct{ namespace, body, want string }{
		"no placements":                {body: replicaSetManifests + "\n placements = []", want: `placements = [] selects no cluster`},
		"the same placement twice":     {body: replicaSetManifests + "\n placements = [{ name = \"a\" }, { name = \"b\" }, { name = \"a\" }]", want: `placements[0] and placements[2] both name "a"`},
		"placement name":               {body: replicaSetManifests + "\n placements = [{ name = \"A_b\" }]", want: `"A_b" cannot be used as placement name`},
		"namespace and name too long":  {namespace: strings.Repeat("n", 60), body: replicaSetBasic, want: `has 64 characters. The works carry both as one label, whose value can have 63 at most. Shorten one of them by 1.`},
		"no manifests":                 {body: "manifests = []\n placements = [{ name = \"a\" }]", want: `set at least one of manifests, objects and manifests_wo`},
		"a manifest without a name":    {body: `manifests = [yamlencode({ apiVersion = "v1", kind = "ConfigMap", metadata = {} })]` + "\n placements = [{ name = \"a\" }]", want: `no metadata.name`},
		"an option for no object":      {body: replicaSetBasic + "\n manifest_configs = [{ resource_identifier = { resource = \"configmap\", name = \"settings\", namespace = \"shop\" } }]", want: `Did you mean ConfigMap shop/settings (v1)?`},
		"an unknown field":             {body: "objects = [{ apiVersion = \"v1\", kind = \"ConfigMap\", metadata = { name = \"x\", namespace = \"shop\" }, dta = {} }]\n placements = [{ name = \"a\" }]", want: `dta is unknown, so that clusters drop it; did you mean data?`},
		"deletion policy":              {body: replicaSetBasic + "\n cascade_deletion_policy = \"Orphan\"", want: `is "Orphan", but it takes`},
		"strategy":                     {body: strategy(`type = "Canary"`), want: `is "Canary", but it takes`},
		"deadline without a unit":      {body: strategy(`type = "All", progress_deadline = "90"`), want: `placements[0].rollout_strategy.progress_deadline = "90" is not a duration such as 30s, 10m or 1h30m, or None: every number needs a unit`},
		"deadline that is nothing":     {body: strategy(`type = "All", progress_deadline = "none"`), want: `progress_deadline = "none" is not a duration such as 30s, 10m or 1h30m, or None: write None with a capital letter`},
		"deadline with a fraction":     {body: strategy(`type = "All", progress_deadline = "1.5h"`), want: `progress_deadline = "1.5h" is not admitted by the hub`},
		"deadline below zero":          {body: strategy(`type = "All", progress_deadline = "-5m"`), want: `progress_deadline = "-5m" is not admitted by the hub`},
		"success time":                 {body: strategy(`type = "Progressive", min_success_time = "soon"`), want: `placements[0].rollout_strategy.min_success_time = "soon" is not a duration such as 30s or 5m`},
		"success time below zero":      {body: strategy(`type = "Progressive", min_success_time = "-5m"`), want: `min_success_time = "-5m" lies before the success`},
		"failures":                     {body: strategy(`type = "Progressive", max_failures = "some"`), want: `placements[0].rollout_strategy.max_failures = "some" is no number of clusters. Give a whole number from 0, such as "3", or a percentage from 0% to 100%`},
		"failures below zero":          {body: strategy(`type = "Progressive", max_failures = "-1"`), want: `max_failures = "-1" is no number of clusters`},
		"failures above all":           {body: strategy(`type = "Progressive", max_failures = "101%"`), want: `max_failures = "101%" is no number of clusters`},
		"failures in another notation": {body: strategy(`type = "Progressive", max_failures = "03"`), want: `max_failures = "03" is no number of clusters`},
		"no concurrency":               {body: strategy(`type = "Progressive", max_concurrency = "0"`), want: `max_concurrency = "0" would not stop the rollout: the hub takes it for no limit at all. Leave it out if that is meant`},
		"concurrency of nothing":       {body: strategy(`type = "Progressive", max_concurrency = "0%"`), want: `max_concurrency = "0%" would not stop the rollout`},
		"concurrency for All":          {body: strategy(`type = "All", max_concurrency = "2"`), want: `placements[0].rollout_strategy.max_concurrency = "2" has no effect with type = "All", which starts all clusters at once`},
		"failures for All":             {body: strategy(`type = "All", max_failures = "2"`), want: `max_failures = "2" has no effect`},
		"success time for All":         {body: strategy(`type = "All", min_success_time = "2m"`), want: `min_success_time = "2m" has no effect`},
		"mandatory groups for All":     {body: strategy(`type = "All", mandatory_decision_groups = [{ group_index = 1 }]`), want: `has no effect with type = "All"`},
		"concurrency for groups":       {body: strategy(`type = "ProgressivePerGroup", max_concurrency = "2"`), want: `max_concurrency = "2" has no effect with type = "ProgressivePerGroup"`},
		"a group that is none":         {body: strategy(`type = "Progressive", mandatory_decision_groups = [{}]`), want: `mandatory_decision_groups[0] has group_name = null and group_index = null`},
		"a group by name and number":   {body: strategy(`type = "Progressive", mandatory_decision_groups = [{ group_name = "a", group_index = 1 }]`), want: `has group_name = "a" and group_index = 1`},
		"a group without a name":       {body: strategy(`type = "Progressive", mandatory_decision_groups = [{ group_name = "" }]`), want: `group_name = "" names no group`},
		"a group below zero":           {body: strategy(`type = "Progressive", mandatory_decision_groups = [{ group_index = -1 }]`), want: `group_index = -1 is no number of a decision group`},
		"a wait for nothing":           {body: replicaSetBasic + "\n wait = {}", want: `names nothing that it waits for: set rolled_out = true or conditions`},
		"a wait that is off":           {body: replicaSetBasic + "\n wait = { rolled_out = false }", want: `names nothing that it waits for`},
		"a wait for another status":    {body: replicaSetBasic + "\n wait = { conditions = [\"Applied=Perhaps\"] }", want: `"Perhaps" is not a status in "Applied=Perhaps"`},
		"a wait for a nameless status": {body: replicaSetBasic + "\n wait = { conditions = [\"=True\"] }", want: `"=True" names no condition`},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := test.namespace
			if namespace == "" {
				namespace = "default"
			}
			acctest.Run(t, resource.TestStep{Config: replicaSetConfig(namespace, test.body), PlanOnly: true, ExpectError: acctest.Saying(test.want)})
		})
	}
	t.Run("dots in the name", func(t *testing.T) {
		config := strings.Replace(replicaSetConfig("default", replicaSetBasic), `"web"`, `"web.v2"`, 1)
		acctest.Run(t, resource.TestStep{Config: config, PlanOnly: true, ExpectError: acctest.Saying(`name = "web.v2" has dots`)})
	})
}
