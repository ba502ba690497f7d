package template

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/muster-fleet/terraform-provider-muster/runtime/api/addon/v1alpha1"
	"github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster"
	clusterv1 "github.com/muster-fleet/terraform-provider-muster/runtime/api/cluster/v1"
)

// podSpecAt is where the pods of Deployments and DaemonSets are said.
const podSpecAt = "spec.template.spec"

// changes are what an add-on's registrations and configuration do to the pods of its
// Deployments and DaemonSets.
type changes struct {
	addOn       string
	environment []variable
	mounts      []mount
	proxy       proxy
	nodes       *nodePlacement
	registries  []v1alpha1.ImageMirror
	resources   []resourceRule
	left        *budget
}

// variable is a variable of a container's environment.
type variable struct{ name, value string }

func (t *Template) changesOf(in Input, variables variables, left *budget) (*changes, error) {
	c := &changes{
		addOn: in.AddOn.Name, left: left,
		environment: environmentOf(t.source.Spec.Registration != nil, variables, in.Config),
	}
	var err error
	if c.mounts, err = mountsOf(in.AddOn.Name, t.source.Spec.Registration); err != nil {
		return nil, err
	}
	if c.registries, err = registriesOf(in.Cluster, in.Config); err != nil {
		return nil, err
	}
	if in.Config == nil {
		return c, nil
	}
	spec := &in.Config.Spec
	if c.resources, err = resourceRulesOf(spec.ResourceRequirements); err == nil {
		c.proxy, err = proxyOf(in.AddOn.Name, spec.ProxyConfig)
	}
	if err == nil {
		c.nodes, err = nodePlacementOf(spec.NodePlacement)
	}
	if err != nil {
		return nil, fmt.Errorf("AddOnDeploymentConfig \"%s/%s\": %w", in.Config.Namespace, in.Config.Name, err)
	}
	return c, nil
}

// environmentOf are the variables that every container gets: those that need no
// configuration, though one may give HUB_KUBECONFIG another value.
func environmentOf(registers bool, variables variables, config *v1alpha1.AddOnDeploymentConfig) (out []variable) {
	add := func(name string) {
		if value, ok := variables[name]; ok {
			out = append(out, variable{name, value})
		}
	}
	if registers {
		add(hubKubeconfigVariable)
	}
	add(clusterNameVariable)
	if forcedNamespace(config) != "" {
		add(installNamespaceVariable)
	}
	return out
}

// resourceOf is the plural name of a kind whose pods are changed, and "" of others.
func resourceOf(apiVersion, kind string) string {
	if !strings.HasPrefix(apiVersion, "apps/") {
		return ""
	}
	switch kind {
	case "Deployment":
		return "deployments"
	case "DaemonSet":
		return "daemonsets"
	}
	return ""
}

func isWorkload(o *unstructured.Unstructured) bool {
	return resourceOf(o.GetAPIVersion(), o.GetKind()) != ""
}

// apply changes a Deployment or DaemonSet. One that says nothing of its pods stays as
// it is: it may be there for a few fields of an object that somebody else has made.
func (c *changes) apply(o *unstructured.Unstructured) error {
	spec, err := objectIn(o.Object, "", "spec")
	if err == nil {
		spec, err = objectIn(spec, "spec", "template")
	}
	if err == nil {
		spec, err = objectIn(spec, "spec.template", "spec")
	}
	if err != nil || spec == nil {
		return err
	}
	containers, err := objectsIn(spec, podSpecAt, "containers")
	if err != nil {
		return err
	}
	environment := append(c.environment[:len(c.environment):len(c.environment)], c.proxy.environment...)
	added := 0
	for _, v := range environment {
		added += len(v.name) + len(v.value) + overhead
	}
	if err := c.left.grow(len(containers)*added, "the variables of the proxy and of the add-on"); err != nil {
		return err
	}
	for i, container := range containers {
		at := fmt.Sprintf("%s.containers[%d]", podSpecAt, i)
		if err := addEnvironment(container, at, environment); err != nil {
			return err
		}
		if err := c.replaceImage(container, at); err != nil {
			return err
		}
		if err := c.setResources(container, at, resourceOf(o.GetAPIVersion(), o.GetKind()), o.GetName()); err != nil {
			return err
		}
	}
	for _, m := range c.mounts {
		if err := m.add(spec, containers, c.left); err != nil {
			return err
		}
	}
	if c.proxy.mount != nil {
		if err := c.proxy.mount.add(spec, containers, c.left); err != nil {
			return err
		}
	}
	if c.nodes != nil {
		if err := c.left.grow(c.nodes.size, "the nodePlacement"); err != nil {
			return err
		}
	}
	c.nodes.apply(spec)
	return nil
}

// addEnvironment adds variables behind those that a container has. One that it has
// already goes: the last of several counts in Kubernetes, and server-side apply refuses
// several.
func addEnvironment(container map[string]any, at string, variables []variable) error {
	if len(variables) == 0 {
		return nil
	}
	own, err := objectsIn(container, at, "env")
	if err != nil {
		return err
	}
	all := make([]any, 0, len(own)+len(variables))
	for _, v := range own {
		if name, _ := v["name"].(string); !contains(variables, name) {
			all = append(all, v)
		}
	}
	for _, v := range variables {
		item := map[string]any{"name": v.name}
		if v.value != "" {
			item["value"] = v.value
		}
		all = append(all, item)
	}
	container["env"] = all
	return nil
}

func contains(variables []variable, name string) bool {
	for _, v := range variables {
		if v.name == name {
			return true
		}
	}
	return false
}

// nodePlacement is where pods run.
type nodePlacement struct {
	selector    map[string]any // nil leaves that of the template
	tolerations []any          // nil leaves those of the template
	size        int            // in bytes
}

