package works_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/internal/workdigest"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Whatever an add-on goes through, each manifest is in one work, no work is empty or
// too large, none is written twice, and nothing moves that need not.
func TestAnyHistoryOfAnAddOn(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := server{}
		var was map[string]string
		for range 12 {
			var deployed []*unstructured.Unstructured
			total := 0
			for i := range r.IntN(12) {
				if r.IntN(4) > 0 {
					size := 80 + r.IntN(900)
					total += size
					deployed = append(deployed, cm(fmt.Sprintf("m%d", i), size))
				}
			}
			if all := slices.Sorted(maps.Keys(s)); len(all) > 0 && r.IntN(4) == 0 {
				delete(s, all[r.IntN(len(all))])
			}
			have := maps.Clone(s)
			changes := deploy(t, s, input(deployed...))
			if again := deploy(t, s, input(deployed...)); len(again) > 0 {
				t.Fatalf("seed %d: once more: %s", seed, describe(again))
			}
			is := whereabouts(t, s)
			if len(is) != len(deployed) {
				t.Fatalf("seed %d: %d manifests in %q, want %d", seed, len(is), s, len(deployed))
			}
			moved := 0
			for m, w := range is {
				if before := was[m]; before != "" && before != w && have[before] != nil {
					moved++
				}
			}
			if moved > 0 && !strings.Contains(describe(changes), "~") {
				t.Fatalf("seed %d: %d manifests moved by %s", seed, moved, describe(changes))
			}
			was = is
		}
	}
}

// whereabouts are the works of manifests. They are all within the limits.
func whereabouts(t *testing.T, s server) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, w := range s {
		size := 0
		for _, m := range w.Spec.Workload.Manifests {
			o := &unstructured.Unstructured{}
			testkit.Must(t, o.UnmarshalJSON(m.Raw))
			if out[o.GetName()] != "" {
				t.Fatalf("%s is in two works: %s", o.GetName(), s)
			}
			out[o.GetName()] = name
			size += m.Size()
		}
		if size > limit || size == 0 {
			t.Fatalf("the work %s has %d bytes", name, size)
		}
	}
	return out
}

func TestWhatCannotBecomeAWork(t *testing.T) {
	_, err := works.Deploy(input(cm("huge", 2000)), nil)
	if err == nil || !strings.Contains(err.Error(), "the manifest ConfigMap n/huge has 20") || !strings.Contains(err.Error(), "more than the 1000 that a work may have: make it smaller") {
		t.Errorf("got %v", err)
	}
	in := input()
	in.Hooks = objects(object("Job", "a", 600), object("Job", "b", 600))
	if _, _, err := works.Hook(in, nil); err == nil || !strings.Contains(err.Error(), "run before the add-on is deleted have 12") {
		t.Errorf("got %v", err)
	}
	a := addOn()
	if err := works.CheckName(a); err != nil {
		t.Error(err)
	}
	a.Name = strings.Repeat("x", 64)
	if err := works.CheckName(a); err == nil || !strings.Contains(err.Error(), "(64 characters), cannot be the value of the label open-cluster-management.io/addon-name, which its works need: must be no more than 63") {
		t.Errorf("got %v", err)
	}
}

// metadata is a work without its spec, as JSON.
func metadata(t testing.TB, w *workv1.ManifestWork) string {
	t.Helper()
	data, err := json.Marshal(w.ObjectMeta)
	testkit.Must(t, err)
	return string(data)
}

func TestTheMetadataOfWorks(t *testing.T) {
	in := input(cm("a", 100))
	c, err := works.Deploy(in, nil)
	testkit.Must(t, err)
	const owner = `[{"apiVersion":"addon.open-cluster-management.io/v1beta1","kind":"ManagedClusterAddOn","name":"search","uid":"uid","controller":true,"blockOwnerDeletion":true}]`
	const annotations = `{"open-cluster-management.io/config-spec-hash":"{\"addontemplates.addon.open-cluster-management.io//t\":\"h\"}"}`
	if got, want := metadata(t, c[0].Want), `{"name":"addon-search-deploy-0","namespace":"paris","labels":{"open-cluster-management.io/addon-name":"search"},"annotations":`+annotations+`,"ownerReferences":`+owner+`}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	in.Host = "london"
	c, err = works.Deploy(in, nil)
	testkit.Must(t, err)
	if got, want := metadata(t, c[0].Want), `{"name":"addon-search-deploy-hosting-paris-0","namespace":"london","labels":{"open-cluster-management.io/addon-name":"search","open-cluster-management.io/addon-namespace":"paris"},"annotations":`+annotations+`}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	in.Hooks = objects(object("Job", "j", 0))
	hook, _, err := works.Hook(in, nil)
	testkit.Must(t, err)
	if hook.Want.Name != "addon-search-pre-delete-hosting-paris" {
		t.Error(hook.Want.Name)
	}
	in.AddOn.Status.ConfigReferences, in.Host = nil, ""
	c, err = works.Deploy(in, nil)
	testkit.Must(t, err)
	if len(c[0].Want.Annotations) != 1 { // the hooks
		t.Errorf("without configurations the annotations are %v", c[0].Want.Annotations)
	}
}

