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
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
