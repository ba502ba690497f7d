package template_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/addon/template"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
)

// containersOf are the containers of a Deployment or DaemonSet.
func containersOf(t testing.TB, o *unstructured.Unstructured) (out []map[string]any) {
	t.Helper()
	list, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		out = append(out, c.(map[string]any))
	}
	return out
}

// Numbers, texts and empty things come out as they are written, also those that would
// lose something as a Go float.
func TestFieldsThatNothingNamesStayAsTheyAre(t *testing.T) {
	for _, value := range []string{
		`0`, `-0`, `1`, `-7`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `18446744073709551615`,
		`123456789012345678901234567890`, `0.1`, `1.5`, `3.14159265358979323846264338327950288`, `1e3`, `1E-7`, `1.0`, `1e400`, `1e-400`, `2.5e-3`, `1e999999999`,
		`true`, `false`, `null`, `""`, `{}`, `[]`, `[null]`, `{"a":{}}`, `"\u0000<>& \u2028 \ud83d\ude00"`, `"} }"`, `"{"`, `"$(A)"`,
	} {
		raw := `{"apiVersion":"example.org/v1","kind":"Any","metadata":{"name":"a"},"value":` + value + `,"list":[` + value + `],"spec":{"{{CLUSTER_NAME}}":` + value + `}}`
		got, err := template.Render(input(templateOf(raw), nil))
		if err != nil {
			t.Fatal(err)
		}
		want := value
		if value == `-0` {
			want = `0`
		}
		o := got.Objects[0].DeepCopy().Object // as everybody does with objects
		for field, x := range map[string]any{"value": o["value"], "list": o["list"].([]any)[0], "spec": o["spec"].(map[string]any)["paris"]} {
			out, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, string(out), want) {
				t.Errorf("%s became %s in %s", value, out, field)
			}
		}
	}
}

