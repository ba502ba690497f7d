package function

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
)

// value is JSON as a value of HCL.
func value(t *testing.T, text string) types.Dynamic {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		t.Fatal(err)
	}
	converted, err := workload.HCLValue(decoded)
	if err != nil {
		t.Fatal(err)
	}
	return types.DynamicValue(converted)
}

// compare checks a result, or that the error says what is wanted.
func compare(t *testing.T, got any, err error, want any, refused string) {
	t.Helper()
	if refused != "" {
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("got %v and %v, want the error to say %q", got, err, refused)
		}
		return
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v and %v\nwant %v", got, err, want)
	}
}

func TestManifestsFromYAML(t *testing.T) {
	const namespace, configMap = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {answer: \"42\"}\n"
	for name, test := range map[string]struct {
		argument attr.Value
		want     []string // kind/name
		refused  string
	}{
		"one":                  {argument: types.StringValue(namespace), want: []string{"Namespace/shop"}},
		"two documents":        {argument: types.StringValue("---\n" + namespace + "---\n" + configMap), want: []string{"Namespace/shop", "ConfigMap/settings"}},
		"empty ones":           {argument: types.StringValue("# a comment\n---\n---\n" + namespace + "---\n# the end\n---\n"), want: []string{"Namespace/shop"}},
		"windows":              {argument: types.StringValue(strings.ReplaceAll(namespace+"---\n"+configMap, "\n", "\r\n")), want: []string{"Namespace/shop", "ConfigMap/settings"}},
		"nothing":              {argument: types.StringValue("# nothing\n"), want: nil},
		"JSON":                 {argument: types.StringValue(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"json"}}`), want: []string{"Namespace/json"}},
		"a list of Kubernetes": {argument: types.StringValue("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- {apiVersion: v1, kind: Namespace, metadata: {name: b}}\n"), want: []string{"Namespace/a", "Namespace/b"}},
		"files by their names": {argument: types.MapValueMust(types.StringType, map[string]attr.Value{"20.yaml": types.StringValue(configMap), "10.yaml": types.StringValue(namespace)}), want: []string{"Namespace/shop", "ConfigMap/settings"}},
		"texts in their order": {argument: types.TupleValueMust([]attr.Type{types.StringType, types.StringType}, []attr.Value{types.StringValue(configMap), types.StringValue(namespace)}), want: []string{"ConfigMap/settings", "Namespace/shop"}},
		"no kind":              {argument: types.StringValue(namespace + "---\n\n# one more\napiVersion: v1\nmetadata: {name: x}\n"), refused: "document 2, line 7: it has no kind"},
		"no name":              {argument: types.StringValue("apiVersion: v1\nkind: Secret\n"), refused: "document 1, line 1: Secret has no metadata.name"},
		"in a file":            {argument: types.MapValueMust(types.StringType, map[string]attr.Value{"a/b.yaml": types.StringValue("kind: X\n")}), refused: "a/b.yaml: document 1, line 1: it has no apiVersion"},
		"in a list":            {argument: types.ListValueMust(types.StringType, []attr.Value{types.StringValue(namespace), types.StringValue("[]")}), refused: "element 1: document 1, line 1: it is a list"},
		"broken":               {argument: types.StringValue(namespace + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x\ndata: {}\n"), refused: "line 7"},
		"twice the same key":   {argument: types.StringValue(namespace + "---\n" + namespace + "kind: Namespace\n"), refused: `line 8: key "kind" already set`},
		"a bad item":           {argument: types.StringValue("apiVersion: v1\nkind: List\nitems: [{kind: X}]\n"), refused: "items[0]: it has no apiVersion"},
		"a number":             {argument: types.BoolValue(true), refused: "has to be a text"},
		"a file of a number":   {argument: types.ObjectValueMust(map[string]attr.Type{"a": types.BoolType}, map[string]attr.Value{"a": types.BoolValue(true)}), refused: "a: it has to be a text"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := objectsOf(types.DynamicValue(test.argument))
			var got []string
			for _, object := range objects {
				fields, _ := object.(map[string]any)
				metadata, _ := fields["metadata"].(map[string]any)
				got = append(got, fields["kind"].(string)+"/"+metadata["name"].(string))
			}
			compare(t, got, err, test.want, test.refused)
		})
	}
}

func TestClusterName(t *testing.T) {
	long := strings.Repeat("a", 60) + ".example.com"
	names := map[string]string{}
	for text, test := range map[string]struct{ prefix, refused string }{
		"paris-1":  {prefix: "paris-1"},
		"Paris_1":  {prefix: "paris-1-"},
		"paris 1":  {prefix: "paris-1-"},
		"paris.1":  {prefix: "paris-1-"},
		"-paris-":  {prefix: "paris-"},
		"Zürich":   {prefix: "z-rich-"},
		long:       {prefix: "aaaa"},
		long + "m": {prefix: "aaaa"},
		"arn:aws:eks:eu-central-1:123456789012:cluster/shop": {prefix: "arn-aws-eks-eu-central-1-123456789012-cluster-shop-"},
		"":                 {refused: "no letter from a to z"},
		"東京":               {refused: "no letter from a to z"},
		"---":              {refused: "no letter from a to z"},
		"default":          {refused: "everybody's"},
		"managed-clusters": {refused: "that of all agents"},
	} {
		t.Run(text, func(t *testing.T) {
			name, err := nameOf(text)
			if test.refused != "" {
				compare(t, name, err, nil, test.refused)
				return
			}
			again, _ := nameOf(text)
			if err != nil || again != name || !strings.HasPrefix(name, test.prefix) || len(validation.IsDNS1123Label(name)) > 0 {
				t.Errorf("got %q and %v, then %q", name, err, again)
			}
			if idempotent, err := nameOf(name); idempotent != name || err != nil {
				t.Errorf("the name of %q is %q", name, idempotent)
			}
			if other, twice := names[name]; twice {
				t.Errorf("%q and %q are both %q", text, other, name)
			}
			names[name] = text
		})
	}
}

func TestLabelSelector(t *testing.T) {
	for name, test := range map[string]struct{ argument, want, refused string }{
		"everything": {argument: `{}`, want: ""},
		"labels":     {argument: `{"match_labels":{"b":"2","a":"1"}}`, want: "a=1,b=2"},
		"all operators": {
			argument: `{"match_labels":{"env":"prod"},"match_expressions":[{"key":"region","operator":"In","values":["us","eu"]},{"key":"tier","operator":"NotIn","values":["x"]},{"key":"gpu","operator":"Exists","values":null},{"key":"old","operator":"DoesNotExist"}]}`,
			want:     "env=prod,gpu,!old,region in (eu,us),tier notin (x)",
		},
		"null is left out": {argument: `{"match_labels":null,"match_expressions":null}`, want: ""},
		"operator":         {argument: `{"match_expressions":[{"key":"a","operator":"Exists"},{"key":"a","operator":"Like"}]}`, refused: `match_expressions[1]: "Like" is not a valid label selector operator`},
		"missing values":   {argument: `{"match_expressions":[{"key":"a","operator":"In"}]}`, refused: "match_expressions[0]: "},
		"label":            {argument: `{"match_labels":{"a b":"c"}}`, refused: "match_labels: "},
		"attribute":        {argument: `{"matchLabels":{"a":"b"}}`, refused: "matchLabels: there is no such attribute. There are: match_expressions, match_labels"},
		"nested attribute": {argument: `{"match_expressions":[{"key":"a","op":"In"}]}`, refused: "match_expressions[0].op: there is no such attribute. There are: key, operator, values"},
		"type":             {argument: `{"match_expressions":[{"key":"a","operator":"In","values":"b"}]}`, refused: "match_expressions[0].values: this has to be a list, and is a text"},
		"no object":        {argument: `"env=prod"`, refused: "this has to be an object, and is a text"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := selectorText(t.Context(), value(t, test.argument))
			compare(t, got, err, test.want, test.refused)
			if test.refused != "" {
				return
			}
			// And back.
			parsed, err := parsedSelector(t.Context(), got)
			if err != nil {
				t.Fatal(err)
			}
			again, err := selectorText(t.Context(), types.DynamicValue(parsed.(attr.Value)))
			compare(t, again, err, got, "")
		})
	}
}

func TestParseLabelSelector(t *testing.T) {
	type all = []metav1.LabelSelectorRequirement
	one := func(key, operator string, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: values}
	}
	for text, test := range map[string]struct {
		labels      map[string]string
		expressions all
		refused     string
	}{
		"":                      {labels: map[string]string{}, expressions: all{}},
		"a=1,b==2":              {labels: map[string]string{"a": "1", "b": "2"}, expressions: all{}},
		"a=1,a=2":               {labels: map[string]string{"a": "1"}, expressions: all{one("a", "In", "2")}},
		"a in (y, x),b!=1,!c,d": {labels: map[string]string{}, expressions: all{one("a", "In", "x", "y"), one("b", "NotIn", "1"), one("c", "DoesNotExist"), one("d", "Exists")}},
		"a>5":                   {refused: "is not possible in the label selector of an object"},
		"a in":                  {refused: "found"},
	} {
		t.Run(text, func(t *testing.T) {
			labels, expressions, err := parseSelector(text)
			compare(t, []any{labels, expressions}, err, []any{test.labels, test.expressions}, test.refused)
		})
	}
}

func TestKubeconfig(t *testing.T) {
	const certificate = `-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`
	for name, test := range map[string]struct {
		argument string
		want     string // server user-name-or-token namespace context
		refused  string
	}{
		"token":       {argument: `{"host":"https://a:6443","token":"t"}`, want: "https://a:6443 t  muster"},
		"names":       {argument: `{"host":"https://a:6443","token":"t","name":"paris","namespace":"shop"}`, want: "https://a:6443 t shop paris"},
		"null":        {argument: `{"host":"https://a:6443","token":"t","exec":null,"client_certificate":null}`, want: "https://a:6443 t  muster"},
		"password":    {argument: `{"host":"https://a:6443","username":"u","password":"p","cluster_ca_certificate":"` + certificate + `"}`, want: "https://a:6443 u/p  muster"},
		"program":     {argument: `{"host":"https://a:6443","exec":{"api_version":"client.authentication.k8s.io/v1","command":"aws","args":["eks","get-token"],"env":{"A":"b"}}}`, want: "https://a:6443 aws eks get-token  muster"},
		"nobody":      {argument: `{"host":"https://a:6443","impersonate":{"user":"jane","groups":["g"]}}`, want: "https://a:6443 as jane  muster"},
		"no host":     {argument: `{"token":"t"}`, refused: "Nothing says where the API server is"},
		"bad host":    {argument: `{"host":"a:6443","token":"t"}`, refused: `host: "a:6443" is not a URL`},
		"misspelt":    {argument: `{"host":"https://a","tokn":"t"}`, refused: "tokn: there is no such attribute. There are: client_certificate, "},
		"two":         {argument: `{"host":"https://a","token":"t","username":"u","password":"p"}`, refused: "token and username are both set"},
		"half":        {argument: `{"host":"https://a","client_key":"-----BEGIN X-----\nAAAA\n-----END X-----\n"}`, refused: "client_key is set and client_certificate is not"},
		"not PEM":     {argument: `{"host":"https://a","cluster_ca_certificate":"LS0tLS1CRUdJTg=="}`, refused: "base64decode"},
		"no command":  {argument: `{"host":"https://a","exec":{"api_version":"client.authentication.k8s.io/v1"}}`, refused: "exec.command is missing"},
		"old program": {argument: `{"host":"https://a","exec":{"api_version":"v1","command":"x"}}`, refused: "exec.api_version: "},
		"nested":      {argument: `{"host":"https://a","exec":{"cmd":"x"}}`, refused: "exec.cmd: there is no such attribute. There are: api_version, args, command, env"},
		"type":        {argument: `{"host":"https://a","insecure":"yes"}`, refused: "insecure: this has to be true or false, and is a text"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := renderKubeconfig(t.Context(), value(t, test.argument))
			if test.refused != "" {
				compare(t, text, err, nil, test.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			config, err := clientcmd.Load([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			chosen := config.Contexts[config.CurrentContext]
			user := config.AuthInfos[chosen.AuthInfo]
			var who string
			switch {
			case user.Exec != nil:
				who = user.Exec.Command + " " + strings.Join(user.Exec.Args, " ")
			case user.Username != "":
				who = user.Username + "/" + user.Password
			case user.Impersonate != "":
				who = "as " + user.Impersonate
			default:
				who = user.Token
			}
			if got := strings.Join([]string{config.Clusters[chosen.Cluster].Server, who, chosen.Namespace, config.CurrentContext}, " "); got != test.want {
				t.Errorf("got %s, want %s, in\n%s", got, test.want, text)
			}
		})
	}
}

func TestKlusterletManifests(t *testing.T) {
	const kubeconfig = `apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: \"https://a\"}}]\nusers: [{name: a, user: {token: hunter2}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n`
	for name, test := range map[string]struct {
		argument string
		has, not []string
		refused  string
	}{
		"without a secret": {argument: `{"cluster_name":"paris"}`, has: []string{`"kind":"Deployment"`, `--cluster-name=paris`, `"name":"open-cluster-management-agent"`}, not: []string{`"kind":"Secret"`, `"status"`, "null"}},
		"with all":         {argument: `{"cluster_name":"paris","namespace":"agent","image":"example.com/muster:1","args":["-v=2"],"labels":{"team":"shop"},"bootstrap_kubeconfig":"` + kubeconfig + `"}`, has: []string{`"kind":"Secret"`, "example.com/muster:1", `"-v=2"`, `"team":"shop"`, `"namespace":"agent"`}},
		"no name":          {argument: `{"image":"x"}`, refused: "cluster_name is missing"},
		"name":             {argument: `{"cluster_name":"Paris"}`, refused: `cluster_name: "Paris" cannot be used`},
		"reserved":         {argument: `{"cluster_name":"default"}`, refused: "everybody's"},
		"namespace":        {argument: `{"cluster_name":"paris","namespace":"A"}`, refused: `namespace: "A" cannot be used`},
		"label":            {argument: `{"cluster_name":"paris","labels":{"a b":"c"}}`, refused: "labels: "},
		"kubeconfig":       {argument: `{"cluster_name":"paris","bootstrap_kubeconfig":"/some/path"}`, refused: "bootstrap_kubeconfig: read the kubeconfig content: \"/some/path\" is the path of a file"},
		"attribute":        {argument: `{"name":"paris"}`, refused: "name: there is no such attribute. There are: affinity, annotations, args, bootstrap_kubeconfig, cluster_name, "},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := renderKlusterlet(t.Context(), value(t, test.argument))
			if test.refused != "" {
				compare(t, objects, err, nil, test.refused)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(objects)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.has {
				if !strings.Contains(string(text), want) {
					t.Errorf("%s is missing in %s", want, text)
				}
			}
			for _, unwanted := range test.not {
				if strings.Contains(string(text), unwanted) {
					t.Errorf("%s is in %s", unwanted, text)
				}
			}
		})
	}
}

// Charts separate documents in ways that are YAML, if not pretty.
func TestManifestsFromYAMLOfCharts(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n", "apiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n"
	for name, text := range map[string]string{
		"a comment behind the separator": "--- # first\n" + a + "--- # second\n" + b,
		"blanks behind it":               "---  \n" + a + "---\t\n" + b,
		"comments alone":                 "# Source: a\n---\n# Source: b\n---\n" + a + "---\n# off\n\n---\n" + b,
		"an end of document":             "---\n" + a + "...\n---\n" + b,
		"a separator in a text":          a + "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: b\n  annotations:\n    x: |\n      a\n      ---\n      b\n",
	} {
		objects, err := objectsOf(types.DynamicValue(types.StringValue(text)))
		if err != nil || len(objects) != 2 {
			t.Errorf("%s: got %v, %v", name, objects, err)
		}
	}
}
