package preview

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/muster-fleet/terraform-provider-muster/internal/testkit"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/muster/v1alpha1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	testkit.Must(t, err)
	o := &unstructured.Unstructured{}
	testkit.Must(t, o.UnmarshalJSON(data))
	return o
}

func TestChanges(t *testing.T) {
	const head = "apiVersion: v1\nmetadata: {name: x, namespace: n}\nkind: "
	for name, x := range map[string]struct{ before, after, want string }{
		"nothing": {head + "ConfigMap\ndata: {a: b}", head + "ConfigMap\ndata: {a: b}", ""},
		"what the server keeps": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, resourceVersion: '1', uid: u, generation: 1, " +
				"managedFields: [{manager: m}]}\nstatus: {a: b}",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, resourceVersion: '2', uid: v, generation: " +
				"2}\nstatus: {a: c}", "",
		},
		"works that own it": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, ownerReferences: [{apiVersion: " +
				"work.open-cluster-management.io/v1, kind: AppliedManifestWork, name: w, uid: u}]}",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}", "",
		},
		"others that own it": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, ownerReferences: [{apiVersion: v1, kind: Node," +
				" name: w, uid: u}]}",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}",
			`metadata.ownerReferences [{"apiVersion":"v1","kind":"Node","name":"w","uid":"u"}] ->`,
		},
		"fields": {
			head + "Service\nspec: {a: 1, b: {c: x}, gone: true}", head + "Service\nspec: {a: 2, b: {c: x}, " +
				"new: {d: [1]}}",
			"spec.a 1 -> 2\nspec.gone true ->\nspec.new -> {\"d\":[1]}",
		},
		"another kind of value": {head + "Service\nspec: {a: [1]}", head + "Service\nspec: {a: {b: 1}}",
			`spec.a [1] -> {"b":1}`},
		"items by name, in another order": {
			head + "Pod\nspec: {containers: [{name: a, image: x}, {name: b, image: x}, {name: c}]}",
			head + "Pod\nspec: {containers: [{name: b, image: z}, {name: a, image: x}, {name: d}]}",
			"spec.containers[b].image \"x\" -> \"z\"\nspec.containers[d] -> " +
				"{\"name\":\"d\"}\nspec.containers[c] {\"name\":\"c\"} ->",
		},
		"items by place": {
			head + "Pod\nspec: {args: [a, b, c]}", head + "Pod\nspec: {args: [a, x]}", "spec.args[1] \"b\" -> " +
				"\"x\"\nspec.args[2] \"c\" ->",
		},
		"two items of one name": {
			head + "Pod\nspec: {l: [{name: a, v: 1}, {name: a, v: 2}]}", head + "Pod\nspec: {l: [{name: a, v: " +
				"1}, {name: a, v: 3}]}", "spec.l[1].v 2 -> 3",
		},
		"keys with dots": {
			head + "ConfigMap\ndata: {a.yaml: x}", head + "ConfigMap\ndata: {a.yaml: z, 'q\"': z}",
			"data[\"a.yaml\"] \"x\" -> \"z\"\ndata[\"q\\\"\"] -> \"z\"",
		},
		"a secret": {
			head + "Secret\ndata: {a: eA==}\ntype: Opaque", head + "Secret\ndata: {a: eQ==, b: eQ==}\ntype: Other",
			"data.a \"(masked)\" -> \"(masked)\"\ndata.b -> \"(masked)\"\ntype \"Opaque\" -> \"Other\"",
		},
		"the data of a new secret field": {head + "Secret", head + "Secret\nstringData: {a: hush}",
			"stringData -> \"(masked)\""},
		"a secret of another group is none": {
			strings.Replace(head, "v1", "example.org/v1", 1) + "Secret\ndata: {a: x}", strings.Replace(head, "v1",
				"example.org/v1", 1) + "Secret\ndata: {a: z}",
			"data.a \"x\" -> \"z\"",
		},
		"passwords in the environment": {
			head + "Pod\nspec: {env: [{name: DB_PASSWORD, value: hush}, {name: URL, value: a}]}",
			head + "Pod\nspec: {env: [{name: DB_PASSWORD, value: hushed}, {name: URL, value: b}, {name: API_KEY," +
				" value: hush}]}",
			"spec.env[DB_PASSWORD].value \"(masked)\" -> \"(masked)\"\nspec.env[URL].value \"a\" -> " +
				"\"b\"\nspec.env[API_KEY] -> {\"name\":\"API_KEY\",\"value\":\"(masked)\"}",
		},
		"what is called a password": {
			head + "ConfigMap\ndata: {password: hush, secretName: a, apiToken: hush}",
			head + "ConfigMap\ndata: {password: hushed, secretName: b, apiToken: hushed}",
			"data.apiToken \"(masked)\" -> \"(masked)\"\ndata.password \"(masked)\" -> " +
				"\"(masked)\"\ndata.secretName \"a\" -> \"b\"",
		},
		"a new part with a password in it": {
			head + "Widget\nspec: {}", head + "Widget\nspec: {db: {user: u, password: hush, list: [{token: hush}]}}",
			`spec.db -> {"list":[{"token":"(masked)"}],"password":"(masked)","user":"u"}`,
		},
		"copies of manifests": {
			head + "ConfigMap", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: n, " +
				"annotations: {kubectl.kubernetes.io/last-applied-configuration: hush}}",
			`metadata.annotations -> {"kubectl.kubernetes.io/last-applied-configuration":"(masked)"}`,
		},
		"a long value": {
			head + "ConfigMap\ndata: {a: x}", head + "ConfigMap\ndata: {a: " + strings.Repeat("y", 1000) + "}",
			"data.a \"x\" -> \"" + strings.Repeat("y", maxValue-4) + "...",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, more := changes(read(t, x.before), read(t, x.after))
			var lines []string
			for _, c := range found {
				lines = append(
					lines,
					strings.Join(strings.Fields(fmt.Sprintf("%s %s -> %s", c.Path, c.From, c.To)), " "),
				)
			}
			if got := strings.Join(lines, "\n"); got != x.want || more != 0 {
				t.Errorf("got\n%s\nand %d more, want\n%s", got, more, x.want)
			}
			if strings.Contains(strings.Join(lines, ""), "hush") {
				t.Error("it says what is secret")
			}
		})
	}
}