// sameJSON compares JSON, numbers by their digits.
func sameJSON(t testing.TB, a, b string) bool {
	t.Helper()
	parse := func(s string) (out any) {
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber()
		if err := d.Decode(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	x, y := parse(a), parse(b)
	m, isNumber := x.(json.Number)
	n, both := y.(json.Number)
	if isNumber != both {
		return false
	}
	if isNumber && m != n { // written in another way, they have to be the same float and short
		f, err := m.Float64()
		g, err2 := n.Float64()
		return err == nil && err2 == nil && f == g && f != 0 && len(n) < 17 && len(m) < 17
	}
	return reflect.DeepEqual(x, y)
}

// random makes templates and configurations.
type random struct{ *rand.Rand }

func (r random) one(texts ...string) string { return texts[r.IntN(len(texts))] }

func (r random) text() string {
	return r.one("", "a", "own", "{{CLUSTER_NAME}}", "x-{{A}}-{{NONE}}", "{{ A }}", "}}", "quay.io/team/agent:v1", "line\nline", `"quoted"`)
}

// value is any JSON.
func (r random) value(depth int) any {
	switch n := r.IntN(8); {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(1000)
	case n == 2:
		return r.Float64()
	case n == 3 && depth > 0:
		return []any{r.value(depth - 1), r.value(depth - 1)}
	case n == 4 && depth > 0:
		return map[string]any{r.one("a", "b", "{{A}}"): r.value(depth - 1), "c": r.value(depth - 1)}
	case n == 5:
		return r.IntN(2) == 0
	}
	return r.text()
}

func (r random) manifest(i int) string {
	kind := r.one("apps/v1 Deployment", "apps/v1 DaemonSet", "v1 ConfigMap", "rbac.authorization.k8s.io/v1 RoleBinding", "v1 Namespace", "example.org/v1 Any")
	apiVersion, kind, _ := strings.Cut(kind, " ")
	o := map[string]any{
		"apiVersion": apiVersion, "kind": kind, "extra": r.value(3),
		"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", r.one("a", "b", "{{CLUSTER_NAME}}"), i), "annotations": map[string]any{"note": r.text()}},
	}
	if kind != "Namespace" {
		o["metadata"].(map[string]any)["namespace"] = r.one("own", "other", "{{INSTALL_NAMESPACE}}")
	}
	switch kind {
	case "Deployment", "DaemonSet":
		pod := map[string]any{"serviceAccountName": r.text(), "initContainers": []any{map[string]any{"name": "i", "image": "quay.io/team/i"}}}
		containers := []any{}
		for c := range r.IntN(3) {
			container := map[string]any{"name": "c" + strconv.Itoa(c), "image": r.one("quay.io/team/agent:v1", "agent@sha256:00", "localhost:5000/a"), "args": []any{r.text(), r.value(1)}}
			if r.IntN(2) == 0 {
				container["env"] = []any{map[string]any{"name": "OWN", "value": r.text()}}
				container["volumeMounts"] = []any{map[string]any{"name": "own", "mountPath": "/own"}}
			}
			containers = append(containers, container)
		}
		pod["containers"] = containers
		o["spec"] = map[string]any{"replicas": r.IntN(3), "template": map[string]any{"spec": pod}}
	case "RoleBinding":
		o["subjects"] = []any{map[string]any{"kind": r.one("ServiceAccount", "User"), "name": "s", "namespace": "own"}}
	}
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func (r random) template() *v1alpha1.AddOnTemplate {
	var all []string
	for i := range 1 + r.IntN(6) {
		all = append(all, r.manifest(i))
	}
	out := templateOf(all...)
	for range r.IntN(3) {
		registration := v1alpha1.RegistrationSpec{Type: v1alpha1.RegistrationTypeKubeClient}
		if r.IntN(2) == 0 {
			registration.Type = v1alpha1.RegistrationTypeCustomSigner
			registration.CustomSigner = &v1alpha1.CustomSignerRegistrationConfig{SignerName: r.one("example.org/a", "example.org/b.c")}
		}
		out.Spec.Registration = append(out.Spec.Registration, registration)
	}
	return out
}

// config is a configuration with some of its parts.
func (r random) config(t testing.TB) *v1alpha1.AddOnDeploymentConfig {
	var parts []string
	for _, part := range []string{
		`"agentInstallNamespace":"agents"`, `"customizedVariables":[{"name":"A","value":"va\"lue"}]`, `"nodePlacement":{"nodeSelector":{"a":"b"},"tolerations":[{"key":"k"}]}`,
		`"registries":[{"source":"quay.io","mirror":"m.example.org"},{"source":"x","mirror":"y"}]`, `"proxyConfig":{"httpProxy":"http://p","caBundle":"Q0E="}`,
		`"resourceRequirements":[{"containerID":"*:*:c[01]","resources":{"limits":{"cpu":"2"}}}]`,
	} {
		if r.IntN(2) == 0 {
			parts = append(parts, part)
		}
	}
	return settings(t, "{"+strings.Join(parts, ",")+"}")
}

func seed(t testing.TB) uint64 {
	if s := os.Getenv("MUSTER_TEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return rand.Uint64()
}

// Whatever a configuration says, the same objects come out in the same order, twice the
// same, with changes in the fields that the configuration is for.
func TestConfigurationsChangeWhatTheyName(t *testing.T) {
	s := seed(t)
	r := random{rand.New(rand.NewPCG(s, 14))}
	for range 500 {
		source, config := r.template(), r.config(t)
		before, configBefore := source.DeepCopy(), config.DeepCopy()
		parsed, err := template.Parse(source)
		if err != nil {
			t.Fatalf("MUSTER_TEST_SEED=%d: %v", s, err)
		}
		plainConfig := settings(t, `{}`)
		plainConfig.Spec.CustomizedVariables = config.Spec.CustomizedVariables
		plain, err := parsed.Render(input(nil, plainConfig))
		if err != nil {
			t.Fatalf("MUSTER_TEST_SEED=%d: %v", s, err)
		}
		got, err := parsed.Render(input(nil, config))
		again, err2 := parsed.Render(input(nil, config))
		if err != nil || err2 != nil {
			t.Fatalf("MUSTER_TEST_SEED=%d: %v, %v", s, err, err2)
		}
		if !apiequality.Semantic.DeepEqual(got, again) {
			t.Fatalf("MUSTER_TEST_SEED=%d: rendered twice:\n%s\nand\n%s", s, documents(t, got), documents(t, again))
		}
		checkNothingIsShared(t, got)
		scribble(again)
		if third, _ := parsed.Render(input(nil, config)); !apiequality.Semantic.DeepEqual(got, third) {
			t.Fatalf("MUSTER_TEST_SEED=%d: results share something", s)
		}
		if !apiequality.Semantic.DeepEqual(source, before) || !apiequality.Semantic.DeepEqual(config, configBefore) {
			t.Fatalf("MUSTER_TEST_SEED=%d: the input became %+v, %+v", s, source, config)
		}
		if a, b := neutral(plain, config), neutral(got, config); !apiequality.Semantic.DeepEqual(a, b) {
			t.Fatalf("MUSTER_TEST_SEED=%d: with %+v\n%s\nbecame\n%s", s, config.Spec, documents(t, plain), documents(t, got))
		}
	}
}

// scribble changes all of a result that can be changed.
func scribble(r template.Result) {
	var spoil func(any)
	spoil = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			for name := range x {
				spoil(x[name])
				x[name] = "spoilt"
			}
		case []any:
			for i := range x {
				spoil(x[i])
				x[i] = "spoilt"
			}
		}
	}
	for _, o := range r.Objects {
		spoil(o.Object)
	}
	for i := range r.ManifestConfigs {
		r.ManifestConfigs[i].ResourceIdentifier.Name = "spoilt"
	}
}

// checkNothingIsShared checks that no two fields of a result are one in memory: who
// changes one would change the other.
func checkNothingIsShared(t *testing.T, r template.Result) {
	t.Helper()
	seen := map[uintptr]bool{}
	var walk func(any)
	walk = func(x any) {
		switch x := x.(type) {
		case map[string]any:
			if p := reflect.ValueOf(x).Pointer(); seen[p] {
				t.Fatalf("%v is there twice", x)
			} else {
				seen[p] = true
			}
			for _, value := range x {
				walk(value)
			}
		case []any:
			for _, item := range x {
				walk(item)
			}
		}
	}
	for _, o := range r.Objects {
		walk(o.Object)
	}
}

