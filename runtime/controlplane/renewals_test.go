package controlplane_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane/extension"
)

// The newest renewal of a lease is what all reads have. Two of three are not stored, until
// somebody has a say in what is written.
func TestRenewalsInMemory(t *testing.T) {
	var guarded atomic.Int32
	s, stop, err := start(t.Context(), t.TempDir(), controlplane.Options{
		Name:             "test",
		RenewalsInMemory: func(_, name string) bool { return name == "beat" },
		Guard: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					guarded.Add(1)
				}
				next.ServeHTTP(w, r)
			})
		},
		AdmissionPlugins: []extension.AdmissionPlugin{{
			Name:    "Untracked",
			Factory: func(io.Reader) (admission.Interface, error) { return untracked{}, nil },
		}},
	})
	testkit.Must(t, err)
	defer stop()
	for _, format := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(format, func(t *testing.T) {
			config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
			testkit.Must(t, err)
			config.ContentConfig = rest.ContentConfig{ContentType: format, AcceptContentTypes: format}
			testRenewals(t, s, config, &guarded)
		})
	}
}

// untracked removes managed fields, as the hub does from leases: each write would change them.
type untracked struct{}

func (untracked) Handles(admission.Operation) bool { return true }

func (untracked) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if object, err := meta.Accessor(a.GetObject()); err == nil {
		object.SetManagedFields(nil)
	}
	return nil
}

func testRenewals(t *testing.T, s *controlplane.Server, config *rest.Config, guarded *atomic.Int32) {
	leases := clientFor(t, config).CoordinationV1().Leases(metav1.NamespaceDefault)
	now := time.Now().Truncate(time.Microsecond)
	at := func() *metav1.MicroTime { return &metav1.MicroTime{Time: now} }
	kept := make(map[string]*coordinationv1.Lease)
	events := map[string]watch.Interface{}
	for _, name := range []string{"beat", "other"} {
		lease, err := leases.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"a": "b"}},
			Spec:       coordinationv1.LeaseSpec{RenewTime: at()},
		}, metav1.CreateOptions{})
		testkit.Must(t, err)
		kept[name] = lease
		events[name], err = leases.Watch(t.Context(), metav1.ListOptions{
			FieldSelector: "metadata.name=" + name, ResourceVersion: lease.ResourceVersion,
		})
		testkit.Must(t, err)
		defer events[name].Stop()
	}
	defer func() {
		for name := range kept {
			testkit.Must(t, leases.Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
	}()
	renew := func(name string) {
		t.Helper()
		sent := kept[name].DeepCopy()
		sent.Spec.RenewTime = at()
		answer, err := leases.Update(t.Context(), sent, metav1.UpdateOptions{})
		testkit.Must(t, err)
		got, err := leases.Get(t.Context(), name, metav1.GetOptions{})
		testkit.Must(t, err)
		list, err := leases.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		testkit.Must(t, err)
		for from, l := range map[string]*coordinationv1.Lease{
			"the answer": answer, "the object": got, "the list": &list.Items[0],
		} {
			if !l.Spec.RenewTime.Equal(at()) || l.ResourceVersion != answer.ResourceVersion || l.Labels["a"] != "b" {
				t.Errorf("after a renewal of %v, %s has %v of the version %s",
					at(), from, l.Spec.RenewTime, l.ResourceVersion)
			}
		}
		kept[name] = answer
	}
	period := func() {
		t.Helper()
		now = now.Add(time.Second)
		renew("beat")
		renew("other")
	}
	before := guarded.Load()
	for range 8 { // of those of "beat" the first, the second, the fifth and the eighth are stored
		period()
	}
	if got := guarded.Load() - before; got < 16 {
		t.Errorf("%d of 16 renewals have passed the guard", got)
	}
	seen := func(name string) int {
		t.Helper()
		// What is stored last is what ends the count.
		annotate := func(annotations string) *coordinationv1.Lease {
			lease, err := leases.Patch(t.Context(), name, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":`+annotations+`}}`), metav1.PatchOptions{})
			testkit.Must(t, err)
			return lease
		}
		marked := annotate(`{"end":"x"}`)
		if !marked.Spec.RenewTime.Equal(at()) {
			t.Errorf("a patch has lost the renewal of %v: there is %v", at(), marked.Spec.RenewTime)
		}
		if _, err := leases.Update(t.Context(), kept[name], metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("an update of the version before a patch: %v, want a conflict", err)
		}
		kept[name] = annotate("null")
		for n := 0; ; n++ {
			event, open := <-events[name].ResultChan()
			lease, ok := event.Object.(*coordinationv1.Lease)
			if !open || !ok {
				t.Fatalf("the watch ended, with %v", event.Object)
			}
			if lease.ResourceVersion == kept[name].ResourceVersion {
				return n - 1
			}
		}
	}
	if beat, other := seen("beat"), seen("other"); beat != 4 || other != 8 {
		t.Errorf("of 8 renewals a watch has shown %d, and %d of a lease of another name; want 4 and 8", beat, other)
	}
	testPolicy(t, s, func() { now = now.Add(time.Second); renew("beat") }, func() int { return seen("beat") })
}

// testPolicy has a policy bound, which is asked about each renewal from then on.
func testPolicy(t *testing.T, s *controlplane.Server, renew func(), seen func() int) {
	t.Helper()
	policies := admin(t, s).AdmissionregistrationV1()
	fail := admissionv1.Fail
	rule := admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule: admissionv1.Rule{
			APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"leases"},
		},
	}}
	_, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "leases"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{
				ResourceRules: []admissionv1.NamedRuleWithOperations{rule},
			},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.name != 'refused'"}},
		},
	}, metav1.CreateOptions{})
	testkit.Must(t, err)
	bindings := policies.ValidatingAdmissionPolicyBindings()
	_, err = bindings.Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "leases"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "leases", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	testkit.Must(t, err)
	defer func() {
		testkit.Must(t, bindings.Delete(t.Context(), "leases", metav1.DeleteOptions{}))
		testkit.Must(t, policies.ValidatingAdmissionPolicies().Delete(t.Context(), "leases", metav1.DeleteOptions{}))
	}()
	refused := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}
	leases := admin(t, s).CoordinationV1().Leases(metav1.NamespaceDefault)
	testkit.EventuallyThat(t, "the policy is in force", func() error {
		_, err := leases.Create(t.Context(), refused, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("a lease that it refuses: %w", err)
	})
	for range 6 {
		renew()
	}
	if got := seen(); got != 6 {
		t.Errorf("of 6 renewals that a policy is asked about a watch has shown %d", got)
	}
}
