package override_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	clusterv1beta1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1beta1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
	workv1alpha1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/override"
)

// limit is how large works may be here, in bytes.
const limit = 50 << 10

const (
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"},` +
		`"spec":{"replicas":1,` +
		`"template":{"spec":{"containers":[{"name":"web","image":"web:1"},{"name":"log","image":"log:1"}]}}}}`
	settings = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings"},"data":{` +
		`"region":"{{REGION}}","greeting":"{{ CLUSTER_NAME }} in {{REGION}}","other":"{{ .Values.x }} {{ end }} ` +
		`$(VAR)"}}`
)

// west is a cluster with all that values come from.
func west() *clusterv1.ManagedCluster {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
		Name: "west", Labels: map[string]string{"region": "eu-west", "tier": "gold"},
		Annotations: map[string]string{"owner": "shop"},
	}}
	mc.Spec.ManagedClusterClientConfigs = []clusterv1.ClientConfig{{URL: "https://west.example.com:6443"}}
	mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{
		{Name: "platform", Value: "kind"},
		{Name: "nodes", Value: "3"},
	}
	mc.Status.Version.Kubernetes = "v1.36.2"
	return mc
}

func template(manifests ...string) workv1.ManifestWorkSpec {
	var spec workv1.ManifestWorkSpec
	for _, m := range manifests {
		spec.Workload.Manifests = append(
			spec.Workload.Manifests,
			workv1.Manifest{RawExtension: runtime.RawExtension{Raw: []byte(m)}},
		)
	}
	return spec
}

// specOf reads the spec of an override.
func specOf(t testing.TB, text string) v1alpha1.WorkOverrideSpec {
	t.Helper()
	var spec v1alpha1.WorkOverrideSpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatal(err)
	}
	return spec
}

const region = `{values: [{name: REGION, label: region}]}`

