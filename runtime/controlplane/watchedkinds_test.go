package controlplane_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/controlplane"
)

// Kinds of SelectedBy are found by the value of their label, in lists and watches, and as
// before by everything else.
func TestSelectedKindsAreReadByTheirLabel(t *testing.T) {
	const label = "example.org/owner"
	s, stop, err := start(t.Context(), t.TempDir(), controlplane.Options{
		Name: "test",
		SelectedBy: map[schema.GroupResource]string{
			certificatesv1.Resource("certificatesigningrequests"): label,
		},
	})
	testkit.Must(t, err)
	defer stop()
	c := admin(t, s)
	requests := c.CertificatesV1().CertificateSigningRequests()
	made := func(name, owner string) {
		t.Helper()
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if owner != "none" {
			csr.Labels = map[string]string{label: owner}
		}
		_, csr.Spec.Request = testkit.CertificateRequest(t, "jo")
		csr.Spec.SignerName = "example.org/signer"
		csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}
		_, err := requests.Create(t.Context(), csr, metav1.CreateOptions{})
		testkit.Must(t, err)
	}
	owned := func(name, owner string) {
		t.Helper()
		_, err := requests.Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, owner), metav1.PatchOptions{})
		testkit.Must(t, err)
	}
	made("a1", "a")
	made("b1", "b")
	made("empty", "")
	made("none", "none")
	for selector, want := range map[string][]string{
		"":                           {"a1", "b1", "empty", "none"},
		label + "=a":                 {"a1"},
		label + "=c":                 nil,
		label + "=":                  {"empty"},
		label:                        {"a1", "b1", "empty"},
		"!" + label:                  {"none"},
		label + " in (a)":            {"a1"},
		label + " in (a,b)":          {"a1", "b1"},
		label + "!=a":                {"b1", "empty", "none"},
		label + "=a," + label + "=b": nil,
		label + "=a,other":           nil,
	} {
		for _, version := range []string{"", "0"} {
			list, err := requests.List(t.Context(), metav1.ListOptions{
				LabelSelector: selector, ResourceVersion: version,
			})
			testkit.Must(t, err)
			var got []string
			for _, r := range list.Items {
				got = append(got, r.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("a list of %q at the version %q has %q, want %q", selector, version, got, want)
			}
		}
	}
	list, err := requests.List(t.Context(), metav1.ListOptions{})
	testkit.Must(t, err)
	watches := map[string][]string{
		label + "=a":  {"MODIFIED a1", "DELETED a1", "ADDED b1", "ADDED last"},
		label + "!=a": {"ADDED a1", "DELETED b1"},
		"":            {"MODIFIED a1", "MODIFIED a1", "MODIFIED b1", "ADDED last"},
	}
	opened := map[string]watch.Interface{}
	for selector := range watches {
		w, err := requests.Watch(t.Context(), metav1.ListOptions{
			LabelSelector: selector, ResourceVersion: list.ResourceVersion,
		})
		testkit.Must(t, err)
		defer w.Stop()
		opened[selector] = w
	}
	_, err = requests.Patch(t.Context(), "a1", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
	testkit.Must(t, err)
	owned("a1", "b")
	owned("b1", "a")
	made("last", "a")
	for selector, want := range watches {
		for _, w := range want {
			e, open := <-opened[selector].ResultChan()
			if !open {
				t.Fatalf("the watch of %q ends before %q", selector, w)
			}
			r, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
			if got := fmt.Sprint(e.Type, " ", r.GetName()); !ok || got != w {
				t.Errorf("the watch of %q has %q, want %q", selector, got, w)
			}
		}
	}
	metrics, err := c.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	testkit.Must(t, err)
	used := fmt.Sprintf(`index="l:%s",resource="certificatesigningrequests"`, label)
	if !strings.Contains(string(metrics), used) {
		t.Errorf("no list has used the index %s", used)
	}
}
