package function

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	manifests "github.com/muster-fleet/terraform-provider-muster/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/attribute"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/base/kube"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/klusterlet"
	"github.com/muster-fleet/terraform-provider-muster/provider/internal/workload"
)

// The functions whose results are Kubernetes objects.

// NewManifestsFromYAML is manifests_from_yaml.
func NewManifestsFromYAML() function.Function {
	return declared[types.Dynamic, any]{
		name: "manifests_from_yaml",
		run: func(_ context.Context, argument types.Dynamic) (any, error) {
			objects, err := objectsOf(argument)
			return hcl(objects, err)
		},
		summary: "The Kubernetes objects in YAML or JSON texts",
		description: "Reads Kubernetes objects from YAML or JSON texts with any number of documents, " +
			"and returns them as a list of HCL objects, in order: for `objects` of `muster_manifest_work`, for " +
			"`for` expressions, and to add labels with `merge`. Empty documents are left out, and the items of " +
			"a `List` are returned one by one. An object without `apiVersion`, `kind` or `metadata.name`, and a " +
			"key that is there twice, are errors that name file, document and line.\n\n" +
			"For a directory, give a map from file names to texts, which Terraform's own functions `fileset` " +
			"and `file` make; the files are then read in the order of their names. The function itself reads no " +
			"files, because Terraform expects functions to depend on their arguments alone.",
		argument: "text", about: "One text, a list of texts, or a map from file names to texts.",
		returns: function.DynamicReturn{},
	}
}

// objectsOf reads one text, or several.
func objectsOf(argument types.Dynamic) ([]any, error) {
	value, err := workload.JSONValue(argument)
	if err != nil {
		return nil, err
	}
	objects := []any{}
	add := func(source string, value any) error {
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("%sit has to be a text with YAML or JSON; read a file with file()", source)
		}
		found, err := documents(text)
		if err != nil {
			return fmt.Errorf("%s%w", source, err)
		}
		objects = append(objects, found...)
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if err := add(name+": ", value[name]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, text := range value {
			if err := add(fmt.Sprintf("element %d: ", i), text); err != nil {
				return nil, err
			}
		}
	default:
		return objects, add("", value)
	}
	return objects, nil
}

// documents reads the objects of one text. Errors name the document and its line.
func documents(text string) ([]any, error) {
	objects := []any{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for n, line := 1, 1; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("document %d, line %d: %w", n, line, err)
		}
		found, err := objectsIn(document, line)
		if err != nil {
			return nil, fmt.Errorf("document %d, line %d: %w", n, beginning(document, line), err)
		}
		objects = append(objects, found...)
		line += bytes.Count(document, []byte("\n")) + 1 // The separator is no part of it.
	}
}

// beginning is the line of the first thing in a document that begins at line.
func beginning(document []byte, line int) int {
	for text := range strings.Lines(string(document)) {
		if trimmed := strings.TrimSpace(text); trimmed != "" && !strings.HasPrefix(trimmed, "#") &&
			!strings.HasPrefix(trimmed,
				"---") {
			break
		}
		line++
	}
	return line
}

// objectsIn are the objects of one document: none, one, or the items of a list.
func objectsIn(document []byte, line int) ([]any, error) {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return nil, fmt.Errorf("it is neither YAML nor JSON: %s", inTheText(err.Error(), line))
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
	}
	fields, ok := value.(map[string]any)
	switch {
	case value == nil:
		return nil, nil
	case !ok || fields["kind"] != "List" || fields["apiVersion"] != "v1":
		_, err := workload.NewObject(value)
		return []any{value}, err
	}
	items, _ := fields["items"].([]any)
	for i, item := range items {
		if _, err := workload.NewObject(item); err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
	}
	return items, nil
}

// inTheText makes the line numbers of a parser, which counts from the beginning of
// the document, those of the whole text.
func inTheText(message string, line int) string {
	return regexp.MustCompile(`\bline (\d+)`).ReplaceAllStringFunc(message, func(found string) string {
		number, err := strconv.Atoi(strings.TrimPrefix(found, "line "))
		if err != nil {
			return found
		}
		return fmt.Sprintf("line %d", number+line-1)
	})
}

