package workcheck_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muster-fleet/terraform-provider-muster/internal/workcheck"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestOptions(t *testing.T) {
	feedback := func(paths ...string) workv1.ManifestConfigOption {
		r := workv1.FeedbackRule{Type: workv1.FeedbackTypeJSONPaths}
		for i, p := range paths {
			r.JSONPaths = append(r.JSONPaths, workv1.JSONPath{Name: fmt.Sprint(i), Path: p})
		}
		return workv1.ManifestConfigOption{FeedbackRules: []workv1.FeedbackRule{r}}
	}
	ignoring := func(f workv1.IgnoreField) workv1.ManifestConfigOption {
		return workv1.ManifestConfigOption{UpdateStrategy: &workv1.UpdateStrategy{ServerSideApply: &workv1.ServerSideApplyConfig{IgnoreFields: []workv1.IgnoreField{f}}}}
	}
	ruled := func(rules, expressions int) workv1.ManifestConfigOption {
		rule := workv1.ConditionRule{CELExpressions: make([]string, expressions)}
		out := workv1.ManifestConfigOption{}
		for range rules {
			out.ConditionRules = append(out.ConditionRules, rule)
		}
		return out
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = ".spec.replicas"
	}
	for name, x := range map[string]struct {
		options []workv1.ManifestConfigOption
		want    string
	}{
		"none":       {nil, ""},
		"usual ones": {[]workv1.ManifestConfigOption{feedback(".status.phase", `{.status.conditions[?(@.type=="Ready")].status}`, "..image"), ruled(3, 3), ignoring(workv1.IgnoreField{JQPathExpressions: []string{`.webhooks[]?.clientConfig.caBundle`}, JSONPaths: []string{".spec.replicas"}, JSONPointers: []string{"/spec/replicas"}})}, ""},
		"a long pattern": {[]workv1.ManifestConfigOption{{ResourceIdentifier: workv1.ResourceIdentifier{Name: strings.Repeat("*", 513)}}},
			"options[0].resourceIdentifier: name or namespace has more than 512 bytes"},
		"a bomb in jq":   {[]workv1.ManifestConfigOption{{}, ignoring(workv1.IgnoreField{JQPathExpressions: []string{`.data[(reduce range(34) as $i ("x"; . + .))]`}})}, `options[1].updateStrategy.serverSideApply.ignoreFields[0].jqPathExpressions[0]: the jq path expression ".data[(reduce range(34) as $i (\"x\"; . + .))]" cannot be used: the index (reduce range(34) as $i`},
		"a JSONPath":     {[]workv1.ManifestConfigOption{feedback(".a", `{...*...*...*}`)}, `options[0].feedbackRules[0].jsonPaths[1].path: the JSONPath "{...*...*...*}" cannot be used: it has more than one ".."`},
		"of the ignored": {[]workv1.ManifestConfigOption{ignoring(workv1.IgnoreField{JSONPaths: []string{"..a..b"}})}, `ignoreFields[0].jsonPaths[0]: the JSONPath "..a..b" cannot be used`},
		"many paths":     {[]workv1.ManifestConfigOption{feedback(many...)}, "options[0].feedbackRules has more than 100 paths"},
		"many ignored":   {[]workv1.ManifestConfigOption{ignoring(workv1.IgnoreField{JSONPointers: many})}, "there are more than 100 paths"},
		"many rules":     {[]workv1.ManifestConfigOption{ruled(21, 1)}, "options[0].conditionRules has 21 rules, more than 20"},
		"expressions":    {[]workv1.ManifestConfigOption{ruled(1, 21)}, "options[0].conditionRules[0].celExpressions has 21 expressions, more than 20"},
		"a long one":     {[]workv1.ManifestConfigOption{{ConditionRules: []workv1.ConditionRule{{CELExpressions: []string{strings.Repeat("x", 20_000)}}}}}, "beyond the limits of expressions"},
		"in all":         {[]workv1.ManifestConfigOption{ruled(20, 20)}, "conditionRules[3].celExpressions[4] is expression 65, and 64 are allowed"},
		"many options":   {make([]workv1.ManifestConfigOption, 1001), "options has 1001 options, more than 1000"},
		"a long path":    {[]workv1.ManifestConfigOption{feedback(strings.Repeat(".a", 1000))}, "it is 2000 bytes long, more than the 1024"},
		"a long pointer": {[]workv1.ManifestConfigOption{ignoring(workv1.IgnoreField{JSONPointers: []string{strings.Repeat("/a", 1000)}})}, "jsonPointers[0] is 2000 bytes long"},
	} {
		t.Run(name, func(t *testing.T) {
			err := workcheck.Options("options", x.options)
			if (err != nil) != (x.want != "") || err != nil && (!strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
}
