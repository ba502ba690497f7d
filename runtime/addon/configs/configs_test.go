package configs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/configs"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/rollout"
)

// config reads "group/resource/namespace/name", or "resource/name".
func config(text string) v1alpha1.AddOnConfig {
	part := strings.Split(text, "/")
	if len(part) == 2 {
		part = []string{"", part[0], "", part[1]}
	}
	return v1alpha1.AddOnConfig{
		ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: part[0], Resource: part[1]},
		ConfigReferent:      v1alpha1.ConfigReferent{Namespace: part[2], Name: part[3]},
	}
}

// list reads configurations, each with its hash behind "=".
func list(text string) (out []configs.Config) {
	for field := range strings.FieldsSeq(text) {
		name, hash, _ := strings.Cut(field, "=")
		out = append(out, configs.Config{AddOnConfig: config(name), SpecHash: hash})
	}
	return out
}

// names reads configurations without hashes.
func names(text string) (out []v1alpha1.AddOnConfig) {
	for _, c := range list(text) {
		out = append(out, c.AddOnConfig)
	}
	return out
}

func text(s configs.Set) string {
	var out []string
	for _, c := range s {
		name := c.Resource + "/" + c.Name
		if c.Group != "" || c.Namespace != "" {
			name = strings.Join([]string{c.Group, c.Resource, c.Namespace, c.Name}, "/")
		}
		if c.SpecHash != "" {
			name += "=" + c.SpecHash
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

func TestMoreSpecificConfigurationsReplaceTheirKind(t *testing.T) {
	for name, x := range map[string]struct{ defaults, placement, own, want string }{
		"none":                           {"", "", "", ""},
		"defaults":                       {"b/x=1 a/y=2", "", "", "a/y=2 b/x=1"},
		"a placement's":                  {"a/x=1", "a/y=2", "", "a/y=2"},
		"a cluster's own":                {"a/x=1", "a/y=2", "a/z=3", "a/z=3"},
		"another kind stays":             {"a/x=1 b/x=2", "b/y=3", "", "a/x=1 b/y=3"},
		"several of a kind":              {"a/x=1 a/y=2", "a/z=3", "", "a/z=3"},
		"several in their order":         {"", "a/z=1 b/x=2 a/x=3", "", "a/z=1 a/x=3 b/x=2"},
		"each once":                      {"", "a/z=1 a/x=2 a/z=1", "", "a/z=1 a/x=2"},
		"groups before resources":        {"z/a/n/x=1 a/z/n/x=2", "", "", "a/z/n/x=2 z/a/n/x=1"},
		"one name in two namespaces":     {"", "g/a/n/x=1 g/a/m/x=2", "", "g/a/n/x=1 g/a/m/x=2"},
		"one resource in two groups":     {"g/a/n/x=1", "h/a/n/y=2", "", "g/a/n/x=1 h/a/n/y=2"},
		"a hash that nobody knows yet":   {"a/x", "", "a/y", "a/y"},
		"a cluster's own of another one": {"a/x=1", "b/x=2", "c/x=3", "a/x=1 b/x=2 c/x=3"},
	} {
		t.Run(name, func(t *testing.T) {
			base := configs.Set(nil).Override(list(x.defaults)).Override(list(x.placement))
			before := text(base)
			if got := text(base.Override(list(x.own))); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
			if text(base) != before {
				t.Errorf("the set that was overridden became %q, from %q", text(base), before)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	spec := v1alpha1.ClusterManagementAddOnSpec{SupportedConfigs: []v1alpha1.ConfigMeta{
		{ConfigGroupResource: v1alpha1.ConfigGroupResource{Resource: "none"}},
		{ConfigGroupResource: v1alpha1.ConfigGroupResource{Resource: "empty"}, DefaultConfig: &v1alpha1.ConfigReferent{}},
		{ConfigGroupResource: v1alpha1.ConfigGroupResource{Resource: "reserved"}, DefaultConfig: &v1alpha1.ConfigReferent{Namespace: "n", Name: "__reserved_no_default__"}},
		{ConfigGroupResource: v1alpha1.ConfigGroupResource{Group: "g", Resource: "r"}, DefaultConfig: &v1alpha1.ConfigReferent{Namespace: "n", Name: "x"}},
	}}
	if got, want := configs.Defaults(spec), []v1alpha1.AddOnConfig{config("g/r/n/x")}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWhoManagesAnAddOn(t *testing.T) {
	const lifecycle = "addon.open-cluster-management.io/lifecycle"
	for name, x := range map[string]struct {
		annotations map[string]string
		self        bool
	}{
		"nothing said":  {nil, false},
		"the hub":       {map[string]string{lifecycle: "addon-manager"}, false},
		"itself":        {map[string]string{lifecycle: "self"}, true},
		"empty":         {map[string]string{lifecycle: ""}, true},
		"something new": {map[string]string{lifecycle: "else"}, true},
	} {
		if got := configs.SelfManaged(&v1alpha1.ClusterManagementAddOn{ObjectMeta: metav1.ObjectMeta{Annotations: x.annotations}}); got != x.self {
			t.Errorf("%s: %v, want %v", name, got, x.self)
		}
	}
}

// addOn makes a ManagedClusterAddOn with references as "resource/name=hash", a "!"
// behind those that are applied.
func addOn(references, own string, progressing ...string) *v1alpha1.ManagedClusterAddOn {
	a := &v1alpha1.ManagedClusterAddOn{ObjectMeta: metav1.ObjectMeta{Namespace: "paris", Name: "search"}}
	a.Spec.Configs = names(own)
	for field := range strings.FieldsSeq(references) {
		name, applied := strings.CutSuffix(field, "!")
		c := list(name)[0]
		r := v1alpha1.ConfigReference{ConfigGroupResource: c.ConfigGroupResource, ConfigReferent: c.ConfigReferent, LastObservedGeneration: 7,
			DesiredConfig: &v1alpha1.ConfigSpecHash{ConfigReferent: c.ConfigReferent, SpecHash: c.SpecHash}}
		if applied {
			r.LastAppliedConfig = r.DesiredConfig.DeepCopy()
		}
		a.Status.ConfigReferences = append(a.Status.ConfigReferences, r)
	}
	for _, reason := range progressing {
		a.Status.Conditions = append(a.Status.Conditions, metav1.Condition{Type: "Progressing", Reason: reason, LastTransitionTime: metav1.NewTime(noon)})
	}
	return a
}

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestRolloutStatus(t *testing.T) {
	broken := addOn("a/x=1", "")
	broken.Status.ConfigReferences[0].DesiredConfig = nil
	for name, x := range map[string]struct {
		addOn *v1alpha1.ManagedClusterAddOn
		want  string
		is    rollout.Status
		since time.Time
	}{
		"without configurations":            {addOn("", ""), "", rollout.Succeeded, time.Time{}},
		"without configurations, completed": {addOn("", "", "Completed"), "", rollout.Succeeded, noon},
		"too few":                           {addOn("", ""), "a/x=1", rollout.ToApply, time.Time{}},
		"too many":                          {addOn("a/x=1! a/y=1!", ""), "a/x=1", rollout.ToApply, time.Time{}},
		"another name":                      {addOn("a/y=1!", ""), "a/x=1", rollout.ToApply, time.Time{}},
		"another kind":                      {addOn("b/x=1!", ""), "a/x=1", rollout.ToApply, time.Time{}},
		"another hash":                      {addOn("a/x=2!", "", "Completed"), "a/x=1", rollout.ToApply, time.Time{}},
		"another order":                     {addOn("a/x=1! a/y=1!", ""), "a/y=1 a/x=1", rollout.ToApply, time.Time{}},
		"no desired configuration":          {broken, "a/x=1", rollout.ToApply, time.Time{}},
		"not applied":                       {addOn("a/x=1", ""), "a/x=1", rollout.Progressing, time.Time{}},
		"not applied, completed before":     {addOn("a/x=1", "", "Completed"), "a/x=1", rollout.Progressing, time.Time{}},
		"progressing":                       {addOn("a/x=1", "", "Progressing"), "a/x=1", rollout.Progressing, noon},
		"failed":                            {addOn("a/x=1", "", "Failed"), "a/x=1", rollout.Failed, noon},
		"applied, and failed since":         {addOn("a/x=1!", "", "Failed"), "a/x=1", rollout.Succeeded, time.Time{}},
		"one applied":                       {addOn("a/x=1! b/x=1", "", "Progressing"), "a/x=1 b/x=1", rollout.Progressing, noon},
		"all applied":                       {addOn("a/x=1! b/x=1!", "", "Completed"), "a/x=1 b/x=1", rollout.Succeeded, noon},
		"a later one differs":               {addOn("a/x=1 b/x=1", "", "Progressing"), "a/x=1 b/x=2", rollout.ToApply, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := configs.RolloutStatus(x.addOn, configs.Set(nil).Override(list(x.want)))
			if got.Cluster != "paris" || got.Status != x.is || !got.Since.Equal(x.since) {
				t.Errorf("got %+v, want %s since %s", got, x.is, x.since)
			}
		})
	}
}

func TestOwnConfigurationsTakeTheHashesOfTheStatus(t *testing.T) {
	base := configs.Set(nil).Override(list("a/x=new b/x=1"))
	for name, x := range map[string]struct{ have, own, want string }{
		"none":                              {"a/x=old b/x=1", "", "a/x=new b/x=1"},
		"one that is known":                 {"a/x=new b/y=5", "b/y", "a/x=new b/y=5"},
		"one that is not known":             {"a/x=new b/x=1", "b/y", "a/x=new b/y"},
		"the same object by its own name":   {"a/x=new b/x=7", "b/x", "a/x=new b/x=7"},
		"what others decide stays as it is": {"a/x=old b/y=5", "b/y", "a/x=new b/y=5"},
	} {
		t.Run(name, func(t *testing.T) {
			a := addOn(x.have, x.own)
			if got := text(configs.For(a, base, configs.KnownTo(a))); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	have := addOn("a/x=1! b/x=1! c/x=1", "").Status.ConfigReferences
	have[2].DesiredConfig = nil
	got := configs.References(have, configs.Set(nil).Override(list("c/x=9 b/z=2 b/x=3")))
	want := addOn("b/z=2 b/x=3 c/x=9", "").Status.ConfigReferences
	want[0].LastObservedGeneration, want[2].LastObservedGeneration = 0, 0
	want[1].LastAppliedConfig = have[1].LastAppliedConfig
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := configs.References(have, nil); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
}

func TestUnsupported(t *testing.T) {
	a := addOn("", "a/x b/y c/z")
	a.Status.SupportedConfigs = []v1alpha1.ConfigGroupResource{{Resource: "a"}, {Group: "g", Resource: "b"}, {Resource: "c"}}
	if kind, found := configs.Unsupported(a); !found || kind != (v1alpha1.ConfigGroupResource{Resource: "b"}) {
		t.Errorf("got %v, %v", kind, found)
	}
	a.Spec.Configs = names("a/x c/z")
	if kind, found := configs.Unsupported(a); found {
		t.Errorf("%v is found unsupported", kind)
	}
}

// definition has a placement "p" with configurations, and what its status says of
// them: each "resource/name=hash", with "!" when it is applied and good.
func definition(defaults, placement, status string) *v1alpha1.ClusterManagementAddOn {
	a := &v1alpha1.ClusterManagementAddOn{}
	for _, c := range names(defaults) {
		a.Spec.SupportedConfigs = append(a.Spec.SupportedConfigs, v1alpha1.ConfigMeta{ConfigGroupResource: c.ConfigGroupResource, DefaultConfig: &c.ConfigReferent})
	}
	ref := v1alpha1.PlacementRef{Namespace: "n", Name: "p"}
	a.Spec.InstallStrategy = v1alpha1.InstallStrategy{Type: "Placements", Placements: []v1alpha1.PlacementStrategy{{PlacementRef: ref, Configs: names(placement)}}}
	if status == "-" {
		return a
	}
	p := v1alpha1.InstallProgression{PlacementRef: ref, Conditions: []metav1.Condition{{Type: "Progressing", Reason: "Completed"}}}
	for _, r := range addOn(status, "").Status.ConfigReferences {
		p.ConfigReferences = append(p.ConfigReferences, v1alpha1.InstallConfigReference{ConfigGroupResource: r.ConfigGroupResource,
			DesiredConfig: r.DesiredConfig, LastAppliedConfig: r.LastAppliedConfig, LastKnownGoodConfig: r.LastAppliedConfig})
	}
	a.Status.InstallProgressions = []v1alpha1.InstallProgression{p}
	return a
}

func TestProgressions(t *testing.T) {
	for name, x := range map[string]struct {
		defaults, placement, status string
		want                        string
		goesOn                      bool
	}{
		"new":                           {"a/x", "", "-", "a/x", false},
		"the same":                      {"a/x", "", "a/x=1!", "a/x=1!", true},
		"without configurations":        {"", "", "", "", true},
		"a default of a kind that goes": {"a/x", "a/y", "a/y=1!", "a/y=1!", true},
		"a configuration is removed":    {"a/x", "", "a/x=1! b/x=2!", "a/x=1!", true},
		"a configuration is added":      {"a/x b/x", "", "a/x=1!", "a/x=1 b/x", false},
		"a configuration is replaced":   {"a/x", "b/y", "a/x=1! b/x=2!", "a/x=1 b/y", false},
		"another order":                 {"", "b/y b/x a/z", "a/z=3! b/x=1! b/y=2!", "a/z=3! b/y=2! b/x=1!", true},
		"the kinds are sorted":          {"c/x b/x", "a/x", "-", "a/x b/x c/x", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := configs.Progressions(definition(x.defaults, x.placement, x.status))
			if len(got) != 1 || (len(got[0].Conditions) == 1) != x.goesOn {
				t.Fatalf("got %+v, want one that goes on: %v", got, x.goesOn)
			}
			var fields []string
			for _, r := range got[0].ConfigReferences {
				field := r.Resource + "/" + r.DesiredConfig.Name
				if h := r.DesiredConfig.SpecHash; h != "" {
					field += "=" + h
				}
				if r.LastAppliedConfig != nil && r.LastKnownGoodConfig != nil {
					field += "!"
				}
				fields = append(fields, field)
			}
			if got := strings.Join(fields, " "); got != x.want {
				t.Errorf("got %q, want %q", got, x.want)
			}
		})
	}
	manual := definition("a/x", "", "a/x=1!")
	manual.Spec.InstallStrategy.Type = "Manual"
	if got := configs.Progressions(manual); got != nil {
		t.Errorf("the strategy Manual has %+v", got)
	}
}

func TestAPlacementThatIsNoLongerNamedIsForgotten(t *testing.T) {
	a := definition("a/x", "", "a/x=1!")
	a.Spec.InstallStrategy.Placements[0].Namespace = "other"
	got := configs.Progressions(a)
	if len(got) != 1 || got[0].Namespace != "other" || len(got[0].Conditions) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestHashesAreSetEverywhere(t *testing.T) {
	a := definition("a/x b/x", "b/y", "a/x=1 b/y=1")
	a.Status.DefaultConfigReferences = configs.DefaultReferences(a)
	a.Status.InstallProgressions[0].ConfigReferences = append(a.Status.InstallProgressions[0].ConfigReferences, v1alpha1.InstallConfigReference{})
	configs.SetHashes(&a.Status, func(c v1alpha1.AddOnConfig) (string, bool) { return "of-" + c.Name, c.Resource == "b" })
	if got := text(configs.OfDefaults(a.Status)); got != "a/x=1 b/x=of-x" {
		t.Errorf("the defaults are %s", got)
	}
	if got := text(configs.OfProgression(a.Status.InstallProgressions[0])); got != "a/x=1 b/y=of-y" {
		t.Errorf("the placement's are %s", got)
	}
}

// The vectors are upstream's.
func TestHash(t *testing.T) {
	object := func(value string) map[string]any {
		return map[string]any{
			"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
			"metadata": map[string]any{"name": "x", "generation": int64(3)}, "status": map[string]any{},
			"spec": map[string]any{
				"proxyConfig": map[string]any{}, "agentInstallNamespace": "open-cluster-management-agent-addon",
				"customizedVariables": []any{map[string]any{"name": value, "value": value}},
			},
		}
	}
	for value, want := range map[string]string{
		"test":  "ea4e6089e8b2f584c1cd8b86e16a15df3186b30744f433ede7436091c93a4cc7",
		"test1": "b746cc98936955dd2168640f0011a14f2a74be306c747bc8ba829328cc772690",
	} {
		o := object(value)
		got, err := configs.Hash(o)
		if err != nil || got != want {
			t.Errorf("the hash for %s is %s (%v), want %s", value, got, err, want)
		}
		if o["kind"] == nil || o["metadata"] == nil {
			t.Error("the object has changed")
		}
	}
	one, err := configs.Hash(map[string]any{"data": map[string]any{"a": "<b>"}})
	testkit.Must(t, err)
	two, err := configs.Hash(map[string]any{"data": map[string]any{"a": "<b>"}, "kind": "ConfigMap"})
	testkit.Must(t, err)
	three, err := configs.Hash(map[string]any{"data": map[string]any{"a": "<b>"}, "more": true})
	testkit.Must(t, err)
	if one != two || one == three {
		t.Errorf("the hashes of contents are %s, %s and %s", one, two, three)
	}
}

// The override of a template is part of what it says, and other annotations are none.
func TestHashOfAnOverride(t *testing.T) {
	hash := func(kind string, annotations map[string]any) string {
		got, err := configs.Hash(map[string]any{
			"kind": kind, "metadata": map[string]any{"annotations": annotations},
			"spec": map[string]any{"addonName": "a"},
		})
		testkit.Must(t, err)
		return got
	}
	own := map[string]any{muster.OverrideAnnotation: `{"values":[]}`}
	plain := hash("AddOnTemplate", nil)
	if got := hash("AddOnTemplate", map[string]any{"other": "x"}); got != plain {
		t.Error("another annotation counts")
	}
	if hash("AddOnTemplate", own) == plain {
		t.Error("an override does not count")
	}
	if hash("AddOnDeploymentConfig", own) != hash("AddOnDeploymentConfig", nil) {
		t.Error("an override of a configuration counts")
	}
}

func TestWorksNameTheirConfigurations(t *testing.T) {
	references := addOn("g/rs/n/x=1 h/cs//y=2 /configmaps/n/z=3", "").Status.ConfigReferences
	const annotation = `{"configmaps/n/z":"3","cs.h//y":"2","rs.g/n/x":"1"}`
	if got, ok := configs.SpecHashAnnotation(references); !ok || got != annotation {
		t.Errorf("the annotation is %s (%v)", got, ok)
	}
	if got, ok := configs.SpecHashAnnotation(nil); ok {
		t.Errorf("without configurations there is the annotation %s", got)
	}
	unknown := addOn("g/rs/n/x=1 h/cs//y", "").Status.ConfigReferences
	nothing := addOn("g/rs/n/x=1", "").Status.ConfigReferences
	nothing[0].DesiredConfig = nil
	for name, x := range map[string]struct {
		annotation string
		present    bool
		references []v1alpha1.ConfigReference
		want       bool
	}{
		"the same":                      {annotation, true, references, true},
		"in another order":              {`{"rs.g/n/x":"1","configmaps/n/z":"3","cs.h//y":"2"}`, true, references, true},
		"another hash":                  {strings.ReplaceAll(annotation, `"2"`, `"3"`), true, references, false},
		"one more":                      {strings.Replace(annotation, "{", `{"a":"b",`, 1), true, references, false},
		"one less":                      {`{"cs.h//y":"2"}`, true, references, false},
		"none, and none wanted":         {"", false, nil, true},
		"none":                          {"", false, references, false},
		"an empty one, and none wanted": {"{}", true, nil, true},
		"no JSON":                       {"", true, nil, false},
		"JSON of another kind":          {`["a"]`, true, references, false},
		"an empty hash in the work":     {strings.ReplaceAll(annotation, `"2"`, `""`), true, references, false},
		"an empty hash that is wanted":  {strings.ReplaceAll(annotation, `"2"`, `""`), true, unknown, false},
		"no desired configuration":      {`{}`, true, nothing, false},
	} {
		if got := configs.Matches(x.annotation, x.present, x.references); got != x.want {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

func TestTemplates(t *testing.T) {
	a := definition("", "", "-")
	if configs.FromTemplate(a) {
		t.Error("an add-on without a template is from one")
	}
	for _, kind := range configs.TemplateKinds() {
		a.Spec.SupportedConfigs = append(a.Spec.SupportedConfigs, v1alpha1.ConfigMeta{ConfigGroupResource: kind})
	}
	if !configs.FromTemplate(a) || fmt.Sprint(configs.TemplateKinds()) != "[{addon.open-cluster-management.io addondeploymentconfigs} {addon.open-cluster-management.io addontemplates}]" {
		t.Errorf("kinds %v", configs.TemplateKinds())
	}
}
