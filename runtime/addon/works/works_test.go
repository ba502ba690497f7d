package works_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/works"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// limit is the greatest size of a work's manifests in the tests.
const limit = 1000

// object is a manifest of about a size.
func object(kind, name string, size int, marks ...string) *unstructured.Unstructured {
	group := map[string]string{"Job": "batch/v1", "Deployment": "apps/v1"}[kind]
	if group == "" {
		group = "v1"
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group, "kind": kind, "metadata": map[string]any{"namespace": "n", "name": name}}}
	if len(marks) > 0 {
		annotations := map[string]string{}
		for _, m := range marks {
			k, v, _ := strings.Cut(m, "=")
			annotations["addon.open-cluster-management.io/"+k] = v
		}
		o.SetAnnotations(annotations)
	}
	if raw, err := o.MarshalJSON(); err == nil && len(raw) < size {
		o.Object["data"] = strings.Repeat("x", size-len(raw))
	}
	return o
}

func objects(all ...*unstructured.Unstructured) []*unstructured.Unstructured { return all }

// addOn is the add-on search in the cluster paris.
func addOn() *v1alpha1.ManagedClusterAddOn {
	a := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "search", UID: "uid"}}
	ref := v1alpha1.ConfigReferent{Name: "t"}
	kind := v1alpha1.ConfigGroupResource{Group: "addon.open-cluster-management.io", Resource: "addontemplates"}
	a.Status.ConfigReferences = []v1alpha1.ConfigReference{{ConfigGroupResource: kind, ConfigReferent: ref, DesiredConfig: &v1alpha1.ConfigSpecHash{ConfigReferent: ref, SpecHash: "h"}}}
	return a
}

func input(deploy ...*unstructured.Unstructured) works.Input {
	return works.Input{Place: works.Place{AddOn: addOn()}, Content: works.Content{Deploy: deploy}, ManifestLimit: limit}
}

// server stands for the works that there are.
type server map[string]*workv1.ManifestWork

func (s server) list() (out []*workv1.ManifestWork) {
	for _, w := range s {
		out = append(out, w)
	}
	return out
}

// do carries changes out as a server does, apart from patches.
func (s server) do(changes []works.Change) {
	for _, c := range changes {
		if c.Want == nil {
			delete(s, c.Have.Name)
		} else {
			s[c.Want.Name] = c.Want.DeepCopy()
		}
	}
}

// String are the works with their manifests, as "0:a,b 1:c".
func (s server) String() string {
	var out []string
	for n := range 100 {
		w := s[fmt.Sprintf("addon-search-deploy-%d", n)]
		if w == nil {
			continue
		}
		var names []string
		for _, m := range w.Spec.Workload.Manifests {
			o := &unstructured.Unstructured{}
			if err := o.UnmarshalJSON(m.Raw); err != nil {
				return err.Error()
			}
			names = append(names, o.GetName())
		}
		out = append(out, fmt.Sprintf("%d:%s", n, strings.Join(names, ",")))
	}
	return strings.Join(out, " ")
}

// describe are changes as "+0 ~1 -2".
func describe(changes []works.Change) string {
	var out []string
	for _, c := range changes {
		switch {
		case c.Have == nil:
			out = append(out, "+"+strings.TrimPrefix(c.Want.Name, "addon-search-deploy-"))
		case c.Want == nil:
			out = append(out, "-"+strings.TrimPrefix(c.Have.Name, "addon-search-deploy-"))
		default:
			out = append(out, "~"+strings.TrimPrefix(c.Want.Name, "addon-search-deploy-"))
		}
	}
	return strings.Join(out, " ")
}

func deploy(t testing.TB, s server, in works.Input) []works.Change {
	t.Helper()
	changes, err := works.Deploy(in, s.list())
	testkit.Must(t, err)
	s.do(changes)
	return changes
}

func cm(name string, size int) *unstructured.Unstructured { return object("ConfigMap", name, size) }

func TestHowManifestsAreSpreadOverWorks(t *testing.T) {
	for name, x := range map[string]struct {
		before, now []*unstructured.Unstructured
		gone        string // a work that somebody deletes in between
		want        string
		changes     string
	}{
		"nothing":                          {nil, nil, "", "", ""},
		"one work":                         {nil, objects(cm("a", 100), cm("b", 100)), "", "0:a,b", "+0"},
		"in the order of the template":     {nil, objects(cm("z", 100), cm("m", 300), cm("a", 200)), "", "0:z,m,a", "+0"},
		"two works":                        {nil, objects(cm("a", 300), cm("b", 500), cm("c", 400)), "", "0:b 1:a,c", "+0 +1"},
		"a large one first leaves no gap":  {nil, objects(cm("a", 900), cm("b", 100)), "", "0:a 1:b", "+0 +1"},
		"the same again":                   {objects(cm("a", 300), cm("b", 500)), objects(cm("a", 300), cm("b", 500)), "", "0:b 1:a", ""},
		"one more":                         {objects(cm("a", 300)), objects(cm("b", 300), cm("a", 300)), "", "0:b,a", "~0"},
		"one less":                         {objects(cm("a", 300), cm("b", 300)), objects(cm("b", 300)), "", "0:b", "~0"},
		"none any more":                    {objects(cm("a", 300), cm("b", 700)), nil, "", "", "-0 -1"},
		"the second work is not needed":    {objects(cm("a", 300), cm("b", 700)), objects(cm("b", 700)), "", "0:b", "-1"},
		"what grows stays where it is":     {objects(cm("a", 300), cm("b", 300)), objects(cm("a", 600), cm("b", 300)), "", "0:a,b", "~0"},
		"what grows too far makes room":    {objects(cm("a", 300), cm("b", 300)), objects(cm("a", 300), cm("b", 900)), "", "0:a 1:b", "+1 ~0"},
		"the lowest free index":            {objects(cm("a", 700), cm("b", 700), cm("c", 700)), objects(cm("a", 700), cm("b", 700), cm("c", 700)), "0", "0:a 1:b 2:c", "+0"},
		"the lowest free index, more come": {objects(cm("a", 700), cm("b", 700)), objects(cm("b", 700), cm("d", 700), cm("e", 700)), "0", "0:d 1:b 2:e", "+0 +2"},
		"the last of equal ones counts":    {nil, objects(cm("a", 100), cm("b", 100), cm("a", 200)), "", "0:a,b", "+0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := server{}
			managed, _, err := works.Sort(x.before, false)
			testkit.Must(t, err)
			deploy(t, s, input(managed.Deploy...))
			delete(s, "addon-search-deploy-"+x.gone)
			managed, _, err = works.Sort(x.now, false)
			testkit.Must(t, err)
			changes := deploy(t, s, input(managed.Deploy...))
			if s.String() != x.want || describe(changes) != x.changes {
				t.Errorf("the works are %q by %q, want %q by %q", s, describe(changes), x.want, x.changes)
			}
			if again := deploy(t, s, input(managed.Deploy...)); len(again) > 0 {
				t.Errorf("once more: %s", describe(again))
			}
		})
	}
}