func TestForACluster(t *testing.T) {
	values := func(list string) string { return "{values: [" + list + "]}" }
	patched := func(list string) string { return "{overrides: [" + list + "]}" }
	text := func(value string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"x":"` + value + `"}}`
	}
	for name, x := range map[string]struct {
		override string
		template []string
		change   func(*clusterv1.ManagedCluster)
		want     []string // in what comes out
		without  []string // and not in there
	}{
		"a label, and the name": {
			region,
			[]string{settings},
			nil,
			[]string{`"region":"eu-west"`, `"greeting":"west in eu-west"`},
			nil,
		},
		"what other programs replace stays": {
			region,
			[]string{settings},
			nil,
			[]string{`"other":"{{ .Values.x }} {{ end }} $(VAR)"`},
			nil,
		},
		"a claim": {
			values(`{name: P, claim: platform}`),
			[]string{text("on {{P}}")},
			nil,
			[]string{`"x":"on kind"`},
			nil,
		},
		"the address": {
			`{}`,
			[]string{text("{{CLUSTER_URL}}")},
			nil,
			[]string{`"x":"https://west.example.com:6443"`},
			nil,
		},
		"defaults": {
			values(`{name: A, label: none, default: a}, {name: B, claim: none, default: ""}`),
			[]string{text("{{A}}-{{B}}-")},
			nil,
			[]string{`"x":"a--"`}, nil,
		},
		"a number stays one": {
			values(`{name: NUM, expression: 'int(managedCluster.status.clusterClaims.filter(c, c.name == ` +
				`"nodes")[0].value) * 2'}`),
			[]string{strings.Replace(deployment, `"replicas":1`, `"replicas":"{{NUM}}"`, 1)},
			nil,
			[]string{`"replicas":6`},
			nil,
		},
		"a number in a text": {
			values(`{name: NUM, expression: '3000000'}`),
			[]string{text("{{NUM}} times")},
			nil,
			[]string{`"x":"3000000 times"`},
			nil,
		},
		"a fraction in a text": {
			values(`{name: NUM, expression: '2500000.5'}`),
			[]string{text("{{NUM}} times")},
			nil,
			[]string{`"x":"2500000.5 times"`},
			nil,
		},
		"a boolean": {
			values(`{name: GOLD, expression: 'managedCluster.metadata.labels["tier"] == "gold"'}`),
			[]string{text("{{GOLD}}")},
			nil,
			[]string{`"x":true`}, nil,
		},
		"an annotation, and the version": {
			values(`{name: A, expression: 'managedCluster.metadata.annotations["owner"] + ` +
				`managedCluster.status.version.kubernetes'}`),
			[]string{text("{{A}}")}, nil, []string{`"x":"shopv1.36.2"`}, nil,
		},
		"values are texts, not more placeholders, and no JSON": {
			values(`{name: A, claim: evil}, {name: B, label: tier}`), []string{text("{{A}}")},
			func(mc *clusterv1.ManagedCluster) {
				evil := clusterv1.ManagedClusterClaim{Name: "evil", Value: `{{B}}","kind":"Secret`}
				mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{evil}
			}, []string{`"x":"{{B}}\",\"kind\":\"Secret"`}, []string{"gold"},
		},
		"a name of an object, and its " +
			"option": {region, []string{strings.Replace(text("x"), `"c"`, `"c-{{CLUSTER_NAME}}"`, 1)}, nil,
			[]string{`"name":"c-west"`}, nil},
		"a JSON patch": {
			patched(`{manifests: {kind: Deployment}, type: JSON, patch: [{op: replace, path: /spec/replicas, ` +
				`value: 5}]}`),
			[]string{settingsWithout, deployment}, nil, []string{`"replicas":5`}, nil,
		},
		"a merge patch with a placeholder": {
			patched(`{manifests: {kind: ConfigMap, name: settings}, type: Merge, patch: {data: {at: ` +
				`"{{CLUSTER_NAME}}", region: null}}}`),
			[]string{settingsWithout}, nil, []string{`"at":"west"`}, []string{`"region"`},
		},
		"a strategic patch": {
			patched(`{manifests: {group: apps, kind: Deployment, namespace: shop}, type: Strategic, patch: ` +
				`{spec: {template: {spec: {` +
				`containers: [{name: log, image: "log:2"}]}}}}}`),
			[]string{deployment}, nil, []string{`"image":"web:1"`, `"image":"log:2"`}, []string{"log:1"},
		},
		"overrides in their order": {
			patched(`{manifests: {kind: Deployment}, type: Merge, patch: {spec: {replicas: 2}}}, ` +
				`{manifests: {kind: Deployment}, type: Merge, patch: {spec: {replicas: 3}}}`),
			[]string{deployment}, nil, []string{`"replicas":3`}, nil,
		},
		"selected by a label": {
			patched(`{clusterSelector: {labelSelector: {matchLabels: {tier: gold}}}, manifests: {kind: ` +
				`Deployment}, type: Merge, ` +
				`patch: {spec: {replicas: 9}}}`), []string{deployment}, nil, []string{`"replicas":9`}, nil,
		},
		"not selected by a claim": {
			patched(`{clusterSelector: {claimSelector: {matchExpressions: [{key: platform, operator: In, values: ` +
				`[eks]}]}}, ` +
				`manifests: {kind: Deployment}, type: Merge, patch: {spec: {replicas: 9}}}`),
			[]string{deployment}, nil, []string{`"replicas":1`}, nil,
		},
		"selected by an expression": {
			patched(`{clusterSelector: {celSelector: {celExpressions: ` +
				`['managedCluster.metadata.name.startsWith("we")']}}, ` +
				`manifests: {kind: Deployment}, type: Merge, patch: {spec: {replicas: 9}}}`), []string{deployment}, nil,
			[]string{`"replicas":9`}, nil,
		},
		"a value that only others need": {
			`{values: [{name: SIZE, label: size}], overrides: [{clusterSelector: {labelSelector: {matchLabels: ` +
				`{tier: silver}}}, ` +
				`manifests: {kind: Deployment}, type: Merge, patch: {metadata: {labels: {size: "{{SIZE}}"}}}}]}`,
			[]string{deployment}, nil, []string{`"replicas":1`}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := override.Read(specOf(t, x.override))
			if err != nil {
				t.Fatal(err)
			}
			bound, err := o.Bind(template(x.template...), limit)
			if err != nil {
				t.Fatal(err)
			}
			mc := west()
			if x.change != nil {
				x.change(mc)
			}
			got, err := bound.For(context.Background(), mc)
			if err != nil {
				t.Fatal(err)
			}
			var all string
			for _, m := range got.Workload.Manifests {
				all += string(m.Raw)
			}
			for _, want := range x.want {
				if !strings.Contains(all, want) {
					t.Errorf("%s is not in %s", want, all)
				}
			}
			for _, not := range x.without {
				if strings.Contains(all, not) {
					t.Errorf("%s is in %s", not, all)
				}
			}
		})
	}
}

