package cloud_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/muster-fleet/terraform-provider-muster/runtime/access/cloud"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/work"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func TestOnlyLiveRequestsHaveKeys(t *testing.T) {
	condition := func(r *v1alpha1.AccessRequest, kind string, status metav1.ConditionStatus) {
		meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test"})
	}
	for name, x := range map[string]struct {
		change func(*v1alpha1.AccessRequest)
		live   bool
	}{
		"approved":             {func(*v1alpha1.AccessRequest) {}, true},
		"its agent is unable":  {func(r *v1alpha1.AccessRequest) { condition(r, muster.ConditionFailed, metav1.ConditionTrue) }, true},
		"not approved":         {func(r *v1alpha1.AccessRequest) { condition(r, muster.ConditionApproved, metav1.ConditionFalse) }, false},
		"expired":              {func(r *v1alpha1.AccessRequest) { condition(r, muster.ConditionExpired, metav1.ConditionTrue) }, false},
		"revoked":              {func(r *v1alpha1.AccessRequest) { condition(r, muster.ConditionRevoked, metav1.ConditionTrue) }, false},
		"withdrawn":            {func(r *v1alpha1.AccessRequest) { r.DeletionTimestamp = &metav1.Time{Time: noon} }, false},
		"without a key":        {func(r *v1alpha1.AccessRequest) { r.Status.KeyHash = "" }, false},
		"no hash":              {func(r *v1alpha1.AccessRequest) { r.Status.KeyHash = "x/../../kube-system" }, false},
		"a hash in upper case": {func(r *v1alpha1.AccessRequest) { r.Status.KeyHash = "ABCDEF" + hash(0)[6:] }, false},
	} {
		r := &v1alpha1.AccessRequest{}
		r.Status.KeyHash = hash(1)
		condition(r, muster.ConditionApproved, metav1.ConditionTrue)
		x.change(r)
		if _, live := cloud.KeyOf(r); live != x.live {
			t.Errorf("%s: it is live: %v, want %v", name, live, x.live)
		}
	}
}

func TestKeysAreTheUsersNotTheRequesters(t *testing.T) {
	r := &v1alpha1.AccessRequest{}
	r.Spec.User, r.Spec.Mode = "jo", v1alpha1.AccessAuto
	r.Spec.Requester = v1alpha1.Requester{Username: "al", Groups: []string{"devs"}}
	r.Status.KeyHash = hash(1)
	r.Status.Conditions = []metav1.Condition{{Type: muster.ConditionApproved, Status: metav1.ConditionTrue}}
	if k, ok := cloud.KeyOf(r); !ok || k.User != "jo" || k.Groups[0] != "devs" || !k.Token {
		t.Errorf("got %+v, %v", k, ok)
	}
	r.Spec.User, r.Spec.Mode = "", v1alpha1.AccessCertificate
	if k, ok := cloud.KeyOf(r); !ok || k.User != "al" || k.Token {
		t.Errorf("got %+v, %v", k, ok)
	}
}

func TestTheOlderCloudIsTheOneCreatedFirst(t *testing.T) {
	at := func(namespace, name string, after time.Duration) *v1alpha1.LogicalCloud {
		return &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(noon.Add(after))}}
	}
	for name, x := range map[string][2]*v1alpha1.LogicalCloud{
		"by time":      {at("z", "z", 0), at("a", "a", 1)},
		"by namespace": {at("a", "z", 0), at("b", "a", 0)},
		"by name":      {at("a", "a", 0), at("a", "b", 0)},
	} {
		if !cloud.Older(x[0], x[1]) || cloud.Older(x[1], x[0]) || cloud.Older(x[0], x[0]) {
			t.Errorf("%s: the order is wrong", name)
		}
	}
}

func TestProbesAreRead(t *testing.T) {
	c := prod()
	mine := muster.CloudID("team-a", "prod")
	for name, x := range map[string]struct {
		available *metav1.Condition
		values    map[string]string
		want      cloud.Found
		own       bool
	}{
		"no answer":              {nil, nil, cloud.Found{}, false},
		"an answer from before":  {&metav1.Condition{Status: metav1.ConditionFalse, ObservedGeneration: 1}, nil, cloud.Found{}, false},
		"an agent that may not":  {&metav1.Condition{Status: metav1.ConditionUnknown, ObservedGeneration: 2}, nil, cloud.Found{}, false},
		"no namespace":           {&metav1.Condition{Status: metav1.ConditionFalse, ObservedGeneration: 2}, nil, cloud.Found{Answered: true}, false},
		"somebody's":             {&metav1.Condition{Status: metav1.ConditionTrue, ObservedGeneration: 2}, nil, cloud.Found{Answered: true, Exists: true}, false},
		"its own":                {&metav1.Condition{Status: metav1.ConditionTrue, ObservedGeneration: 2}, map[string]string{"cloud": mine, "hub": "h"}, cloud.Found{Answered: true, Exists: true, CloudID: mine, HubID: "h"}, true},
		"its own, adopted":       {&metav1.Condition{Status: metav1.ConditionTrue, ObservedGeneration: 2}, map[string]string{"cloud": mine, "hub": "h", "adopted": "true"}, cloud.Found{Answered: true, Exists: true, CloudID: mine, HubID: "h", Adopted: true}, true},
		"of another hub's cloud": {&metav1.Condition{Status: metav1.ConditionTrue, ObservedGeneration: 2}, map[string]string{"cloud": mine, "hub": "x"}, cloud.Found{Answered: true, Exists: true, CloudID: mine, HubID: "x"}, false},
	} {
		w := cloud.Probe(c, "h", "paris")
		w.Generation = 2
		if x.available != nil {
			x.available.Type = work.ConditionAvailable
			w.Status.Conditions = []metav1.Condition{*x.available}
		}
		feedback := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Resource: "namespaces", Name: "apps"}}
		for k, v := range x.values {
			feedback.StatusFeedbacks.Values = append(feedback.StatusFeedbacks.Values, workv1.FeedbackValue{Name: k, Value: workv1.FieldValue{Type: workv1.ValueTypeString, String: ptr.To(v)}})
		}
		w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{feedback}
		if got := cloud.ReadProbe(w, "apps"); got != x.want || got.Of(c, "h") != x.own {
			t.Errorf("%s: got %+v, its own: %v", name, got, got.Of(c, "h"))
		}
	}
}

