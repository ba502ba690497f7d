package crud

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/hub"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
)

// A wait ends when nothing is missing. What is reported when that does not come about
// depends on how it ended.
func TestWait(t *testing.T) {
	var diags diag.Diagnostics
	client := hub.New(kube.Connection{Host: "https://hub.example"}, nil, "test").Client(&diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	const timeout = `Within 10m generation 2 did not reach what is waited for:
  pods: 1 of 3
All conditions:
  Ready is False (Busy): one is there
Pod a is not there.

Next:
  kubectl describe box -n n b
  kubectl get pods`
	for name, x := range map[string]struct {
		missing [][]string // by look
		trouble bool
		final   error
		end     error // of what follows the object
		want    string
	}{
		"met at once":            {missing: [][]string{nil}},
		"met later":              {missing: [][]string{{"pods: 1 of 3"}, nil}},
		"the timeout has passed": {missing: [][]string{{"pods: 1 of 3"}}, end: context.DeadlineExceeded, want: timeout},
		"a trouble lasts": {
			missing: [][]string{{"pods: 1 of 3"}}, trouble: true,
			want: "It is refused for 1ms.\nGeneration 2 did not reach what is waited for:\n  pods: 1 of 3\n",
		},
		"it can't be met":  {missing: [][]string{nil}, final: &FinalError{"The box is sealed."}, want: "The box is sealed."},
		"preparing failed": {missing: [][]string{nil}, final: errors.New("no right"), want: "Could not wait for it on https://hub.example: no right."},
		"another error":    {missing: [][]string{{"pods: 1 of 3"}}, end: errors.New("it was deleted"), want: "Could not wait for it on https://hub.example: it was deleted."},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.Pod{}
			object.Namespace, object.Name, object.Generation = "n", "b", 2
			looks := 0
			w := &Wait{
				Client: client, What: `box "n/b"`, Resource: "box", Object: object, Timeout: 10 * time.Minute,
				Prepare: func(context.Context) error { return x.final },
				Missing: func() []string { return x.missing[min(looks, len(x.missing)-1)] },
				Follow: func(ctx context.Context, look func() (bool, error)) error {
					for ; looks < len(x.missing); looks++ {
						if met, err := look(); met || err != nil {
							return err
						}
					}
					if x.end == nil {
						<-ctx.Done()
						return ctx.Err()
					}
					return x.end
				},
				Troubles: func() []kube.Trouble {
					if !x.trouble {
						return nil
					}
					return []kube.Trouble{{Text: "refused", After: time.Millisecond}}
				},
				GivenUp: func(err *kube.GaveUpError) []string {
					return []string{"It is " + err.Text + " for " + err.After.String() + "."}
				},
				Conditions: func() []metav1.Condition {
					return []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Busy", Message: "one is there"}}
				},
				Details: func(context.Context) []string { return []string{"Pod a is not there."} },
				Next:    []string{"kubectl get pods"},
			}
			summary, problem := w.Run(t.Context())
			if (problem == "") != (x.want == "") || !strings.HasPrefix(problem, x.want) {
				t.Errorf("got\n%s\nwant\n%s", problem, x.want)
			}
			if want := `Not ready: box "n/b"`; problem != "" && summary != want {
				t.Errorf("the summary is %q, want %q", summary, want)
			}
		})
	}
}

// What comes after a write runs the wait where the plan asks for it, and fills in ready.
func TestFollow(t *testing.T) {
	for name, x := range map[string]struct {
		waits   bool
		ready   types.Bool
		problem string
		want    types.Bool
		ran     []string
	}{
		"no wait":            {ready: types.BoolUnknown(), want: types.BoolNull(), ran: []string{"settle", "report"}},
		"met":                {waits: true, ready: types.BoolUnknown(), want: types.BoolValue(true), ran: []string{"wait", "report"}},
		"not met":            {waits: true, ready: types.BoolUnknown(), problem: "no", want: types.BoolValue(false), ran: []string{"wait", "report"}},
		"met already":        {waits: true, ready: types.BoolValue(true), want: types.BoolValue(true)},
		"not waited for now": {waits: true, ready: types.BoolValue(false), want: types.BoolValue(false)},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			values := attribute.Values{"ready": x.ready}
			f := Follow{
				Settle: func(context.Context) { ran = append(ran, "settle") },
				Report: func() { ran = append(ran, "report") },
			}
			if x.waits {
				f.Wait = func(context.Context) (summary, problem string) {
					ran = append(ran, "wait")
					return "Not ready", x.problem
				}
			}
			_, problem := f.run(t.Context(), values, f.begin(values))
			ready := values["ready"]
			if problem != x.problem || !ready.Equal(x.want) || !slices.Equal(ran, x.ran) {
				t.Errorf("got problem %q, ready = %s and %v; want %q, %s and %v", problem, ready, ran, x.problem, x.want, x.ran)
			}
		})
	}
}

// A wait has to wait for something.
func TestWaitForNothing(t *testing.T) {
	options := WaitOptions{WaitFlag("done", ""), WaitCount("at_least", ""), WaitConditions("")}
	type values = map[string]attr.Value
	for name, x := range map[string]struct {
		values values
		want   bool
	}{
		"nothing":           {values{}, false},
		"null":              {values{"done": types.BoolNull(), "at_least": types.Int64Null(), "conditions": types.SetNull(types.StringType)}, false},
		"a flag that is on": {values{"done": types.BoolValue(true)}, true},
		"off":               {values{"done": types.BoolValue(false)}, false},
		"unknown":           {values{"done": types.BoolUnknown()}, true},
		"a count":           {values{"at_least": types.Int64Value(1)}, true},
		"an unknown count":  {values{"at_least": types.Int64Unknown()}, true},
		"conditions":        {values{"conditions": types.SetUnknown(types.StringType)}, true},
	} {
		var diags diag.Diagnostics
		options.check(path.Root("wait"), x.values, &diags)
		if diags.HasError() == x.want {
			t.Errorf("%s: got %v", name, diags)
		}
	}
	var diags diag.Diagnostics
	options.check(path.Root("wait"), nil, &diags)
	want := "The wait names nothing that it waits for: set done = true or at_least or conditions, or remove the wait."
	if got := diags[0].Detail(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