// NewKlusterletManifests is klusterlet_manifests.
func NewKlusterletManifests() function.Function {
	return declared[types.Dynamic, any]{
		name: "klusterlet_manifests",
		run: func(ctx context.Context, argument types.Dynamic) (any, error) {
			objects, err := renderKlusterlet(ctx, argument)
			return hcl(objects, err)
		},
		summary: "The objects that muster_klusterlet installs in a cluster",
		description: "Returns the objects of the agent as a list, in the order in which they can be " +
			"applied, for those who install it by another way than `muster_klusterlet`: GitOps, cloud-init, or " +
			"the provider that makes the cluster. Write them with `yamlencode`.\n\n" +
			"The Secret with the bootstrap kubeconfig is only among them when `bootstrap_kubeconfig` is given. " +
			"Otherwise create the Secret `bootstrap-hub-kubeconfig`, with the key `kubeconfig`, in the agent's " +
			"namespace.",
		argument: "klusterlet", about: "An object with attributes of `muster_klusterlet`: `cluster_name`, which is " +
			"required, `namespace`, and those that say how the agent runs: " +
			"`" + strings.Join(klusterlet.AgentOptionNames(), "`, `") + "`. Further `bootstrap_kubeconfig`, " +
			"the text of a kubeconfig, which is a secret: the result is sensitive or ephemeral when it is.",
		returns: function.DynamicReturn{},
	}
}

func renderKlusterlet(ctx context.Context, argument types.Dynamic) ([]any, error) {
	var described resource.SchemaResponse
	klusterlet.New().Schema(ctx, resource.SchemaRequest{}, &described)
	kinds := map[string]attr.Type{
		"cluster_name": types.StringType, "namespace": types.StringType, "bootstrap_kubeconfig": types.StringType,
	}
	for _, name := range klusterlet.AgentOptionNames() {
		kinds[name] = described.Schema.Attributes[name].GetType()
	}
	given, err := read(ctx, argument, kinds)
	if err != nil {
		return nil, err
	}
	name, namespace := given.Text("cluster_name"), given.Text("namespace")
	bootstrap := given.Text("bootstrap_kubeconfig")
	if name == "" {
		return nil, errors.New("cluster_name is missing; it is the cluster's name on the hub")
	}
	err = checked(ctx, "cluster_name", name, attribute.ValidClusterName())
	if err == nil && namespace != "" {
		err = checked(ctx, "namespace", namespace, attribute.ValidName("namespace"))
	}
	if err != nil {
		return nil, err
	}
	var diags diag.Diagnostics
	if klusterlet.CheckAgentOptions(given, path.Empty(), &diags); diags.HasError() {
		return nil, errors.New(diags[0].Detail())
	}
	options := klusterlet.AgentOptionsOf(given)
	options.Namespace = namespace
	if bootstrap != "" {
		if _, err := (kube.Connection{Kubeconfig: bootstrap}).RESTConfig(); err != nil {
			return nil, fmt.Errorf("bootstrap_kubeconfig: %w", err)
		}
	}
	objects := []any{}
	for _, object := range manifests.Render(manifests.Options{
		ClusterName: name, AgentOptions: options, BootstrapKubeconfig: []byte(bootstrap),
	}) {
		text, err := json.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("write %s as JSON: %w", object.GetName(), err)
		}
		parsed, err := workload.ObjectFromJSON(text)
		if err != nil {
			return nil, err
		}
		value, err := parsed.Value()
		if err != nil {
			return nil, err
		}
		delete(value, "status")
		objects = append(objects, value)
	}
	return objects, nil
}

// checked applies a validator of attributes to an attribute of an argument.
func checked(ctx context.Context, name, value string, v validator.String) error {
	resp := validator.StringResponse{}
	v.ValidateString(ctx, validator.StringRequest{Path: path.Root(name), ConfigValue: types.StringValue(value)}, &resp)
	if resp.Diagnostics.HasError() {
		return fmt.Errorf("%s: %s", name, resp.Diagnostics[0].Detail())
	}
	return nil
}