// nodePlacementOf are the nodes of a configuration. A selector replaces that of the
// template and its tolerations, with none if need be; tolerations alone replace
// tolerations.
func nodePlacementOf(p *v1alpha1.NodePlacement) (*nodePlacement, error) {
	if p == nil || (p.NodeSelector == nil && len(p.Tolerations) == 0) {
		return nil, nil
	}
	out := &nodePlacement{tolerations: []any{}}
	if p.NodeSelector != nil {
		out.selector = make(map[string]any, len(p.NodeSelector))
		for name, value := range p.NodeSelector {
			out.selector[name] = value
		}
	}
	for i := range p.Tolerations {
		toleration, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&p.Tolerations[i])
		if err != nil {
			return nil, fmt.Errorf("spec.nodePlacement.tolerations[%d]: %w", i, err)
		}
		out.tolerations = append(out.tolerations, toleration)
	}
	out.size = sizeOf(out.selector) + sizeOf(out.tolerations)
	return out, nil
}

func (p *nodePlacement) apply(spec map[string]any) {
	if p == nil {
		return
	}
	if p.selector != nil {
		setOrRemove(spec, "nodeSelector", runtime.DeepCopyJSON(p.selector), len(p.selector))
	}
	setOrRemove(spec, "tolerations", runtime.DeepCopyJSONValue(p.tolerations), len(p.tolerations))
}

func setOrRemove(fields map[string]any, field string, value any, size int) {
	if size == 0 {
		delete(fields, field)
		return
	}
	fields[field] = value
}

// objectIn is the object in a field, and nil where there is none. at is where fields
// stands, for messages.
func objectIn(fields map[string]any, at, field string) (map[string]any, error) {
	switch x := fields[field].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return x, nil
	default:
		return nil, fmt.Errorf("%s is %s, and has to be an object", join(at, field), quoted(fmt.Sprint(x)))
	}
}

// listIn is the list in a field, and nil where there is none.
func listIn(fields map[string]any, at, field string) ([]any, error) {
	switch x := fields[field].(type) {
	case nil:
		return nil, nil
	case []any:
		return x, nil
	default:
		return nil, fmt.Errorf("%s is %s, and has to be a list", join(at, field), quoted(fmt.Sprint(x)))
	}
}

// objectsIn are the objects in a list.
func objectsIn(fields map[string]any, at, field string) ([]map[string]any, error) {
	list, err := listIn(fields, at, field)
	if err != nil {
		return nil, err
	}
	out := make([]map[string]any, 0, len(list))
	for i, item := range list {
		x, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%s[%d] is %s, and has to be an object", join(at, field), i, quoted(fmt.Sprint(item)))
		}
		out = append(out, x)
	}
	return out, nil
}

func join(at, field string) string {
	if at == "" {
		return field
	}
	return at + "." + field
}

// registriesOf are the registries of images in a cluster: those of the configuration,
// even if they are an empty list, or else those of the cluster's annotation.
func registriesOf(c *clusterv1.ManagedCluster, config *v1alpha1.AddOnDeploymentConfig) ([]v1alpha1.ImageMirror, error) {
	if config != nil && config.Spec.Registries != nil {
		return config.Spec.Registries, nil
	}
	if c == nil || c.Annotations[cluster.ImageRegistriesAnnotation] == "" {
		return nil, nil
	}
	var said struct {
		Registries []v1alpha1.ImageMirror `json:"registries"`
	}
	value := c.Annotations[cluster.ImageRegistriesAnnotation]
	if err := json.Unmarshal([]byte(value), &said); err != nil {
		return nil, fmt.Errorf("ManagedCluster %q: its annotation %s, %s, can't be read: %w: write it as"+
			` {"registries":[{"source":"quay.io/team","mirror":"registry.example.org/team"}]}`, c.Name, cluster.ImageRegistriesAnnotation, quoted(value), err)
	}
	return said.Registries, nil
}

// replaceImage takes a container's image from the registry that fits it last. Each
// looks at the image as the template has it.
func (c *changes) replaceImage(container map[string]any, at string) error {
	if len(c.registries) == 0 || container["image"] == nil {
		return nil
	}
	own, ok := container["image"].(string)
	if !ok {
		return fmt.Errorf("%s.image is %s, and has to be a text", at, quoted(fmt.Sprint(container["image"])))
	}
	if own == "" {
		return nil
	}
	const what = "the registries"
	if err := c.left.step(len(c.registries), what); err != nil {
		return err
	}
	for i := len(c.registries) - 1; i >= 0; i-- {
		r := c.registries[i]
		if image := imageFrom(r, own); image != own {
			if image == "" {
				return fmt.Errorf("%s.image %q: nothing is left of it with the registry %q instead of %q: name a mirror", at, own, r.Mirror, r.Source)
			}
			if err := c.left.grow(len(image), what); err != nil {
				return err
			}
			container["image"] = image
			return nil
		}
	}
	return nil
}

// imageFrom is an image as a mirror has it: with the beginning source replaced, or,
// without a source, the last part of its name. It is the image itself where the mirror
// does not fit it. Tags, digests and ports stay as they are.
func imageFrom(r v1alpha1.ImageMirror, image string) string {
	source, mirror := strings.TrimSuffix(r.Source, "/"), strings.TrimSuffix(r.Mirror, "/")
	rest, fits := strings.CutPrefix(image, source)
	switch {
	case !fits:
		return image
	case source == "":
		rest = "/" + image[strings.LastIndex(image, "/")+1:]
	}
	if mirror == "" {
		return strings.TrimPrefix(rest, "/")
	}
	return mirror + rest
}