// What others add to a work stays, and what the add-on says of it is put back.
func TestWhatIsPatched(t *testing.T) {
	first, err := works.Deploy(input(cm("a", 100)), nil)
	testkit.Must(t, err)
	for name, x := range map[string]struct {
		change func(w *workv1.ManifestWork)
		want   string
	}{
		"nothing": {func(*workv1.ManifestWork) {}, ""},
		"what others add": {func(w *workv1.ManifestWork) {
			w.Labels["x"], w.Annotations["x"] = "y", "y"
			w.Finalizers = []string{"x"}
			w.OwnerReferences = append(w.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"})
		}, ""},
		"a lean work": {func(w *workv1.ManifestWork) { w.Spec = workdigest.Lean(w.Spec, works.Names(w.Spec)...) }, ""},
		"an annotation": {func(w *workv1.ManifestWork) {
			w.Annotations["open-cluster-management.io/config-spec-hash"] = "x"
		}, `{"metadata":{"annotations":{"muster-fleet.io/pre-delete-manifests":null,"open-cluster-management.io/config-spec-hash":"{\"addontemplates.addon.open-cluster-management.io//t\":\"h\"}"},"labels":{"open-cluster-management.io/addon-name":"search"},"resourceVersion":"7","uid":"w"}}`},
		"an owner of the other version": {func(w *workv1.ManifestWork) {
			w.OwnerReferences[0].APIVersion = "addon.open-cluster-management.io/v1alpha1"
			w.OwnerReferences = append(w.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"})
		}, `"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"},{"apiVersion":"addon.open-cluster-management.io/v1beta1","kind":"ManagedClusterAddOn","name":"search","uid":"uid","controller":true,"blockOwnerDeletion":true}]`},
		"an add-on that was created again": {func(w *workv1.ManifestWork) { w.OwnerReferences[0].UID = "before" }, `"ownerReferences":[{"apiVersion":"addon.open-cluster-management.io/v1beta1","kind":"ManagedClusterAddOn","name":"search","uid":"uid"`},
		"the spec": {func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: "Orphan"}
		}, `"spec":{"deleteOption":null,"executor":null,"manifestConfigs":null,"workload":{"manifests":[{`},
	} {
		t.Run(name, func(t *testing.T) {
			have := first[0].Want.DeepCopy()
			have.ResourceVersion, have.UID = "7", "w"
			x.change(have)
			changes, err := works.Deploy(input(cm("a", 100)), []*workv1.ManifestWork{have})
			testkit.Must(t, err)
			if (len(changes) == 0) != (x.want == "") {
				t.Fatalf("the changes are %s", describe(changes))
			}
			if x.want == "" {
				return
			}
			patch, err := changes[0].Patch()
			testkit.Must(t, err)
			if !strings.Contains(string(patch), x.want) {
				t.Errorf("the patch is %s", patch)
			}
		})
	}
}

// Works of others, and those of the add-on elsewhere, are not touched.
func TestWorksOfOthers(t *testing.T) {
	c, err := works.Deploy(input(cm("a", 100)), nil)
	testkit.Must(t, err)
	other := func(change func(w *workv1.ManifestWork)) *workv1.ManifestWork {
		w := c[0].Want.DeepCopy()
		change(w)
		return w
	}
	have := []*workv1.ManifestWork{
		other(func(w *workv1.ManifestWork) { w.Name = "addon-search-deploy" }),
		other(func(w *workv1.ManifestWork) { w.Name = "addon-search-deploy-01" }),
		other(func(w *workv1.ManifestWork) { w.Name = "addon-search-deploy--1" }),
		other(func(w *workv1.ManifestWork) { w.Name = "addon-search-pre-delete" }),
		other(func(w *workv1.ManifestWork) { w.Labels["open-cluster-management.io/addon-namespace"] = "london" }),
		other(func(w *workv1.ManifestWork) { w.Labels["open-cluster-management.io/addon-name"] = "other" }),
		other(func(w *workv1.ManifestWork) { w.Namespace = "london" }),
	}
	changes, err := works.Deploy(input(), have)
	testkit.Must(t, err)
	if len(changes) > 0 {
		t.Errorf("%s", describe(changes))
	}
}