const settingsWithout = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings"},` +
	`"data":{"region":"x"}}`

// Options of the template have placeholders, too; in whose name it is carried out has not.
func TestOptionsAreFilled(t *testing.T) {
	o, err := override.Read(specOf(t, region))
	if err != nil {
		t.Fatal(err)
	}
	spec := template(settings)
	spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Resource: "configmaps", Namespace: "shop", Name: "at-{{REGION}}"},
	}}
	spec.Executor = &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: "shop", Name: "{{REGION}}"},
	}}
	bound, err := o.Bind(spec, limit)
	if err != nil {
		t.Fatal(err)
	}
	got, err := bound.For(context.Background(), west())
	if err != nil {
		t.Fatal(err)
	}
	if name := got.ManifestConfigs[0].ResourceIdentifier.Name; name != "at-eu-west" {
		t.Errorf("the option is for %q", name)
	}
	if name := got.Executor.Subject.ServiceAccount.Name; name != "{{REGION}}" {
		t.Errorf("the executor is %q", name)
	}
	if spec.ManifestConfigs[0].ResourceIdentifier.Name != "at-{{REGION}}" ||
		string(spec.Workload.Manifests[0].Raw) != settings {
		t.Error("the template has changed")
	}
}

func TestMistakes(t *testing.T) {
	long := strings.Repeat("x", 4000)
	for name, x := range map[string]struct {
		override string
		template []string
		want     string // in the error
	}{
		"a placeholder that was mistyped": {
			region, []string{strings.Replace(settings, "{{REGION}}", "{{REGON}}", 1)},
			"manifests[0] (ConfigMap settings): {{REGON}} is none of the values (CLUSTER_NAME, CLUSTER_URL, " +
				"REGION): list it in " +
				"spec.values, or correct it; did you mean {{REGION}}?",
		},
		"in a patch": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: Merge, patch: {data: {a: "{{A}}"}}}]}`,
			[]string{settingsWithout},
			"spec.overrides[0].patch: {{A}} is none of the values",
		},
		"no such manifest": {
			`{overrides: [{manifests: {kind: Deploymnet, name: web}, type: Merge, patch: {}}]}`, []string{deployment},
			`spec.overrides[0].manifests: there is no such manifest (kind Deploymnet, name "web"): the ` +
				`manifests are Deployment web`,
		},
		"a strategic patch of another kind": {
			`{overrides: [{manifests: {kind: Widget}, type: Strategic, patch: {spec: {}}}]}`,
			[]string{`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`},
			"spec.overrides[0].type: Strategic is for Kubernetes' own kinds, and Widget (example.com/v1) is " +
				"none: choose Merge or JSON",
		},
		"an expression that does not compile": {
			`{values: [{name: A, expression: 'managedCluster.'}]}`,
			nil,
			"spec.values[0].expression (A): compilation failed",
		},
		"a selector that does not compile": {
			`{overrides: [{clusterSelector: {celSelector: {celExpressions: ['managedCluster.']}}, manifests: ` +
				`{kind: A}, type: Merge, patch: {}}]}`,
			nil, "spec.overrides[0].clusterSelector: ",
		},
		"a name in lower case": {
			`{values: [{name: region, label: a}]}`,
			nil,
			`spec.values[0].name: "region" has to be upper-case letters`,
		},
		"two sources": {
			`{values: [{name: A, label: a, claim: a}]}`,
			nil,
			"spec.values[0] (A): give one of label, claim",
		},
		"a default of an expression": {
			`{values: [{name: A, expression: '1', default: b}]}`,
			nil,
			"spec.values[0].default (A): an expression gives its own default",
		},
		"a type that is none": {
			`{overrides: [{manifests: {kind: A}, type: merge, patch: {}}]}`,
			nil,
			`spec.overrides[0].type: "merge" is none of`,
		},
		"no kind": {
			`{overrides: [{manifests: {}, type: Merge, patch: {}}]}`,
			nil,
			"spec.overrides[0].manifests.kind: name the kind",
		},
		"no source": {`{values: [{name: A}]}`, nil, "spec.values[0] (A): give one of label, claim and expression"},
		"twice": {
			`{values: [{name: A, label: a}, {name: A, label: b}]}`,
			nil,
			`spec.values[1].name: "A" is a value already`,
		},
		"a name that is taken": {
			`{values: [{name: CLUSTER_NAME, label: a}]}`, nil, `spec.values[0].name: "CLUSTER_NAME" is a value already`,
		},
		"a list that is none": {
			`{overrides: [{manifests: {kind: A}, type: JSON, patch: {spec: 1}}]}`, nil,
			"spec.overrides[0].patch: a patch of the type JSON has to be a list of operations",
		},
		"an object that is none": {
			`{overrides: [{manifests: {kind: A}, type: Merge, patch: [1]}]}`, nil,
			"spec.overrides[0].patch: a patch of the type Merge has to be an object",
		},
		"an operation that is none": {
			`{overrides: [{manifests: {kind: A}, type: JSON, patch: [{op: set, path: /a}]}]}`, nil,
			`spec.overrides[0].patch: a patch of the type JSON has to be a list of operations, such as ` +
				`[{"op":"replace","path":"/spec/replicas","value":2}]: `,
		},
		"a path without /": {
			`{overrides: [{manifests: {kind: A}, type: JSON, patch: [{op: remove, path: spec.a}]}]}`, nil,
			`spec.overrides[0].patch: [0].path: "spec.a" has to begin with /`,
		},
		"a patch that is too large": {
			`{overrides: [{manifests: {kind: A}, type: Merge, patch: {a: "` + strings.Repeat(long, 20) + `"}}]}`, nil,
			"spec.overrides[0].patch has 80008 bytes, and may have 65536",
		},
		// For one cluster:
		"a label that is missing": {
			`{values: [{name: SIZE, label: size}]}`, []string{strings.ReplaceAll(settings, "REGION", "SIZE")},
			"the value SIZE: the cluster has no value: its ManagedCluster has no label size",
		},
		"all that is missing": {
			`{values: [{name: A, label: a}, {name: B, claim: b}]}`,
			[]string{strings.Replace(strings.Replace(settings, "{{REGION}}",
				"{{A}}", 1), "{{REGION}}", "{{B}}", 1)},
			"no label a\nthe value B: the cluster has no value: its agent reports no claim b",
		},
		"an expression that fails": {
			`{values: [{name: A, expression: 'managedCluster.metadata.labels["size"]'}]}`,
			[]string{strings.ReplaceAll(settings, "REGION", "A")},
			`the value A: the expression managedCluster.metadata.labels["size"] fails: no such key: size`,
		},
		"an expression that gives a list": {
			`{values: [{name: A, expression: '[1, 2]'}]}`, []string{strings.ReplaceAll(settings, "REGION", "A")},
			"expected a text, a number or a boolean",
		},
		"a patch that does not fit": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: JSON, patch: [{op: replace, path: /data/none/x, ` +
				`value: 1}]}]}`,
			[]string{settingsWithout}, "spec.overrides[0].patch cannot be applied to the ConfigMap settings: ",
		},
		"a patch that leaves no object": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: Merge, patch: {metadata: null}}]}`,
			[]string{settingsWithout},
			"what the cluster would get: spec.workload.manifests[0] (ConfigMap): metadata.name is missing",
		},
		"two objects of one name": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: Merge, patch: {metadata: {name: same}}}]}`,
			[]string{settingsWithout, strings.Replace(settingsWithout, "settings", "others", 1)},
			"what the cluster would get: duplicate manifest for resource shop/same",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := render(t, x.override, west(), x.template...); err == nil ||
				!strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %s", err, x.want)
			}
		})
	}
}

