package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/agent/work/manifest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/limits"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func bigStatus(n, feedback int) workv1.ManifestWorkStatus {
	status := workv1.ManifestWorkStatus{Conditions: []metav1.Condition{{Type: work.ConditionApplied, Status: metav1.ConditionTrue}}}
	for i := range n {
		e := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "default", Name: fmt.Sprint("cm-", i)}}
		for _, kind := range []string{work.ConditionApplied, work.ConditionAvailable, work.ConditionStatusFeedbackSynced} {
			e.Conditions = append(e.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "AppliedManifestComplete", Message: "Apply manifest complete"})
		}
		if feedback > 0 {
			e.StatusFeedbacks.Values = []workv1.FeedbackValue{{Name: "v", Value: workv1.FieldValue{Type: workv1.ValueTypeString, String: ptr.To(strings.Repeat("x", feedback))}}}
		}
		status.ResourceStatus.Manifests = append(status.ResourceStatus.Manifests, e)
	}
	return status
}

func TestStatusesFitIntoTheirRoom(t *testing.T) {
	for name, x := range map[string]struct {
		manifests, feedback, room int
		kept                      bool // the feedback
		message                   string
	}{
		"a usual one":         {3, 10, work.MaxStoredSize, true, ""},
		"many":                {1000, 0, work.MaxStoredSize, true, ""},
		"too much feedback":   {100, 20_000, work.MaxStoredSize, false, "KiB, and 1400 fit on the hub beside the manifests: the values of feedback are left out. Split the work"},
		"too many":            {5000, 0, work.MaxStoredSize, false, "and so is all about 2"},
		"no room":             {10, 0, 0, false, "and so is all about 10 manifests"},
		"less than no room":   {10, 0, -5, false, "and so is all about 10 manifests"},
		"nothing and no room": {0, 0, -5, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			whole := bigStatus(x.manifests, x.feedback)
			got := Fit(whole, x.room, 7)
			c := meta.FindStatusCondition(got.Conditions, work.ConditionStatusTruncated)
			if (c != nil) != (x.message != "") || c != nil && (!strings.Contains(c.Message, x.message) || c.Status != metav1.ConditionTrue || c.ObservedGeneration != 7) {
				t.Errorf("the condition is %+v, want %q", c, x.message)
			}
			if size := sizeOf(got.ResourceStatus.Manifests); len(got.ResourceStatus.Manifests) > 0 && size > x.room {
				t.Errorf("it takes %d bytes", size)
			}
			if len(whole.ResourceStatus.Manifests) != x.manifests {
				t.Error("what was given has changed")
			}
			if x.feedback > 0 && (len(got.ResourceStatus.Manifests[0].StatusFeedbacks.Values) == 1) != x.kept {
				t.Error("feedback is kept or left out wrongly")
			}
			// Once it fits, nothing is said any more.
			if again := Fit(got, 100*work.MaxStoredSize, 7); meta.FindStatusCondition(again.Conditions, work.ConditionStatusTruncated) != nil && x.manifests > 0 && len(again.ResourceStatus.Manifests) > 0 {
				t.Error("it is said of what fits")
			}
		})
	}
}

// What has failed, and what must not be done again, is reported first.
func TestWhatMattersIsReported(t *testing.T) {
	status := bigStatus(5000, 0)
	status.ResourceStatus.Manifests[4000].Conditions[0].Status = metav1.ConditionFalse
	status.ResourceStatus.Manifests[4500].Conditions[1].Status = metav1.ConditionUnknown
	status.ResourceStatus.Manifests[4900].Conditions = append(status.ResourceStatus.Manifests[4900].Conditions, metav1.Condition{Type: work.ConditionComplete, Status: metav1.ConditionTrue})
	got := manifest.EntriesOf(Fit(status, 10_000, 1).ResourceStatus.Manifests)
	for _, i := range []int{4000, 4500, 4900} {
		if got.Find(status.ResourceStatus.Manifests[i].ResourceMeta) == nil {
			t.Errorf("manifest %d is not reported", i)
		}
	}
}

func TestRefusalsForSize(t *testing.T) {
	for text, want := range map[string]bool{
		"rpc error: code = ResourceExhausted desc = trying to send message larger than max (3432637 vs. 2097152)": true,
		"etcdserver: request is too large":                   true,
		"Request entity too large: limit is 3145728":         true,
		"the object has been modified; please apply changes": false,
	} {
		if TooLarge(errors.New(text)) != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
	if TooLarge(nil) {
		t.Error("no error is one")
	}
	status := bigStatus(500, 0)
	attempts := 1
	for len(status.ResourceStatus.Manifests) > 0 {
		attempts++
		status = Fit(bigStatus(500, 0), SmallerRoom(status), 1)
	}
	if attempts > 10 || len(status.ResourceStatus.Manifests) != 0 {
		t.Errorf("%d attempts until only the conditions are left, with %d manifests", attempts, len(status.ResourceStatus.Manifests))
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	status := bigStatus(1, 0)
	status.Conditions[0].Message = strings.Repeat("é", 20_000)
	status.ResourceStatus.Manifests[0].Conditions[0].Message = strings.Repeat("x", 100_000)
	got := Fit(status, work.MaxStoredSize, 1)
	for _, c := range []metav1.Condition{got.Conditions[0], got.ResourceStatus.Manifests[0].Conditions[0]} {
		if len(c.Message) > limits.ConditionMessage || !strings.HasSuffix(c.Message, "...") {
			t.Errorf("the message has %d bytes", len(c.Message))
		}
	}
}