// A work that is being deleted keeps what it holds until it is gone.
func TestAWorkThatIsBeingDeleted(t *testing.T) {
	s := server{}
	deploy(t, s, input(cm("a", 100)))
	now := metav1.Now()
	s["addon-search-deploy-0"].DeletionTimestamp = &now
	if changes := deploy(t, s, input(cm("a", 100), cm("b", 100))); describe(changes) != "+1" || s.String() != "0:a 1:b" {
		t.Errorf("the works are %q by %s", s, describe(changes))
	}
	delete(s, "addon-search-deploy-0")
	if changes := deploy(t, s, input(cm("a", 100), cm("b", 100))); describe(changes) != "~1" {
		t.Errorf("the works are %q by %s", s, describe(changes))
	}
}

func spec(t testing.TB, in works.Input) workv1.ManifestWorkSpec {
	t.Helper()
	c, err := works.Deploy(in, nil)
	testkit.Must(t, err)
	return c[0].Want.Spec
}

func TestWhatStaysInTheCluster(t *testing.T) {
	marked := func(apiVersion, kind, name string) *unstructured.Unstructured {
		o := object(kind, name, 0, "deletion-orphan=")
		o.SetAPIVersion(apiVersion)
		return o
	}
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "geese.example.org"},
		"spec":     map[string]any{"group": "example.org", "names": map[string]any{"kind": "Goose", "plural": "geese"}}}}
	in := input(cm("goes", 0), marked("example.org/v1", "Goose", "g"), marked("networking.k8s.io/v1", "NetworkPolicy", "p"), marked("v1", "Endpoints", "e"), marked("example.org/v1", "Moose", "m"), crd)
	in.ManifestLimit = 100000
	var got []string
	option := spec(t, in).DeleteOption
	for _, r := range option.SelectivelyOrphan.OrphaningRules {
		got = append(got, strings.Join([]string{r.Group, r.Resource, r.Namespace, r.Name}, "/"))
	}
	if want := "example.org/geese/n/g networking.k8s.io/networkpolicies/n/p /endpoints/n/e example.org/mooses/n/m"; strings.Join(got, " ") != want || option.PropagationPolicy != "SelectivelyOrphan" {
		t.Errorf("got %s", got)
	}
	for name, x := range map[string]struct {
		template *workv1.DeleteOption
		marked   bool
		want     string
	}{
		"nothing":                     {nil, false, "null"},
		"all, says the template":      {&workv1.DeleteOption{PropagationPolicy: "Orphan"}, true, `{"propagationPolicy":"Orphan"}`},
		"no end after a time":         {&workv1.DeleteOption{TTLSecondsAfterFinished: new(int64)}, false, `{"propagationPolicy":"Foreground"}`},
		"one, says the template":      {&workv1.DeleteOption{PropagationPolicy: "SelectivelyOrphan", SelectivelyOrphan: &workv1.SelectivelyOrphan{OrphaningRules: []workv1.OrphaningRule{{Resource: "pods", Name: "x"}}}}, true, `{"propagationPolicy":"SelectivelyOrphan","selectivelyOrphans":{"orphaningRules":[{"resource":"configmaps","name":"a","namespace":"n"},{"resource":"pods","name":"x"}]}}`},
		"one, by its mark":            {nil, true, `{"propagationPolicy":"SelectivelyOrphan","selectivelyOrphans":{"orphaningRules":[{"resource":"configmaps","name":"a","namespace":"n"}]}}`},
		"the template's Foreground":   {&workv1.DeleteOption{PropagationPolicy: "Foreground"}, false, `{"propagationPolicy":"Foreground"}`},
		"the template's, without any": {&workv1.DeleteOption{PropagationPolicy: "SelectivelyOrphan"}, false, `{"propagationPolicy":"SelectivelyOrphan"}`},
	} {
		in := input(cm("a", 0))
		if x.marked {
			in = input(object("ConfigMap", "a", 0, "deletion-orphan=x"))
		}
		in.DeleteOption = x.template
		got, err := json.Marshal(spec(t, in).DeleteOption)
		testkit.Must(t, err)
		if string(got) != x.want {
			t.Errorf("%s: got %s, want %s", name, got, x.want)
		}
	}
}

