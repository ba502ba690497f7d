// Package template makes the objects of an add-on for one cluster from its
// AddOnTemplate and its AddOnDeploymentConfig. It is pure: it reads nothing, keeps
// nothing, and the same input gives the same result.
//
// Parse reads a template once, for all clusters and as long as the template's
// generation stays; the Template may be used by many at a time. Template.Render then
// makes the objects of a cluster. Render does both for who needs it once.
//
// # How the API's objects get in
//
// Templates and configurations are taken as v1alpha1, the stored version, and v1beta1
// has the same fields. Who holds an object without a Go type, as the hub does for its
// hash, makes a typed one of it by runtime.DefaultUnstructuredConverter. Nothing is
// lost: manifests stay the JSON that they are, and agentInstallNamespace is a pointer,
// so the empty text, which means something, differs from nothing.
//
// # What counts in a configuration
//
// The order in which a container's environment grows, names of Secrets, volumes and
// paths, and which of several entries counts are those of Open Cluster Management.
// Deployments and DaemonSets of the group apps are changed, and their containers, not
// their init containers. Fields that nothing names stay as they are.
package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
	workv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/work/v1"
)

// Input is what an add-on is made from in a cluster. Nothing of it is changed.
type Input struct {
	// Cluster gives its name, and its annotation with registries of images.
	Cluster *clusterv1.ManagedCluster
	// AddOn gives the add-on's name, which Secrets and ConfigMaps are named after.
	AddOn *v1alpha1.ManagedClusterAddOn
	// Template is read by Render, and not by Template.Render, whose template it is.
	Template *v1alpha1.AddOnTemplate
	// Config is the deployment configuration, nil for none. One that has been read
	// from a hub has its defaults; without an agentInstallNamespace it counts as if it
	// had this default, too.
	Config *v1alpha1.AddOnDeploymentConfig
	// Values stand for placeholders that neither the configuration nor the hub itself has
	// a value for: texts, numbers and booleans. A text that is nothing but a placeholder
	// becomes the value itself. RenderFor finds them out.
	Values map[string]any
}

// Result is an add-on in a cluster. It belongs to the caller: nothing of it is shared
// with the input or with other results.
type Result struct {
	// Objects are in the order of the template, hooks and orphaned ones included, and
	// behind them what the configuration adds. No two are of one kind and name.
	Objects []*unstructured.Unstructured
	// Namespace is that of the agent, as InstallNamespace gives it: it belongs into
	// status.namespace, and credentials are put there.
	Namespace string
	// ManifestConfigs are those of the template, and a rule for each Deployment and
	// DaemonSet that reports what the add-on's health is derived from.
	ManifestConfigs []workv1.ManifestConfigOption
	// Unknown are the names of placeholders that nothing gives a value for, sorted.
	// They were left out of the texts.
	Unknown []string
}

// Template is an AddOnTemplate that has been read.
type Template struct {
	source    *v1alpha1.AddOnTemplate
	manifests []manifest
	// placeholders are the names of placeholders, sorted, and counts how often each
	// stands in the manifests and in the names of manifestConfigs.
	placeholders []string
	counts       map[string]int
}

// manifest is one object of a template.
type manifest struct {
	// at says where it stands, for messages: "manifests[3]", or "manifests[3].items[0]".
	at   string
	tree map[string]any
}

// Parse reads a template. Its problems are those that it has in every cluster.
func Parse(t *v1alpha1.AddOnTemplate) (*Template, error) {
	out, problems := parse(t)
	if len(problems) > 0 {
		return nil, fmt.Errorf("AddOnTemplate %q: %w", t.Name, problems[0])
	}
	return out, nil
}

// Placeholders are the names of the placeholders in the template, sorted.
func (t *Template) Placeholders() []string { return slices.Clone(t.placeholders) }

// Render parses the template and renders it once.
func Render(in Input) (Result, error) {
	if in.Template == nil {
		return Result{}, fmt.Errorf("the add-on has no AddOnTemplate: name one in the ClusterManagementAddOn")
	}
	t, err := Parse(in.Template)
	if err != nil {
		return Result{}, err
	}
	return t.Render(in)
}

// parse reads as much of a template as can be read.
func parse(source *v1alpha1.AddOnTemplate) (*Template, []error) {
	t := &Template{source: source, counts: map[string]int{}}
	var problems []error
	for i, m := range source.Spec.AgentSpec.Workload.Manifests {
		at := fmt.Sprintf("manifests[%d]", i)
		read, err := readManifest(at, m.Raw)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		t.manifests = append(t.manifests, read...)
	}
	for _, m := range t.manifests {
		countPlaceholders(m.tree, t.counts)
	}
	for _, c := range source.Spec.AgentSpec.ManifestConfigs {
		countIn(t.counts, c.ResourceIdentifier.Name, c.ResourceIdentifier.Namespace)
	}
	t.placeholders = slices.Sorted(maps.Keys(t.counts))
	return t, problems
}