// neutral are the objects of a result without all that the parts of a configuration are
// for. What no part says stays. Two Namespaces that have become one are one here, too.
func neutral(r template.Result, config *v1alpha1.AddOnDeploymentConfig) (out []*unstructured.Unstructured) {
	spec := config.Spec
	moved := *spec.AgentInstallNamespace != ""
	for _, o := range r.Objects {
		o = o.DeepCopy()
		if o.GetName() == "search-proxy-ca" {
			continue
		}
		if moved {
			if o.GetNamespace() != "" {
				o.SetNamespace("-")
			}
			if o.GetKind() == "Namespace" {
				continue
			}
			if subjects, ok := o.Object["subjects"].([]any); ok && subjects[0].(map[string]any)["kind"] == "ServiceAccount" {
				delete(subjects[0].(map[string]any), "namespace")
			}
		}
		if kind := o.GetKind(); kind == "Deployment" || kind == "DaemonSet" {
			neutralPods(o, spec, moved)
		}
		out = append(out, o)
	}
	return out
}

func neutralPods(o *unstructured.Unstructured, config v1alpha1.AddOnDeploymentConfigSpec, moved bool) {
	pod := o.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	if config.NodePlacement != nil {
		delete(pod, "nodeSelector")
		delete(pod, "tolerations")
	}
	if config.ProxyConfig.HTTPProxy != "" {
		removeNamed(pod, "volumes", "proxy-ca-bundle")
	}
	for _, c := range pod["containers"].([]any) {
		container := c.(map[string]any)
		if config.Registries != nil {
			delete(container, "image")
		}
		if config.ResourceRequirements != nil && container["name"] != "c2" {
			delete(container, "resources")
		}
		if moved {
			removeNamed(container, "env", "INSTALL_NAMESPACE")
		}
		if config.ProxyConfig.HTTPProxy != "" {
			removeNamed(container, "env", "HTTP_PROXY", "http_proxy", "CA_BUNDLE_FILE_PATH")
			removeNamed(container, "volumeMounts", "proxy-ca-bundle")
		}
	}
}

func removeNamed(fields map[string]any, field string, names ...string) {
	list, _ := fields[field].([]any)
	list = slices.DeleteFunc(slices.Clone(list), func(x any) bool { return slices.Contains(names, x.(map[string]any)["name"].(string)) })
	if fields[field] = list; len(list) == 0 {
		delete(fields, field)
	}
}

// FuzzRender renders any manifest with any configuration: never a panic, never two
// results of one input, never an object without kind and name.
func FuzzRender(f *testing.F) {
	r := random{rand.New(rand.NewPCG(1, 14))}
	for i := range 20 {
		config, err := json.Marshal(r.config(f).Spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(r.manifest(i), string(config), `{"registries":[{"source":"quay.io","mirror":"m"}]}`, "example.org/a")
	}
	f.Add(`{"a":"{{"}`, `{"resourceRequirements":[{"containerID":"a:(:c"}]}`, `{`, "")
	f.Add(podsJSON(`{"containers":[{"env":[null],"volumeMounts":{}}],"volumes":[[]]}`), `{"proxyConfig":{"noProxy":"a","caBundle":"//79"}}`, `[]`, "A/B")
	f.Add(`{"apiVersion":"v1","kind":"List","items":[{"{{A}}":{}},null,[]]}`, `null`, ``, "/")
	f.Fuzz(func(t *testing.T, manifest, spec, annotation, signer string) {
		source := templateOf(manifest, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n"},"spec":{"template":{"spec":{"containers":[{"name":"c"}]}}}}`)
		source.Spec.Registration = []v1alpha1.RegistrationSpec{{Type: v1alpha1.RegistrationTypeKubeClient},
			{Type: v1alpha1.RegistrationTypeCustomSigner, CustomSigner: &v1alpha1.CustomSignerRegistrationConfig{SignerName: signer}}}
		config := &v1alpha1.AddOnDeploymentConfig{}
		if json.Unmarshal([]byte(spec), &config.Spec) != nil {
			config = nil
		}
		in := input(source, config)
		in.Cluster.Annotations = map[string]string{"open-cluster-management.io/image-registries": annotation}
		got, err := template.Render(in)
		again, err2 := template.Render(in)
		if fmt.Sprint(err) != fmt.Sprint(err2) || !apiequality.Semantic.DeepEqual(got, again) {
			t.Fatalf("got %v, %v\nand\n%v, %v", got, err, again, err2)
		}
		template.InstallNamespace(source, config, "paris")
		if err != nil {
			return
		}
		for _, o := range got.Objects {
			if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
				t.Errorf("got the object %v", o)
			}
			if _, err := runtime.Encode(unstructured.UnstructuredJSONScheme, o.DeepCopy()); err != nil {
				t.Error(err)
			}
		}
	})
}