func TestOptionsAreAsTheServerStoresThem(t *testing.T) {
	in := input(cm("a", 0))
	in.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{Type: "ServiceAccount", ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "n", Name: "x"}}}
	in.ManifestConfigs = []workv1.ManifestConfigOption{{UpdateStrategy: &workv1.UpdateStrategy{ServerSideApply: &workv1.ServerSideApplyConfig{}}}}
	got := spec(t, in)
	strategy := got.ManifestConfigs[0].UpdateStrategy
	if got.Executor == nil || got.ManifestConfigs[0].FeedbackScrapeType != "Poll" || strategy.Type != "Update" || strategy.ServerSideApply.FieldManager != "work-agent" {
		t.Errorf("got %+v", got)
	}
	if in.ManifestConfigs[0].FeedbackScrapeType != "" {
		t.Error("the input has changed")
	}
}

func TestSort(t *testing.T) {
	all := objects(cm("plain", 0), object("ConfigMap", "here", 0, "hosted-manifest-location=managed"), object("ConfigMap", "there", 0, "hosted-manifest-location=hosting"),
		object("ConfigMap", "nowhere", 0, "hosted-manifest-location=none"), object("Job", "hook", 0, "addon-pre-delete="), object("Pod", "pod", 0, "addon-pre-delete=x"),
		object("ConfigMap", "no-hook", 0, "addon-pre-delete="), object("Job", "hook-there", 0, "addon-pre-delete=", "hosted-manifest-location=hosting"))
	labelled := object("Job", "labelled", 0)
	labelled.SetLabels(map[string]string{"addon.open-cluster-management.io/addon-pre-delete": "", "addon.open-cluster-management.io/hosted-manifest-location": "hosting"})
	all = append(all, labelled)
	text := func(c works.Content) string {
		var out []string
		for i, list := range [][]*unstructured.Unstructured{c.Deploy, c.Hooks} {
			for _, o := range list {
				out = append(out, map[int]string{1: "!"}[i]+o.GetName())
			}
		}
		return strings.Join(out, " ")
	}
	for hosted, want := range map[bool]string{
		false: "plain here there nowhere no-hook !hook !pod !hook-there !labelled | ",
		true:  "plain here no-hook !hook !pod | there !hook-there !labelled",
	} {
		managed, hosting, err := works.Sort(all, hosted)
		testkit.Must(t, err)
		if got := text(managed) + " | " + text(hosting); got != want {
			t.Errorf("hosted %v: got %q, want %q", hosted, got, want)
		}
	}
	wrong := objects(object("ConfigMap", "x", 0, "hosted-manifest-location=mars"))
	if _, _, err := works.Sort(wrong, false); err != nil {
		t.Error("not hosted:", err)
	}
	if _, _, err := works.Sort(wrong, true); err == nil || err.Error() != `the manifest ConfigMap n/x: addon.open-cluster-management.io/hosted-manifest-location is "mars": use managed, hosting or none` {
		t.Errorf("got %v", err)
	}
}

func TestNames(t *testing.T) {
	s := workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{
		raw(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","labels":{"a":"b"}},"data":{"a":"b"}}`),
		raw(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b"},"spec":{"replicas":0,"paused":true}}`),
		raw(`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"c"},"spec":{}}`),
		raw(`{"apiVersion":"example.org/v1","kind":"X","metadata":{"name":"d"},"spec":"text"}`),
		raw(`{"apiVersion":"example.org/v1","kind":"X","metadata":{"name":"e"},"spec":{"replicas":"three"}}`),
	}}}
	const want = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"n","name":"a"}}` +
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"b"},"spec":{"replicas":0}}` +
		`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"c"}}` +
		`{"apiVersion":"example.org/v1","kind":"X","metadata":{"name":"d"}}` +
		`{"apiVersion":"example.org/v1","kind":"X","metadata":{"name":"e"}}`
	for range 2 {
		var got string
		kept := works.Names(s)
		for _, m := range kept {
			got += string(m.Raw)
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		s = workdigest.Lean(s, kept...)
	}
	if got := works.Objects([]*workv1.ManifestWork{{Spec: s}}); len(got) != 5 || got[1].GetKind() != "Deployment" {
		t.Errorf("got %v", got)
	}
}

// raw is a manifest of JSON.
func raw(text string) workv1.Manifest {
	return workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(text)}}
}