// render is the error of all that leads to what a cluster gets.
func render(t testing.TB, spec string, mc *clusterv1.ManagedCluster, manifests ...string) error {
	o, err := override.Read(specOf(t, spec))
	if err != nil {
		return err
	}
	bound, err := o.Bind(template(manifests...), limit)
	if err != nil {
		return err
	}
	_, err = bound.For(context.Background(), mc)
	return err
}

// What would make a work of any size, or take any time, ends in an error.
func TestBombs(t *testing.T) {
	mc := west()
	mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "long", Value: strings.Repeat("y", 1000)}}
	config := func(text string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"x":"` + text + `"}}`
	}
	var copies, claims strings.Builder
	for i := range 400 {
		fmt.Fprintf(&copies, "{op: copy, from: /data, path: /data/x%d},", i)
		fmt.Fprintf(&claims, " + %q", strings.Repeat("z", 10))
	}
	for name, x := range map[string]struct{ override, manifest, want string }{
		"a placeholder, many times": {
			`{values: [{name: A, claim: long}]}`, config(strings.Repeat("{{A}}", 5000)),
			"the values make the work larger than the 51200 bytes",
		},
		"a copy of copies": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: JSON, patch: [` + copies.String() + `]}]}`,
			config("a"),
			"spec.overrides[0].patch",
		},
		"a long result": {
			`{values: [{name: A, expression: 'managedCluster.status.clusterClaims.map(c, c.value + c.value + ` +
				`c.value + c.value + c.value).join(",")'}]}`,
			config("{{A}}"), "the value A has 5000 bytes, and may have 4096",
		},
		"a loop of loops": {
			`{values: [{name: A, expression: '[1,2,3,4,5,6,7,8,9].map(a, [1,2,3,4,5,6,7,8,9].map(b, [1,2,3,4,5,6,` +
				`7,8,9].map(c, ` +
				`[1,2,3,4,5,6,7,8,9].map(d, managedCluster.metadata.name)))).size()'}]}`,
			config("{{A}}"),
			"spec.values[0].expression (A)",
		},
		"a large patch of a small object": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: Merge, patch: {data: ` +
				`{y: "` + strings.Repeat("y", 60<<10) + `"}}}]}`,
			config("a"), "larger than the 51200 bytes that a work may have",
		},
		"a placeholder that a patch puts together of none": {
			`{overrides: [{manifests: {kind: ConfigMap}, type: Merge, patch: {data: {y: "\x7B\u007BB}}"}}}]}`,
			config("a"),
			"{{B}} is none of",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := render(t, x.override, mc, x.manifest); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %s", err, x.want)
			}
		})
	}
}

// Many patches of many manifests are refused when they are written, and end where the patches
// themselves make the manifests larger.
func TestManyPatchesOfManyManifests(t *testing.T) {
	patches := func(first string, n int) string {
		all := []string{first}
		for range n {
			all = append(all, `{manifests: {kind: ConfigMap}, type: Merge, patch: {data: {a: b}}}`)
		}
		return "{overrides: [" + strings.Join(all, ", ") + "]}"
	}
	manifests := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"}}`, i))
		}
		return all
	}
	const small = `{manifests: {kind: ConfigMap}, type: Merge, patch: {data: {x: y}}}`
	large := `{manifests: {kind: ConfigMap}, type: Merge, patch: {data: {x: "` + strings.Repeat("y", 500) + `"}}}`
	const want = "the patches go through more than 8388608 bytes of manifests for one cluster"
	for name, x := range map[string]struct {
		override  string
		manifests int
		want      string
	}{
		"few":                   {patches(small, 10), 10, ""},
		"many":                  {patches(small, 60), 300, want},
		"many that become long": {patches(large, 60), 140, want},
	} {
		t.Run(name, func(t *testing.T) {
			err := render(t, x.override, west(), manifests(x.manifests)...)
			if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %q", err, x.want)
			}
		})
	}
}