func TestManyChanges(t *testing.T) {
	data := map[string]any{}
	for i := range 150 {
		data[fmt.Sprintf("k%03d", i)] = "v"
	}
	empty := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{}}
	full := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}
	found, more := changes(&unstructured.Unstructured{Object: empty}, &unstructured.Unstructured{Object: full})
	if len(found) != maxChanges || more != 50 {
		t.Errorf("%d changes and %d more, want %d and 50", len(found), more, maxChanges)
	}
}

// What does not fit into an answer is counted: first changes, then what stays as it is.
func TestAnAnswerThatIsTooLarge(t *testing.T) {
	object := func(i int, outcome v1alpha1.PreviewOutcome, changes int) v1alpha1.ObjectPreview {
		o := v1alpha1.ObjectPreview{
			Outcome:      outcome,
			ResourceMeta: workv1.ManifestResourceMeta{Ordinal: int32(i), Name: strings.Repeat("n", 60)},
		}
		for range changes {
			o.Changes = append(
				o.Changes,
				v1alpha1.FieldChange{Path: "p", From: strings.Repeat("f", 250), To: strings.Repeat("t", 250)},
			)
		}
		return o
	}
	var objects []v1alpha1.ObjectPreview
	for i := range 100 {
		objects = append(objects, object(i, v1alpha1.PreviewChange, 50))
	}
	kept, more := fit(objects)
	if len(kept) != 100 || more != 0 || len(kept[0].Changes) != 3 || kept[0].MoreChanges != 47 {
		t.Errorf(
			"%d objects, %d more, the first with %d changes and %d more",
			len(kept),
			more,
			len(kept[0].Changes),
			kept[0].MoreChanges,
		)
	}
	objects = nil
	for i := range 3000 {
		outcome := v1alpha1.PreviewUnchanged
		if i%3 == 0 {
			outcome = v1alpha1.PreviewDelete
		}
		objects = append(objects, object(i, outcome, 0))
	}
	kept, more = fit(objects)
	if len(kept) != 1000 || more != 2000 || kept[999].ResourceMeta.Ordinal != 2997 {
		t.Errorf("%d objects and %d more, want the 1,000 that are deleted", len(kept), more)
	}
}