// readManifest reads a manifest. A List is as many as it has items.
func readManifest(at string, raw []byte) ([]manifest, error) {
	if len(raw) == 0 {
		return nil, fmt.Errorf("%s is empty: remove it, or write an object there", at)
	}
	tree, err := parseTree(raw)
	if err != nil {
		return nil, fmt.Errorf("%s %w", at, err)
	}
	object, err := objectOf(tree)
	if err != nil {
		return nil, fmt.Errorf("%s %w", at, err)
	}
	if object["kind"] != "List" || object["apiVersion"] != "v1" {
		return []manifest{{at, object}}, nil
	}
	items, ok := object["items"].([]any)
	if !ok {
		return nil, fmt.Errorf("%s (List) has no items: write its objects there, or remove it", at)
	}
	var out []manifest
	for i := range items {
		where := fmt.Sprintf("%s.items[%d]", at, i)
		item, err := objectOf(items[i])
		if err == nil && item["kind"] == "List" {
			err = errors.New("is a List inside a List: put its items into the outer one")
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w", where, err)
		}
		out = append(out, manifest{where, item})
	}
	return out, nil
}

// objectOf is a tree that is an object.
func objectOf(tree any) (map[string]any, error) {
	switch x := tree.(type) {
	case map[string]any:
		if len(x) > 0 {
			return x, nil
		}
	case nil:
	case patterned:
		return nil, errors.New("has a placeholder in the name of one of its first fields: write apiVersion, kind, metadata and so on as they are")
	default:
		return nil, errors.New("is no object: write an object with apiVersion, kind and metadata")
	}
	return nil, errors.New("is empty: remove it, or write an object there")
}

// References are what an add-on is made from in a cluster, as its status says.
type References struct {
	// Template is the AddOnTemplate, with the hash that it has to have.
	Template v1alpha1.ConfigSpecHash
	// Config is the AddOnDeploymentConfig, with the hash that it has to have, and nil
	// for none.
	Config *v1alpha1.ConfigSpecHash
}

// NoTemplateError says that an add-on does not know its template yet: there is none in
// its status, or none that exists. That is so before the hub has resolved its
// configurations, and ends by itself unless nobody has named a template.
type NoTemplateError struct {
	AddOn string
	// Name is that of a template that does not exist, and "" where none is named.
	Name string
}

func (e *NoTemplateError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("addon %s template not found in status", e.AddOn)
	}
	return fmt.Sprintf("addon %s template desired spec hash is empty: there is no AddOnTemplate %q: create it, or name another one", e.AddOn, e.Name)
}

// ReferencesOf are the references of an add-on. Of several of one kind the first one
// counts, as upstream. The error is a NoTemplateError, or says that the deployment
// configuration does not exist.
func ReferencesOf(a *v1alpha1.ManagedClusterAddOn) (References, error) {
	var out References
	template := firstOf(a, addon.TemplateResource)
	if template == nil {
		return out, &NoTemplateError{AddOn: a.Name}
	}
	if template.SpecHash == "" {
		return out, &NoTemplateError{AddOn: a.Name, Name: template.Name}
	}
	out.Template, out.Config = *template, firstOf(a, addon.DeploymentConfigResource)
	if out.Config != nil && out.Config.SpecHash == "" {
		return out, fmt.Errorf("addon %s deployment config desired spec hash is empty: there is no AddOnDeploymentConfig \"%s/%s\":"+
			" create it, or name another one", a.Name, out.Config.Namespace, out.Config.Name)
	}
	return out, nil
}

// firstOf is the first configuration of a kind, and nil for none. One that says nothing
// of what is desired counts as one without a hash.
func firstOf(a *v1alpha1.ManagedClusterAddOn, resource string) *v1alpha1.ConfigSpecHash {
	for i := range a.Status.ConfigReferences {
		r := &a.Status.ConfigReferences[i]
		if r.Group != addon.GroupName || r.Resource != resource {
			continue
		}
		if r.DesiredConfig == nil {
			return &v1alpha1.ConfigSpecHash{ConfigReferent: r.ConfigReferent}
		}
		return r.DesiredConfig.DeepCopy()
	}
	return nil
}