// A cluster's reports about its load, and what its agent can do, change nothing that it gets.
func TestChanged(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*clusterv1.ManagedCluster)
		want   bool
	}{
		"nothing": {func(*clusterv1.ManagedCluster) {}, false},
		"capacity": {
			func(c *clusterv1.ManagedCluster) { c.Status.Capacity = clusterv1.ResourceList{"cpu": {}} },
			false,
		},
		"a condition": {
			func(c *clusterv1.ManagedCluster) { c.Status.Conditions = []metav1.Condition{{Type: "A"}} },
			false,
		},
		"an asked preview": {
			func(c *clusterv1.ManagedCluster) { c.Annotations[muster.PreviewsAskedAnnotation] = "1" },
			false,
		},
		"add-ons": {
			func(c *clusterv1.ManagedCluster) { c.Annotations[muster.AddOnsAnnotation] = "true" },
			false,
		},
		"an agent's ability": {
			func(c *clusterv1.ManagedCluster) { c.Annotations[muster.WorkPreviewsAnnotation] = "true" },
			false,
		},
		"a label":       {func(c *clusterv1.ManagedCluster) { c.Labels["region"] = "eu-east" }, true},
		"an annotation": {func(c *clusterv1.ManagedCluster) { c.Annotations["owner"] = "bank" }, true},
		"a claim":       {func(c *clusterv1.ManagedCluster) { c.Status.ClusterClaims[0].Value = "eks" }, true},
		"the version":   {func(c *clusterv1.ManagedCluster) { c.Status.Version.Kubernetes = "v1.37.0" }, true},
		"an address": {
			func(c *clusterv1.ManagedCluster) { c.Spec.ManagedClusterClientConfigs[0].URL = "https://x" },
			true,
		},
		"an authority of one": {
			func(c *clusterv1.ManagedCluster) { c.Spec.ManagedClusterClientConfigs[0].CABundle = []byte("x") },
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			is := west()
			x.change(is)
			if got := override.Changed(west(), is); got != x.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	digest := override.Digest(v1alpha1.WorkOverrideSpec{})
	for value, x := range map[string]struct {
		name, digest string
		inline       bool
		err          string
	}{
		"web":             {name: "web"},
		"web@" + digest:   {name: "web", digest: digest},
		"{}":              {inline: true},
		"":                {err: `the annotation muster-fleet.io/override: "" has to be the name`},
		"Web":             {err: `"Web" has to be the name`},
		"web@":            {err: "the digest behind @"},
		"web@sha256:abcd": {err: "the digest behind @"},
		`{"valus":[]}`:    {err: `has to be the spec of a WorkOverride as JSON: json: unknown field "valus"`},
		`{"values":`:      {err: "has to be the spec of a WorkOverride as JSON"},
	} {
		got, err := override.ReferenceOf(map[string]string{muster.OverrideAnnotation: value})
		if got.Name != x.name || got.Digest != x.digest || (got.Inline != nil) != x.inline ||
			got.None() != (x.err != "") ||
			(err == nil) != (x.err == "") ||
			err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%q: got %v, %v", value, got, err)
		}
	}
	if got, err := override.ReferenceOf(nil); !got.None() || err != nil {
		t.Errorf("without the annotation: %v, %v", got, err)
	}
}