// The two namespaces that a probe looks at are distinguished.
func TestProbesAreReadByNamespace(t *testing.T) {
	c := prod()
	accounts := cloud.AccountNamespace(c, "h")
	w := cloud.Probe(c, "h", "paris")
	w.Status.Conditions = []metav1.Condition{{Type: work.ConditionAvailable, Status: metav1.ConditionFalse}}
	entry := func(name string, status metav1.ConditionStatus) workv1.ManifestCondition {
		return workv1.ManifestCondition{
			ResourceMeta: workv1.ManifestResourceMeta{Resource: "namespaces", Name: name},
			Conditions:   []metav1.Condition{{Type: work.ConditionAvailable, Status: status}},
		}
	}
	for _, x := range []struct {
		apps, accounts metav1.ConditionStatus
		want           [2]cloud.Found
	}{
		{metav1.ConditionTrue, metav1.ConditionFalse, [2]cloud.Found{{Answered: true, Exists: true}, {Answered: true}}},
		{metav1.ConditionFalse, metav1.ConditionTrue, [2]cloud.Found{{Answered: true}, {Answered: true, Exists: true}}},
		{metav1.ConditionFalse, metav1.ConditionUnknown, [2]cloud.Found{{Answered: true}, {}}},
	} {
		w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{entry("apps", x.apps), entry(accounts, x.accounts)}
		if got := [2]cloud.Found{cloud.ReadProbe(w, "apps"), cloud.ReadProbe(w, accounts)}; got != x.want {
			t.Errorf("apps %s, accounts %s: got %+v", x.apps, x.accounts, got)
		}
	}
}

func TestNamespacesOfAccounts(t *testing.T) {
	longest := &v1alpha1.LogicalCloud{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("m", 253)}}
	names := map[string]bool{}
	for _, c := range []*v1alpha1.LogicalCloud{longest, prod(), {ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "test"}}} {
		for _, hub := range []string{"0123abcd", "ffffffff"} {
			name := cloud.AccountNamespace(c, hub)
			if names[name] || len(validation.IsDNS1123Label(name)) > 0 || muster.ReservedNamespace(name) == "" {
				t.Errorf("the namespace is %q", name)
			}
			names[name] = true
		}
	}
	for _, x := range []struct {
		modes []v1alpha1.AccessMode
		want  bool
	}{
		{nil, true}, {[]v1alpha1.AccessMode{v1alpha1.AccessCertificate}, false},
		{[]v1alpha1.AccessMode{v1alpha1.AccessCertificate, v1alpha1.AccessToken}, true},
	} {
		c := prod(func(s *v1alpha1.LogicalCloudSpec) { s.Access.Modes = x.modes })
		if got := cloud.AccountNamespace(c, "h") != ""; got != x.want || len(cloud.Probe(c, "h", "paris").Spec.Workload.Manifests) != map[bool]int{true: 2, false: 1}[x.want] {
			t.Errorf("modes %v: there are accounts: %v", x.modes, got)
		}
	}
}

func TestAProbeChangesNothing(t *testing.T) {
	w := cloud.Probe(prod(), "h", "paris")
	for i, name := range []string{"apps", cloud.AccountNamespace(prod(), "h")} {
		config := w.Spec.ManifestConfigs[i]
		if w.Name != muster.CloudProbe("team-a", "prod") || config.UpdateStrategy.Type != workv1.UpdateStrategyTypeReadOnly ||
			config.ResourceIdentifier.Name != name || w.Spec.DeleteOption.PropagationPolicy != workv1.DeletePropagationPolicyTypeOrphan {
			t.Errorf("the probe is %+v", w)
		}
		if path := config.FeedbackRules[0].JSONPaths[0].Path; path != `.metadata.labels.muster-fleet\.io/logical-cloud` {
			t.Errorf("the path is %s", path)
		}
	}
}