// A digest is that of what an override says, whatever the order of keys and the spaces.
func TestDigests(t *testing.T) {
	spec := func(patch string) v1alpha1.WorkOverrideSpec {
		return v1alpha1.WorkOverrideSpec{Overrides: []v1alpha1.ManifestOverride{{
			ClusterSelector: clusterv1beta1.ClusterSelector{},
			Manifests:       v1alpha1.ManifestSelector{Kind: "A", Name: ptr.To("a")},
			Type:            v1alpha1.PatchMerge, Patch: apiextensionsv1.JSON{Raw: []byte(patch)},
		}}}
	}
	one, same, other := override.Digest(
		spec(`{"a":1,"b":2}`),
	), override.Digest(
		spec(`{"b": 2, "a": 1}`),
	), override.Digest(
		spec(`{"a":1,"b":3}`),
	)
	if one != same || one == other {
		t.Errorf("%s, %s, %s", one, same, other)
	}
}

// An approval of what a set hands out is none of what another override makes of it.
func TestContentIsThatOfTheOverrideToo(t *testing.T) {
	set := &workv1alpha1.ManifestWorkReplicaSet{}
	set.Spec.ManifestWorkTemplate = template(settings)
	seen := map[string]string{}
	for _, named := range []string{"", "a@1", "a@2", "b@1"} {
		if named != "" {
			set.Annotations = map[string]string{muster.OverrideAnnotation: named}
		}
		if before, twice := seen[override.Content(set)]; twice {
			t.Errorf("%q and %q have one content", before, named)
		}
		seen[override.Content(set)] = named
	}
}
